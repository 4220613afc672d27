"""The index beside a log, as it is made while the log grows."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import pytest

from nbdist.launch.log_watch import LogWatch
from nbdist.store import LogTimes, RankDirectory
from nbdist.store.logs import RECORD

BEGIN = 1_795_184_103.0


class WatchedLogs:
    """Logs that a test lets grow, and a watch that looks when the test says so."""

    def __init__(self, home: Path, count: int = 1) -> None:
        self.now = BEGIN
        self.ranks = [RankDirectory(home / str(rank)) for rank in range(count)]
        self.watch = LogWatch(clock=lambda: self.now)
        for rank, files in enumerate(self.ranks):
            files.path.mkdir()
            self.watch.add(rank, files)

    def write(self, text: str, rank: int = 0, *, at: float | None = None) -> None:
        """Let the rank write; the file then says that this was just now, or at ``at``."""
        with self.ranks[rank].log.open("a") as log:
            log.write(text)
        moment = BEGIN + at if at is not None else self.now
        os.utime(self.ranks[rank].log, (moment, moment))

    def pass_time(self, seconds: float) -> None:
        """Let the supervisor go round, 20 times a second."""
        for _ in range(round(seconds * 20)):
            self.now += 0.05
            self.watch.tick(self.now)

    def entries(self, rank: int = 0) -> list[tuple[float, int]]:
        raw = self.ranks[rank].log_times.read_bytes()
        return [(round(time - BEGIN, 3), size) for time, size in RECORD.iter_unpack(raw)]


@pytest.fixture
def logs(tmp_path: Path) -> WatchedLogs:
    return WatchedLogs(tmp_path)


def test_a_log_that_grows_gets_an_entry_each_time(logs: WatchedLogs) -> None:
    logs.write("a line\n")
    logs.pass_time(0.05)
    logs.write("another\n")
    logs.pass_time(0.05)

    # and none while it does not
    logs.pass_time(5.0)
    assert logs.entries() == [(0.0, 7), (0.05, 15)]


def test_a_log_that_was_quiet_for_long_is_dated_by_its_last_write(tmp_path: Path) -> None:
    logs = WatchedLogs(tmp_path, 256)
    logs.pass_time(5.0)
    began = logs.now - BEGIN
    logs.write("a line\n", 17)
    logs.pass_time(3.0)

    assert logs.entries(17) == [(pytest.approx(began, abs=0.001), 7)]


@pytest.mark.parametrize(
    ("at", "dated"),
    [pytest.param(-3600.0, 0.95, id="an hour behind"), pytest.param(3600.0, 1.0, id="an hour ahead")],
)
def test_a_file_server_with_another_clock_is_not_believed(logs: WatchedLogs, at: float, dated: float) -> None:
    logs.pass_time(0.95)
    logs.write("a line\n", at=at)
    logs.pass_time(0.05)

    assert logs.entries() == [(pytest.approx(dated), 7)]


def test_a_log_that_grows_all_the_time_gets_ten_entries_a_second_in_the_long_run(logs: WatchedLogs) -> None:
    for _ in range(20 * 60):
        logs.write("x")
        logs.pass_time(0.05)

    entries = logs.entries()
    # the first ten seconds at the full resolution, then half of it
    assert entries[100][0] - entries[0][0] == pytest.approx(5.0, abs=0.2)
    assert 600 <= len(entries) <= 710
    assert entries[-1][1] >= 1198


def test_many_logs_that_grow_get_their_turns(tmp_path: Path) -> None:
    logs = WatchedLogs(tmp_path, 64)
    for _ in range(40):
        for rank in range(64):
            logs.write("x", rank)
        logs.pass_time(0.05)

    for rank in range(64):
        times = [time for time, _ in logs.entries(rank)]
        assert times[0] < 0.5
        assert max(later - time for time, later in itertools.pairwise(times)) <= 0.41


def test_the_last_length_is_recorded_when_a_rank_exits(logs: WatchedLogs) -> None:
    logs.write("a line\n")
    logs.watch.look_at(0)

    assert LogTimes(logs.ranks[0].log_times).at(7) == BEGIN


def test_what_is_written_after_the_rank_is_recorded_at_the_end(logs: WatchedLogs) -> None:
    logs.watch.look_at(0)
    logs.write("from a worker that lived on\n")

    logs.watch.close()

    assert logs.entries() == [(0.0, 28)]


def test_a_log_that_its_program_cut_is_dated_when_it_is_longer_again(logs: WatchedLogs) -> None:
    logs.write("0123456789")
    logs.pass_time(0.05)
    os.truncate(logs.ranks[0].log, 0)
    logs.write("01234")
    logs.pass_time(0.05)
    logs.write("5678901234")
    logs.pass_time(0.05)

    assert [size for _, size in logs.entries()] == [10, 15]


def test_an_index_that_cannot_be_written_costs_only_itself(tmp_path: Path) -> None:
    logs = WatchedLogs(tmp_path, 2)
    logs.ranks[0].log_times.mkdir()
    logs.write("a line\n", 0)
    logs.write("a line\n", 1)
    logs.pass_time(0.1)

    logs.ranks[0].log_times.rmdir()
    logs.pass_time(0.1)

    assert [size for _, size in logs.entries(0)] == [7]
    assert [size for _, size in logs.entries(1)] == [7]


def test_descriptors_do_not_grow_with_the_ranks_without_end(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    logs = WatchedLogs(tmp_path, 300)
    for rank in range(300):
        logs.write("a line\n", rank)
    logs.pass_time(3.0)

    assert all(len(logs.entries(rank)) == 1 for rank in range(300))
    assert len(os.listdir("/proc/self/fd")) - before <= 128
    logs.watch.close()
    assert len(os.listdir("/proc/self/fd")) == before
