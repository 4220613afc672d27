"""A run has stalled when nothing has happened for long; what ranks do without a word is something."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from nbdist.launch.stalls.stall_watch import StallWatch

LIMIT = 60.0


class Watched:
    """A watch over ranks that a test makes up, looked at each two seconds."""

    def __init__(self, path: Path, limit: float = LIMIT) -> None:
        self.watch = StallWatch(limit, proc=str(path))
        self._path = path
        self.now = 1000.0
        self.cpu = {0: 0.0, 1: 0.0}
        self.moved = {0: 0, 1: 0}
        self.changes: list[tuple[float, bool]] = []
        self.metrics = path / "metrics.jsonl"

    def pass_time(self, seconds: float, *, cpu: float = 0.0, moved: int = 0, rank: int = 1) -> None:
        """Let time go by while a rank computes and moves so much a second."""
        for _ in range(round(seconds / 2)):
            for _ in range(40):
                self.now += 0.05
                self.watch.tick(self.now)
            self.cpu[rank] += 2 * cpu
            self.moved[rank] += 2 * moved
            self._look()

    def _look(self) -> None:
        for rank in (0, 1):
            directory = self._path / str(rank)
            directory.mkdir(exist_ok=True)
            (directory / "io").write_text(f"rchar: {self.moved[rank]}\nwchar: 0\nsyscr: 3\n")
            self.watch.saw(rank, self.cpu[rank], [rank], str(self.metrics), self.now)
        if self.watch.judge(self.now):
            self.changes.append((self.now - 1000, self.watch.stalled))


@pytest.fixture
def watched(tmp_path: Path) -> Watched:
    return Watched(tmp_path)


def test_a_run_in_which_nothing_happens_stalls_at_the_limit(watched: Watched) -> None:
    watched.pass_time(100)

    # counted from the first look
    assert watched.changes == [(pytest.approx(62, abs=2.1), True)]
    assert watched.now - watched.watch.active == pytest.approx(98, abs=0.1)


def writes(watched: Watched) -> None:
    for _ in range(5):
        watched.pass_time(40)
        watched.watch.did(watched.now)


def logs_metrics(watched: Watched) -> None:
    for step in range(5):
        watched.pass_time(40)
        watched.metrics.write_text("x" * (step + 1))


def answers_and_computes(watched: Watched) -> None:
    for _ in range(60):
        watched.watch.pardon()
        watched.pass_time(2, cpu=1.0)


def supervisor_stops(watched: Watched) -> None:
    watched.pass_time(40)
    watched.now += 3600
    watched.pass_time(40)


@pytest.mark.parametrize(
    "happens",
    [
        pytest.param(lambda watched: watched.pass_time(200, cpu=1.0), id="it computes"),
        pytest.param(lambda watched: watched.pass_time(200, cpu=0.05), id="it computes a little"),
        pytest.param(lambda watched: watched.pass_time(200, moved=20_000), id="it downloads slowly"),
        pytest.param(writes, id="it writes"),
        pytest.param(logs_metrics, id="it logs metrics"),
        pytest.param(answers_and_computes, id="it computes and is asked where it is again and again"),
        pytest.param(supervisor_stops, id="nobody looks for an hour"),
    ],
)
def test_one_rank_that_does_something_is_enough(
    watched: Watched, happens: Callable[[Watched], object]
) -> None:
    happens(watched)

    assert watched.changes == []


def test_without_a_limit_nothing_stalls(tmp_path: Path) -> None:
    watched = Watched(tmp_path, limit=float("inf"))
    watched.pass_time(500)

    assert watched.changes == []


@pytest.mark.parametrize(
    "does",
    [pytest.param({"cpu": 0.01}, id="heartbeats"), pytest.param({"moved": 4_000}, id="our own looks at it")],
)
def test_what_a_rank_does_while_it_waits_is_nothing(watched: Watched, does: dict[str, float]) -> None:
    watched.pass_time(100, **does)

    assert [stalled for _, stalled in watched.changes] == [True]


def test_a_run_goes_on_when_something_happens(watched: Watched) -> None:
    watched.pass_time(80)
    watched.pass_time(10, cpu=1.0)

    assert [stalled for _, stalled in watched.changes] == [True, False]


def test_what_it_takes_to_answer_is_not_work(watched: Watched) -> None:
    watched.pass_time(80)
    watched.watch.pardon()
    watched.pass_time(2, cpu=0.05)
    watched.pass_time(20)

    assert watched.watch.stalled
