"""Ranks that wait at full speed are told from ranks that compute, by looks at where they are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from nbdist.launch.stalls.stall_watch import SpinWatch, StallWatch
from nbdist.store.reports import Collective, RankAnswer, TakenStacks

LIMIT = 60.0
TORCH = "/site-packages/torch/distributed/distributed_c10d.py"


def dump(*calls: tuple[str, int, str]) -> str:
    lines = "".join(f'  File "{file}", line {line} in {function}\n' for file, line, function in calls)
    return f"Current thread 0x00007f (most recent call first):\n{lines}"


class Ranks:
    """Two ranks whose processes and stacks a test makes up: rank 0 waits for rank 1."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.program = path / "train.py"
        self.program.write_text("loss = loss.item()\nbig = fit(data)\nfor x in data: print(x)\n")
        self.watch = SpinWatch(LIMIT, proc=str(path))
        self.now = 1000.0
        self.cpu = {0: 0.0, 1: 0.0}
        self.children = 0.0
        self.threads = 0.0
        self.pages = 0
        self.moved = 0
        self.beats = {0: 1, 1: 1}
        self.busy = {0, 1}
        self.number = 7
        self.pending = {0}
        self.on_device = False
        self.line = {0: 1, 1: 2}
        self.mute: set[int] = set()
        for rank in (0, 1):
            self.watch.add(rank, 40 + rank)

    def pass_time(self, seconds: float, change: Callable[[Ranks], object] = lambda _: None) -> bool:
        """Let time go by; whether the ranks are stuck at the end of it."""
        for _ in range(round(seconds / 2)):
            self.now += 2
            for rank in self.busy:
                self.cpu[rank] += 2
            if self.watch.is_due(self.now):
                change(self)
                self._look()
        return self.watch.still_since(lambda rank: rank not in self.busy) is not None and self.watch.waits

    def _look(self) -> None:
        for rank in (0, 1):
            self._write(rank)
            cpu = self.cpu[rank] + (self.children + self.threads if rank == 1 else 0.0)
            self.watch.used(rank, cpu, [40 + rank], self.now)
        self.watch.took(TakenStacks(time=0.0, attempt=1, ranks=(self._at(0), self._at(1))), self.now)

    def _at(self, rank: int) -> RankAnswer:
        over = rank not in self.pending
        collective = Collective(
            name="", number=self.number, over=over, last=self.number, on_device=self.on_device
        )
        stack = "" if rank in self.mute else dump((str(self.program), self.line[rank], "<module>"))
        return RankAnswer(rank=rank, text=stack, collectives={"0": collective}, beats=self.beats[rank])

    def _write(self, rank: int) -> None:
        pid = str(40 + rank)
        for folder in (self.path / pid, self.path / pid / "task" / pid):
            folder.mkdir(parents=True, exist_ok=True)
            threads = self.threads if rank == 1 and folder.parent == self.path else 0.0
            ticks = round(100 * (self.cpu[rank] + threads))
            pages = self.pages if rank == 1 else 0
            fields = ["R", "1", "1", "1", "0", "-1", "0", str(pages), "0", "0", "0", str(ticks), "0"]
            (folder / "stat").write_text(f"{pid} (python) {' '.join(fields)} 0 0 20 0")
        (self.path / pid / "io").write_text(f"rchar: {self.moved if rank == 1 else 0}\nwchar: 0\n")


@pytest.fixture
def ranks(tmp_path: Path) -> Ranks:
    return Ranks(tmp_path)


def test_ranks_that_spin_in_calls_that_wait_are_stuck_after_the_limit(ranks: Ranks) -> None:
    ranks.line[1] = 1
    ranks.pending = {0, 1}

    assert not ranks.pass_time(50)
    assert ranks.pass_time(40)


def test_a_rank_that_does_nothing_beside_one_that_spins_is_stuck_with_it(ranks: Ranks) -> None:
    ranks.busy = {0}

    assert ranks.pass_time(100)


def test_a_rank_whose_first_answer_has_no_stack_is_watched_from_the_next(ranks: Ranks) -> None:
    ranks.mute = {0, 1}
    assert not ranks.pass_time(100)
    ranks.mute.clear()
    ranks.line[1] = 1
    ranks.pending = {0, 1}

    assert ranks.pass_time(200)


