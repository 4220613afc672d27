"""The journal keeps every event, on a bad disk and after a bad end."""

from __future__ import annotations

import contextlib
import resource
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from nbdist.model import encode_event
from nbdist.store import read_events
from nbdist.store.journal import Journal
from tests.fakes.runs import STARTED, exited, finished, stop_requested


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "events.jsonl"


@contextlib.contextmanager
def a_disk_with_room_for(size: int) -> Iterator[None]:
    """Files of this process cannot grow over ``size`` bytes: the kernel's own refusal."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_every_event_is_read_as_soon_as_it_is_written_whoever_wrote_those_before(path: Path) -> None:
    assert read_events(path) == []

    for number, event in enumerate(STARTED, 1):
        journal = Journal(path)
        journal.append(event)
        assert read_events(path) == list(STARTED[:number])
        journal.close()

    assert path.read_text().splitlines() == [encode_event(event) for event in STARTED]


def test_a_journal_has_one_writer(path: Path) -> None:
    first = Journal(path)

    # who is refused leaves the lock with the first
    for _ in range(2):
        with pytest.raises(BlockingIOError):
            Journal(path)

    first.close()
    Journal(path).close()


def test_a_torn_last_line_does_not_tear_the_next_event(path: Path) -> None:
    path.write_text(encode_event(STARTED[0]) + "\n" + encode_event(STARTED[1])[:20])

    journal = Journal(path)
    journal.append(STARTED[2])
    journal.close()

    assert read_events(path) == [STARTED[0], STARTED[2]]


def test_what_a_full_disk_refuses_is_written_when_there_is_room(path: Path) -> None:
    reports: list[str] = []
    journal = Journal(path, report=reports.append)
    journal.append(STARTED[0])

    with a_disk_with_room_for(path.stat().st_size):
        journal.append(STARTED[1])
        journal.append(STARTED[2])
        refused = journal.flush()
        while_full = read_events(path)
    written = journal.flush()
    journal.close()

    assert (refused, while_full, written) == (False, [STARTED[0]], True)
    assert read_events(path) == list(STARTED[:3])
    assert len(reports) == 3
    assert reports[0].startswith("the journal cannot be written: ")


def test_a_line_that_only_half_fitted_is_completed(path: Path) -> None:
    journal = Journal(path)
    journal.append(STARTED[0])

    with a_disk_with_room_for(path.stat().st_size + 10):
        journal.append(STARTED[1])
        half = path.read_text()
        while_full = read_events(path)
    journal.append(STARTED[2])
    journal.close()

    assert half.endswith(encode_event(STARTED[1])[:10])
    assert while_full == [STARTED[0]]
    assert read_events(path) == list(STARTED[:3])


def test_lines_that_are_no_events_are_passed_over(path: Path) -> None:
    good = [finished(0), exited(0)]
    noise = [
        b"\xff\xfe\x00",
        b"",
        b"null",
        b'{"kind": "FromTheFuture"}',
        b'{"kind": "RankExited"}',
        b"[" * 9999,
    ]
    lines = [encode_event(good[0]).encode(), *noise, encode_event(good[1]).encode(), b'{"kind": "Ra']
    path.write_bytes(b"\n".join(lines))

    assert read_events(path) == good


@pytest.mark.skipif(sys.platform != "linux", reason="room is taken ahead on Linux alone")
def test_room_for_the_end_is_taken_ahead_and_given_back(path: Path) -> None:
    journal = Journal(path)
    journal.append(stop_requested())
    ahead = path.stat()

    journal.close()

    assert ahead.st_blocks * 512 >= 256 * 1024
    assert ahead.st_size == path.stat().st_size < 4096
    assert path.stat().st_blocks * 512 < 64 * 1024
