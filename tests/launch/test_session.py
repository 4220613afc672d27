"""The cells of a session, in order: which ranks execute which, and what becomes of them. The test says what
ranks say; cells are asked for at the real socket."""

from __future__ import annotations

import json
import marshal
import selectors
import signal
import socket
import stat
import time
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

import pytest

from nbdist.launch.run_policy import RunPolicy
from nbdist.launch.session import MOST_WAITING, Session
from nbdist.model import Reason, RunState
from nbdist.sockets import connect_to, is_own
from nbdist.store import RunDirectory, RunStore
from nbdist.worker.order import BROKEN, CELL, END, FREED, GROUPED, KEPT, RAISED, READY, REJOINED, WELL, Cell
from tests.fakes.runs import CREATED, a_spec, process_of, supervisor_started


class Ranks:
    """The ranks and the messages sent to them. The test answers for them."""

    def __init__(self) -> None:
        self.sent: list[tuple[int, str, Any]] = []
        self.back: list[int] = []
        """Ranks whose answers are not awaited any more."""

    def tell(self, rank: int, words: bytes) -> None:
        self.sent.append((rank, "end", None) if words == END else (rank, "cell", _decoded(words)))

    def interrupt(self, rank: int, patience: float) -> None:
        self.sent.append((rank, "interrupt", patience))

    def came_back(self, rank: int) -> None:
        self.back.append(rank)

    def free(self, ranks: Collection[int], patience: float) -> Collection[int]:
        self.sent += [(rank, "free", patience) for rank in ranks]
        return ()

    def log_size(self, rank: int) -> int:
        return 100 + rank

    def take(self) -> list[tuple[int, str, Any]]:
        sent, self.sent = self.sent, []
        return sent

    def ends(self) -> list[int]:
        """Return the ranks that received the end of the session since the last look."""
        return [rank for rank, what, _ in self.take() if what == "end"]

    def cells(self) -> list[tuple[int, int, str]]:
        """Return the cells sent since the last look: rank, number, and the new meeting before it."""
        return [(rank, cell.number, cell.rejoin) for rank, what, cell in self.take() if what == "cell"]


def _decoded(words: bytes) -> Cell:
    assert words[:1] == CELL
    return Cell(**marshal.loads(words[5:]))


class Asker:
    """A process of the user that sends cells."""

    def __init__(self, directory: RunDirectory, look: Callable[[], None]) -> None:
        self.socket = connect_to(directory.socket)
        self._look = look
        self._received = b""

    def ask(self, **what: Any) -> None:
        self.socket.sendall(json.dumps(what).encode() + b"\n")
        self._look()

    def cell(self, text: str = "x = 1", ranks: list[int] | None = None, **more: Any) -> dict[str, Any]:
        """Request a cell; return the answer."""
        self.ask(do="cell", text=text, ranks=ranks, **more)
        return next(answer for answer in self.heard() if "kind" not in answer)

    def heard(self) -> list[dict[str, Any]]:
        self.socket.setblocking(False)
        try:
            while piece := self.socket.recv(1 << 16):
                self._received += piece
        except BlockingIOError:
            pass
        *lines, self._received = self._received.split(b"\n")
        return [json.loads(line) for line in lines]

    def outcomes(self) -> list[tuple[int, int, str]]:
        return [
            (event["cell"], event["rank"], event["outcome"])
            for event in self.heard()
            if event.get("kind") == "CellEnded"
        ]


class Played:
    """A session of two ranks that are ready."""

    def __init__(self, home: Path, is_own: Callable[[socket.socket], bool] = is_own) -> None:
        self.spec = a_spec(session=30.0)
        self.directory = RunStore(home).create(self.spec, "")
        self.ranks = Ranks()
        self.selector = selectors.DefaultSelector()
        self.policy = RunPolicy(
            self.spec,
            record=self.record,
            send=lambda rank, number: self.ranks.sent.append((rank, "signal", number)),
            wall_clock=lambda: CREATED,
        )
        self.session: Session | None = None
        self.askers: list[Asker] = []
        self.policy.record(supervisor_started())
        self.policy.attempt_started(1, "127.0.0.1", 20_001, 0.0)
        for rank in (0, 1):
            self.policy.rank_started(rank, process_of(rank))
        self.session = Session(
            self.directory,
            self.spec,
            policy=self.policy,
            selector=self.selector,
            ranks=self.ranks,
            is_own=is_own,
        )
        self.now = time.monotonic()
        for rank in (0, 1):
            self.says(rank, READY)

    def record(self, event: Any) -> None:
        if self.session is not None:
            self.session.recorded(event)

    def asker(self) -> Asker:
        self.askers.append(Asker(self.directory, self.look))
        return self.askers[-1]

    def close(self) -> None:
        self.session.close()
        self.selector.close()
        for asker in self.askers:
            asker.socket.close()

    def look(self) -> None:
        """Handle what is asked, until nothing more is."""
        while ready := self.selector.select(0):
            for key, _ in ready:
                key.data()

    def says(self, rank: int, *words: bytes) -> None:
        assert self.session is not None
        for word in words:
            if word in (FREED, KEPT):
                self.session.answered(rank, word, self.now)
            else:
                self.session.hear(rank, word, self.now)

    def passes(self, seconds: float) -> None:
        self.now += seconds
        self.session.tick(self.now)


