"""What is read of a long log before its end is shown: counted in bytes, for times say little."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from nbdist.model import Event, RunState
from nbdist.server.frames import Numbering
from nbdist.server.rank_tail import RankTail
from nbdist.server.run_tail import RunTail
from nbdist.server.streams import Watch
from nbdist.store import RunDirectory
from tests.fakes.directories import WrittenRun
from tests.fakes.runs import CREATED, STARTED, attempt_started, exited, run_ended

LINES = 1_000_000
LINE = b"%07d and what else a program prints in one line of its log\n"
LITTLE = 8_000_000  # bytes


@pytest.fixture(scope="module")
def long_log() -> bytes:
    return b"".join(LINE % number for number in range(LINES))


@contextmanager
def read_bytes() -> Iterator[Callable[[], int]]:
    """How many bytes this process has read since."""

    def read() -> int:
        return int(Path("/proc/self/io").read_text().split()[1])

    before = read()
    yield lambda: read() - before


def written(home: Path, log: bytes, attempt: int, *events: Event) -> RunDirectory:
    run = WrittenRun(home).happened(*STARTED, *events)
    files = run.directory.rank(0, attempt)
    files.path.mkdir(parents=True, exist_ok=True)
    files.log.write_bytes(log)
    return run.directory


def looked(tail: RunTail) -> None:
    while tail.ranks[0].provisional:
        assert tail.look()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux counts what a process reads")
@pytest.mark.parametrize(
    "events",
    [(), (exited(0), exited(1), run_ended(RunState.SUCCEEDED))],
    ids=["a run that goes on", "a run that has ended"],
)
def test_the_end_of_a_long_log_is_there_before_the_rest_is_read(
    tmp_path: Path, long_log: bytes, events: tuple[Event, ...]
) -> None:
    tail = RunTail(written(tmp_path, long_log, 1, *events), clock=lambda: CREATED + 100)
    watch = Watch(tail)

    with read_bytes() as read:
        assert tail.see() is not None
        assert tail.look()
        first = watch.update(1.0)

    assert read() < LITTLE
    assert first is not None
    assert first.chunks[0].lines[-1] == (LINE % (LINES - 1)).decode().rstrip()
    assert watch.numbering == Numbering(provisional=(0,))
    assert not tail.done, "the lines are still to be counted"


def test_lines_get_their_numbers_when_those_before_them_have_been_counted(
    tmp_path: Path, long_log: bytes
) -> None:
    tail = RunTail(written(tmp_path, long_log, 1), clock=lambda: CREATED + 100)
    watch, late = Watch(tail), Watch(tail)
    tail.look()
    sent = watch.update(1.0)
    assert sent is not None
    assert tail.lines(0, 0, 5, 1000) == []

    looked(tail)
    with tail.directory.rank(0).log.open("ab") as log:
        log.write(b"one more\n")
    tail.look()
    update = watch.update(2.0)

    assert update is not None
    ((rank, moved),) = watch.numbering.moved
    assert (rank, sent.chunks[0].first + moved) == (0, LINES - sent.chunks[0].count)
    assert [(chunk.first, chunk.lines) for chunk in update.chunks] == [(LINES, ["one more"])]
    assert watch.numbering.provisional == ()
    (old,) = tail.lines(0, 500_000, 1, 1000)
    assert old.lines == [(LINE % 500_000).decode().rstrip()]
    fresh = late.update(2.0)
    assert fresh is not None
    assert late.numbering == Numbering()
    assert fresh.chunks[-1].first + fresh.chunks[-1].count == LINES + 1


def test_a_page_that_has_numbers_waits_for_those_of_the_end(tmp_path: Path, long_log: bytes) -> None:
    tail = RunTail(written(tmp_path, long_log, 1), clock=lambda: CREATED + 100)
    watch = Watch(tail, {0: LINES - 10})
    tail.look()
    before = watch.update(1.0)

    looked(tail)
    update = watch.update(2.0)

    assert before is None or not before.chunks
    assert update is not None
    assert sum(chunk.count for chunk in update.chunks) == 10
    assert watch.numbering == Numbering()


def test_the_log_of_an_earlier_attempt_is_counted_later_too(tmp_path: Path, long_log: bytes) -> None:
    again = (exited(0, 1), exited(1, 1, ended=True), attempt_started(2))
    directory = written(tmp_path, long_log, 1, *again)
    second = directory.rank(0, 2)
    second.path.mkdir(parents=True)
    second.log.write_bytes(b"second try\n")
    tail = RankTail(0, directory, created=CREATED, room=1000)

    with read_bytes() as read:
        tail.begin_at_end(2, 1000)
        delta = tail.read(1000, CREATED, final=False)

    assert delta is not None
    assert tail.provisional
    assert list(delta.lines) == ["second try"]
    assert read() < LITTLE
    while not tail.count(lambda: True):
        pass
    assert delta.first + tail.moved == LINES + 1
