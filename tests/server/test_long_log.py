"""Reading a long log before its end is shown: counted in bytes, since times prove little."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from nbdist.model import Event, RunState
from nbdist.server.streams import ClientCursor, RunTail
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
    """Yield a function that returns the bytes that this process has read in the block."""

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


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux counts what a process reads")
@pytest.mark.parametrize(
    "events",
    [(), (exited(0), exited(1), run_ended(RunState.FINISHED))],
    ids=["a run that goes on", "a run that has ended"],
)
def test_the_end_of_a_long_log_is_there_before_the_rest_is_read(
    tmp_path: Path, long_log: bytes, events: tuple[Event, ...]
) -> None:
    tail = RunTail(written(tmp_path, long_log, 1, *events), clock=lambda: CREATED + 100)
    cursor = ClientCursor(tail)

    with read_bytes() as read:
        assert tail.see() is not None
        assert tail.look()
        first = cursor.update(1.0)

    assert read() < LITTLE
    assert first.chunks[0].lines[-1] == (LINE % (LINES - 1)).decode().rstrip()
    assert first.chunks[0].end == len(long_log)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux counts what a process reads")
def test_lines_from_the_middle_of_a_long_log_cost_what_is_read_of_them(
    tmp_path: Path, long_log: bytes
) -> None:
    tail = RunTail(written(tmp_path, long_log, 1), clock=lambda: CREATED + 100)
    tail.look()
    begin = 500_000 * len(LINE % 0)

    with read_bytes() as read:
        (chunk,) = tail.within([(0, 0, begin)], 1000)

    assert read() < 100_000
    assert chunk.end == begin
    assert chunk.lines[-1] == (LINE % 499_999).decode().rstrip()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux counts what a process reads")
def test_the_log_of_an_earlier_attempt_is_not_read_before_it_is_asked_for(
    tmp_path: Path, long_log: bytes
) -> None:
    again = (exited(0, 1), exited(1, 1, ended=True), attempt_started(2))
    directory = written(tmp_path, long_log, 1, *again)
    second = directory.rank(0, 2)
    second.path.mkdir(parents=True)
    second.log.write_bytes(b"second try\n")
    tail = RunTail(directory, clock=lambda: CREATED + 100)

    with read_bytes() as read:
        tail.look()
        update = ClientCursor(tail).update(1.0)

    assert read() < LITTLE
    (chunk,) = update.chunks
    assert chunk.lines == ["second try"]
    before, parting = tail.within([(0, 0, chunk.first)], 1000)
    assert before.lines[-1] == (LINE % (LINES - 1)).decode().rstrip()
    assert (parting.lines, parting.end) == (["—— attempt 2 ——"], chunk.first)