@pytest.fixture
def played(tmp_path: Path) -> Iterator[Played]:
    played = Played(tmp_path / "home")
    yield played
    played.close()
    assert not played.directory.socket.exists()


def test_a_cell_begins_when_the_one_before_has_ended_in_all_of_its_ranks(played: Played) -> None:
    asker = played.asker()

    first, second = asker.cell(), asker.cell(ranks=[1])
    begun = played.ranks.cells()
    played.says(1, WELL)
    still = played.ranks.cells()
    played.says(0, WELL)

    assert first == {"cell": 1, "behind": 0, "ranks": [0, 1], "gone": []}
    assert second == {"cell": 2, "behind": 1, "ranks": [1], "gone": []}
    assert (begun, still, played.ranks.cells()) == ([(0, 1, ""), (1, 1, "")], [], [(1, 2, "")])
    assert asker.outcomes() == [(1, 1, "ok"), (1, 0, "ok")]
    assert played.directory.session_cell(1).read_text() == "x = 1"


def test_sixteen_cells_may_wait(played: Played) -> None:
    asker = played.asker()
    for _ in range(1 + MOST_WAITING):
        assert "cell" in asker.cell()

    assert asker.cell() == {"refused": "full", "waiting": MOST_WAITING}


def test_what_has_not_begun_goes_with_those_who_asked_for_it(played: Played) -> None:
    first, second = played.asker(), played.asker()
    first.cell()
    (played.directory.cells / "a.box").write_text("")
    second.cell(inputs="a.box")

    second.socket.close()
    played.look()
    for rank in (0, 1):
        played.says(rank, WELL)

    assert played.ranks.cells() == [(0, 1, ""), (1, 1, "")]
    assert not (played.directory.cells / "a.box").exists()


def test_a_cell_that_has_begun_goes_on_when_those_who_asked_for_it_have_gone(played: Played) -> None:
    asker = played.asker()
    asker.cell()

    asker.socket.close()
    played.look()
    for rank in (0, 1):
        played.says(rank, WELL)

    assert played.policy.run.cell == 1
    assert played.policy.run.busy == ()


def test_ranks_that_wait_for_one_that_has_raised_are_freed_and_meet_anew(played: Played) -> None:
    asker = played.asker()
    asker.cell()
    for rank in (0, 1):
        played.says(rank, GROUPED, WELL)
    asker.cell()
    asker.heard()
    played.ranks.take()

    played.says(1, GROUPED, RAISED)
    freed = played.ranks.take()
    played.says(0, KEPT)
    played.passes(0.6)
    again = played.ranks.take()
    played.says(0, FREED, GROUPED, RAISED)
    outcomes = asker.outcomes()
    asker.cell(ranks=[0])
    alone = played.ranks.cells()
    played.says(0, GROUPED, WELL)
    asker.cell()
    together = played.ranks.cells()
    played.says(0, REJOINED)
    played.says(1, REJOINED, GROUPED, WELL)
    played.says(0, GROUPED, WELL)
    asker.cell()

    assert freed == again == [(0, "free", 1.0)]
    assert outcomes == [(2, 1, "error"), (2, 0, "freed")]
    # one rank alone cannot meet the others
    assert alone == [(0, 3, "")]
    assert together == [(0, 4, "join"), (1, 4, "join")]
    assert played.policy.run.port not in (None, 20_001)
    assert played.ranks.cells() == [(0, 5, ""), (1, 5, "")]


def test_ranks_of_which_one_is_in_no_group_only_leave_the_broken_one(played: Played) -> None:
    asker = played.asker()
    asker.cell()
    played.says(0, BROKEN, GROUPED, RAISED)
    played.says(1, RAISED)
    played.ranks.take()

    asker.cell()

    assert played.ranks.cells() == [(0, 2, "leave"), (1, 2, "leave")]


