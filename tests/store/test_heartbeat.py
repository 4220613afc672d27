"""A pulse that stops, and one that could not be seen."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nbdist.store.run_store import HEARTBEAT_TIMEOUT, Heartbeat


class Seen:
    """A pulse that is looked at every ten seconds."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.path.touch()
        self.now = 1000.0
        self.pulse = Heartbeat(path, clock=lambda: self.now)

    def stops_within(self, seconds: float) -> bool:
        end = self.now + seconds
        while self.now < end:
            self.now += 10
            if self.pulse.has_stopped():
                return True
        return False

    def touch(self) -> None:
        os.utime(self.path, (self.now, self.now))


@pytest.fixture
def seen(tmp_path: Path) -> Seen:
    return Seen(tmp_path / "pulse")


def test_whoever_touches_it_lives(seen: Seen) -> None:
    for _ in range(5):
        assert not seen.stops_within(HEARTBEAT_TIMEOUT)
        seen.touch()

    assert not seen.stops_within(HEARTBEAT_TIMEOUT)
    assert seen.stops_within(20)
    assert seen.stops_within(10)  # it stays so


def test_a_file_that_is_gone_is_touched_by_nobody(seen: Seen) -> None:
    seen.path.unlink()

    assert seen.stops_within(HEARTBEAT_TIMEOUT + 20)


def test_a_time_in_which_the_files_did_not_answer_does_not_count(seen: Seen) -> None:
    assert not seen.stops_within(HEARTBEAT_TIMEOUT)

    seen.now += 600

    assert not seen.stops_within(HEARTBEAT_TIMEOUT)
    assert seen.stops_within(20)
