"""A log that is too long loses its middle: the disk gets it back, and every reader shows the gap."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from nbdist.diagnosis.rank_failure import end_of_log
from nbdist.feed.rank_log import Logs
from nbdist.launch.log_watch import LogWatch, WorkerLogs
from nbdist.model import RunState
from nbdist.panel.recording import LOG_ROOM, recorded_log
from nbdist.runner import RunHandle
from nbdist.server.streams import RunTail
from nbdist.store import LogLines, LogStream, LogTimes
from nbdist.store.logs import LogGap, kept_parts
from nbdist.store.scraped.log import ScrapedMetrics
from tests.fakes.directories import WrittenRun
from tests.fakes.runs import CREATED, STARTED, exited, run_ended

ROOM = 1_000_000
LINES = 400_000
LINE = "line {:06d} - loss: 0.5\n"
MISSING = "[nbdist: 8.8 MB of output left out here: NBDIST_LOG_GB=0.001]"


@pytest.fixture
def run(home: Path) -> WrittenRun:
    """A run that has ended, whose rank 0 has printed ten times what it may."""
    run = WrittenRun(home).happened(*STARTED, exited(0), exited(1), run_ended(RunState.FINISHED))
    text = "".join(LINE.format(number) for number in range(LINES))
    return run.printed(0, text).printed(1, "nothing much\n").shortened(0, ROOM)


def by_the_handle(run: WrittenRun) -> list[str]:
    handle = RunHandle(run.directory)
    lines = list(handle.log_lines(0))
    assert lines == handle.logs(0).splitlines()
    return lines


def by_a_panel(run: WrittenRun) -> list[str]:
    logs, lines = Logs(run.directory, None), []
    while deltas := logs.look(run.run, CREATED + 1, last=True):
        lines += [line for delta in deltas for line in delta.lines if delta.rank == 0]
    return lines


def by_the_server(run: WrittenRun) -> list[str]:
    tail = RunTail(run.directory, clock=lambda: CREATED + 100)
    tail.look()
    lines: list[str] = []
    end = run.directory.rank(0).log.stat().st_size
    while chunks := tail.within([(0, 0, end)], 100_000):
        assert chunks[-1].end == end
        lines[:0] = [line for chunk in chunks for line in chunk.lines]
        end = chunks[0].first
    assert end == 0
    return lines


def by_a_report(run: WrittenRun) -> list[str]:
    return recorded_log(run.run, run.directory, 0, LOG_ROOM, str, "en").chunk.lines


def by_any_other_program(run: WrittenRun) -> list[str]:
    return run.directory.rank(0).log.read_bytes().replace(b"\0", b"").decode().splitlines()


READERS = [by_the_handle, by_a_panel, by_the_server, by_a_report, by_any_other_program]


@pytest.mark.parametrize("read", READERS)
def test_every_reader_finds_begin_and_end_and_what_is_missing(
    run: WrittenRun, read: Callable[[WrittenRun], list[str]]
) -> None:
    lines = [line.rstrip() for line in read(run)]

    assert lines[0] == LINE.format(0).strip()
    assert lines[-1] == LINE.format(LINES - 1).strip()
    assert lines.count(MISSING) == 1
    assert not [line for line in lines if "\0" in line]
    # but for those where it begins and ends, lines are whole
    whole = {LINE.format(number).strip() for number in (*range(LINES // 10), *range(LINES // 2, LINES))}
    assert len([line for line in lines if line not in whole]) <= 3
    assert ROOM * 0.6 < sum(len(line) + 1 for line in lines) <= ROOM


def test_the_disk_gets_back_what_is_left_out_and_offsets_stay(run: WrittenRun) -> None:
    log = run.directory.rank(0).log

    assert log.stat().st_size == LINES * len(LINE.format(0))
    assert log.stat().st_blocks * 512 <= ROOM
    stream = LogStream(log)
    stream.skip_to_tail(100)
    assert stream.read().decode().splitlines()[-1] == LINE.format(LINES - 1).strip()
    assert end_of_log(0, run.run, run.directory)[-1] == LINE.format(LINES - 1).strip()


def test_the_gap_grows_with_the_log_and_is_said_once(tmp_path: Path) -> None:
    log = tmp_path / "log"
    gap = LogGap(str(log), ROOM)

    for _ in range(60):
        with log.open("ab") as file:
            file.write(b"x" * 99_999 + b"\n")
        gap.widen(log.stat().st_size)
        assert log.stat().st_blocks * 512 <= ROOM + 200_000

    text = b"".join(iter(LogStream(log).read, b"")).decode()
    assert text.count("[nbdist: ") == 1
    with log.open("rb") as file:
        (_, begin), (end, _) = kept_parts(file.fileno())
    assert f"[nbdist: {(end - begin) / 1e6:.1f} MB of output left out here" in text


def test_a_reader_that_is_overtaken_is_told_what_it_has_missed(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"".join(b"line %06d\n" % number for number in range(200_000)))
    stream, lines = LogStream(log), LogLines()
    begun = [line for _ in range(4) for line in lines.feed(stream.read(ROOM // 8))]

    LogGap(str(log), ROOM).widen(log.stat().st_size)
    while data := stream.read():
        begun += lines.feed(data)

    assert begun[-1] == "line 199999"
    assert len([line for line in begun if line.startswith("[nbdist: ")]) == 1


def test_zeros_that_a_program_writes_are_no_gap(tmp_path: Path) -> None:
    log = tmp_path / "log"
    written = b"begin\n" + bytes(50_000) + b"\nend\n"
    log.write_bytes(written)

    stream = LogStream(log)
    assert b"".join(iter(lambda: stream.read(7_000), b"")) == written


def test_metrics_are_scraped_behind_a_gap_at_their_own_time(run: WrittenRun) -> None:
    files = run.directory.rank(0)

    points = []
    scraped = ScrapedMetrics(files.log, LogTimes(files.log_times))
    while batch := scraped.read():
        points += batch

    assert len(points) > 1_000
    assert {point.values["loss"] for point in points} == {0.5}


def test_the_copy_of_a_log_has_no_zeros(run: WrittenRun, tmp_path: Path) -> None:
    copies = WorkerLogs(tmp_path, [(0, run.directory.rank(0).log)], report=pytest.fail)

    copies.close()

    copy = (tmp_path / "workerlog.0").read_bytes()
    assert b"\0" not in copy
    assert copy.endswith(LINE.format(LINES - 1).encode())
    assert len(copy) <= ROOM


def test_where_files_have_no_holes_the_log_is_kept_and_that_is_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_gap: LogGap, _size: int) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(LogGap, "widen", refuse)
    reports: list[str] = []
    run = WrittenRun(tmp_path)
    watch = LogWatch(room=ROOM, report=reports.append)
    watch.add(0, run.directory.rank(0))

    for now in range(3):
        run.printed(0, "x" * ROOM)
        watch.tick(float(now))
    watch.close()

    assert len(reports) == 1
    assert reports[0].endswith("is too long, and is kept whole: Operation not supported")


def test_a_run_keeps_within_its_room(start_cell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NBDIST_LOG_GB", "0.001")

    handle = start_cell(
        "-n 2", "print('first')\nfor number in range(200_000):\n    print('line', number)\nprint('last')"
    )

    assert handle.wait(60) == "finished"
    for rank in (0, 1):
        lines = list(handle.log_lines(rank))
        assert (lines[0], lines[-1]) == ("first", "last")
        assert len([line for line in lines if line.startswith("[nbdist: ")]) == 1
        assert os.stat(handle.directory.rank(rank).log).st_blocks * 512 <= 1_000_000