def test_an_interrupt_reaches_the_ranks_of_the_cell_again_and_again(played: Played) -> None:
    asker = played.asker()
    asker.cell(ranks=[1])
    played.ranks.take()

    asker.ask(do="interrupt")
    played.passes(0.8)
    asker.ask(do="kill")
    played.says(1, KEPT, RAISED)

    assert played.ranks.take() == [(1, "interrupt", 0.2), (1, "free", 0.2), (1, "signal", signal.SIGKILL)]
    assert asker.outcomes() == [(1, 1, "interrupted")]
    assert played.ranks.back == [1]


def test_the_others_go_on_when_a_rank_dies(played: Played) -> None:
    asker = played.asker()
    asker.cell()
    played.ranks.take()

    played.policy.rank_exited(1, -9, played.now)
    played.says(0, RAISED)
    outcomes = asker.outcomes()
    alone = asker.cell()

    assert outcomes == [(1, 1, "died"), (1, 0, "error")]
    assert played.policy.run.state is RunState.RUNNING
    assert (alone["ranks"], alone["gone"]) == ([0], [1])
    assert asker.cell(ranks=[0, 1]) == {"refused": "gone", "ranks": [1]}


def test_a_session_without_cells_ends_itself(played: Played) -> None:
    asker = played.asker()
    asker.cell(ranks=[0])
    played.passes(40)
    busy = played.ranks.take()
    played.says(0, WELL)

    played.passes(29)
    early = played.ranks.take()
    played.passes(2)

    assert [what for _, what, _ in busy] == ["cell"]
    assert early == []
    assert sorted(played.ranks.ends()) == [0, 1]
    assert asker.cell() == {"refused": "ended"}


def test_a_busy_session_ends_its_idle_time_after_those_have_gone_who_gave_it_cells(played: Played) -> None:
    first, second = played.asker(), played.asker()
    first.cell()
    played.passes(40)
    first.socket.close()
    played.look()
    played.passes(40)
    watched = played.policy.stop_reason
    played.now = time.monotonic()

    second.socket.close()
    played.look()
    played.passes(29)
    early = played.policy.stop_reason
    played.passes(2)

    assert (watched, early) == (None, None)
    assert played.policy.stop_reason == Reason("session-left", seconds=30.0)


def test_a_rank_that_cannot_be_reached_is_ended_and_the_others_are_freed(played: Played) -> None:
    asker = played.asker()
    asker.cell()
    played.ranks.take()

    played.session.unreachable(1, played.now)
    sent = played.ranks.take()
    played.says(0, RAISED)
    outcomes = asker.outcomes()
    waits = asker.cell()
    begun = played.ranks.cells()
    played.policy.rank_exited(1, -9, played.now)

    assert sent == [(1, "signal", signal.SIGKILL), (0, "free", 1.0)]
    assert outcomes == [(1, 1, "unreachable"), (1, 0, "error")]
    # until it has exited, it may still be counted among those that a cell is for
    assert (waits["cell"], begun, played.ranks.cells()) == (2, [], [(0, 2, "")])


@pytest.mark.parametrize("stopped", [False, True], ids=["it is told to end", "the run is stopped"])
def test_a_busy_session_lets_each_rank_go_when_it_is_done(played: Played, *, stopped: bool) -> None:
    asker = played.asker()
    asker.cell(ranks=[0])
    played.asker().ask(do="cell", text="", ranks=None)

    if stopped:
        played.policy.stop(Reason("stopped-from-python"), played.now)
    else:
        asker.ask(do="end")
    played.passes(0.1)
    idle = played.ranks.ends()
    played.says(0, RAISED)
    played.passes(0.1)

    assert (idle, played.ranks.ends()) == ([1], [0])
    assert asker.cell() == {"refused": "ended"}


@pytest.mark.parametrize(
    "depth", [0, 3], ids=["a path that is short", "a path that is longer than an address"]
)
def test_the_socket_is_for_its_owner_alone(tmp_path: Path, depth: int) -> None:
    played = Played(tmp_path.joinpath(*["a-folder-with-a-long-name-" * 2] * depth))

    mode = played.directory.socket.stat().st_mode
    answer = played.asker().cell()

    assert stat.S_ISSOCK(mode)
    assert stat.S_IMODE(mode) == 0o600
    assert answer["cell"] == 1
    played.close()


def test_another_user_is_not_let_in(tmp_path: Path) -> None:
    played = Played(tmp_path / "home", is_own=lambda _: False)
    other = connect_to(played.directory.socket)

    played.look()

    assert other.recv(1) == b""
    other.close()
    played.close()