@pytest.mark.parametrize("proof", ["a collective that is not over", "one call"])
def test_that_a_call_does_not_come_back_is_known_by(ranks: Ranks, proof: str) -> None:
    ranks.line[1] = 1
    if proof == "one call":
        ranks.pending = set()
    else:
        ranks.pending = {0, 1}
        ranks.beats = {0: None, 1: None}  # type: ignore[dict-item]

    assert ranks.pass_time(100)


@pytest.mark.parametrize("on_device", [True, False])
def test_any_line_may_wait_for_a_device_in_a_collective(ranks: Ranks, *, on_device: bool) -> None:
    ranks.line = {0: 2, 1: 2}
    ranks.pending = {0, 1}
    ranks.on_device = on_device

    assert ranks.pass_time(100) == on_device


def test_a_loop_that_comes_back_to_its_line_is_no_hang(ranks: Ranks) -> None:
    def goes_on(ranks: Ranks) -> None:
        for rank in (0, 1):
            ranks.beats[rank] += 1

    ranks.line[1] = 1
    ranks.pending = set()

    assert not ranks.pass_time(600, goes_on)


def test_a_rank_that_computes_in_one_call_works_for_nine_times_the_limit(ranks: Ranks) -> None:
    assert not ranks.pass_time(520)
    assert ranks.pass_time(80)


@pytest.mark.parametrize(
    "works",
    [
        pytest.param(lambda ranks: ranks.beats.update({1: ranks.beats[1] + 1}), id="executes Python"),
        pytest.param(lambda ranks: setattr(ranks, "threads", ranks.threads + 30), id="another thread"),
        pytest.param(lambda ranks: setattr(ranks, "pages", ranks.pages + 5_000), id="gets memory"),
        pytest.param(lambda ranks: setattr(ranks, "moved", ranks.moved + 1_000_000), id="reads"),
        pytest.param(lambda ranks: setattr(ranks, "children", ranks.children + 30), id="a child compiles"),
        pytest.param(lambda ranks: setattr(ranks, "number", ranks.number + 1), id="collectives"),
        pytest.param(lambda ranks: ranks.line.update({1: 5 - ranks.line[1]}), id="another line"),
    ],
)
def test_a_rank_that_works_while_another_waits_is_left_alone(
    ranks: Ranks, works: Callable[[Ranks], object]
) -> None:
    assert not ranks.pass_time(1200, works)


def test_a_rank_that_looks_for_a_store_reads_at_each_try_and_waits_all_the_same(ranks: Ranks) -> None:
    ranks.program = ranks.path / "torch" / "distributed" / "rendezvous.py"
    ranks.program.parent.mkdir(parents=True)
    ranks.program.write_text("store = TCPStore(\n")
    ranks.line[1] = 1

    ranks.pending = set()

    def tries(ranks: Ranks) -> None:
        ranks.moved += 1_000_000
        ranks.beats[1] += 1

    assert ranks.pass_time(90, tries)


def test_nobody_who_computes_is_stuck_while_nobody_waits(ranks: Ranks) -> None:
    ranks.line[0] = 2
    ranks.pending = set()

    assert not ranks.pass_time(1200)


def test_ranks_that_move_are_looked_at_about_once_in_the_limit(ranks: Ranks) -> None:
    looks = [0]

    def count(ranks: Ranks) -> None:
        looks[0] += 1
        ranks.line[1] = 5 - ranks.line[1]

    ranks.pass_time(1200, count)

    assert 15 < looks[0] < 30


def test_a_run_that_spoke_of_late_is_not_looked_at(tmp_path: Path) -> None:
    watch = StallWatch(LIMIT, proc=str(tmp_path))
    watch.add(0, 40)
    wanted = []
    for second in range(150):
        watch.tick(float(second))
        watch.saw(0, float(second), [40], str(tmp_path / "none"), float(second))
        if second == 50:
            watch.did(50.0)
        watch.judge(float(second))
        wanted += [second] if watch.wants_look else []

    assert wanted[0] == 110
