"""A line has one address, whichever way its log is read."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from nbdist.feed.rank_log import LogDelta, Logs, RankFollower
from nbdist.store import RankDirectory
from tests.fakes.directories import WrittenRun
from tests.fakes.runs import CREATED, STARTED, attempt_started, exited

Lines = dict[int, str]

LOGS = {
    "short lines": b"".join(b"line %d\n" % number for number in range(60_000)),
    "empty lines": b"\n\na\n\n" * 30_000,
    "long lines among short ones": b"".join(
        b"%d " % number + b"x" * (40_000 if number % 500 == 7 else 20) + b"\n" for number in range(6000)
    ),
    "a line longer than what is read at once": b"a\n" + b"y" * 600_077 + b"\nb\nc\n" + b"z\n" * 100_000,
    "no newline at the end": b"one\ntwo\nthree",
    "characters of several bytes": "训练 ✓\n".encode() * 50_000,
    "bytes that are no text": b"\xff\xfe\n\x80 a\n" * 20_000,
    "lines that end as on Windows": b"one\r\ntwo two\r\n" * 20_000,
    "progress bars": b" 10%\r 20%\r100%\nepoch\n" * 20_000,
    "nothing": b"",
}
NESTED = (
    b"line\n" * 50 + b"\router" + b"\n\rinner\x1b[A" * 3_000 + b"\router\n\rafter\nand\n" + b"line\n" * 30_000
)


def added(lines: Lines, delta: LogDelta | None) -> None:
    if delta is not None and delta.lines:
        chunk = delta
        edges = chunk.all_edges()
        assert (edges[0], edges[-1], len(edges)) == (chunk.first, chunk.end, chunk.count + 1)
        assert all(low < high for low, high in pairwise(edges))
        lines.update(zip(edges, chunk.lines, strict=False))


def read_in(rank: RankDirectory, limit: int) -> Lines:
    follower = RankFollower(0, rank, created=CREATED)
    lines: Lines = {}
    while follower.waiting:
        added(lines, follower.read(limit, CREATED))
    added(lines, follower.read(limit, CREATED, final=True))
    return lines


def read_back(written: WrittenRun, end: int, limit: int) -> Lines:
    logs, run = Logs(written.directory, None), written.run
    lines: Lines = {}
    while end > 0:
        found = logs.before(run, 0, 0, end, limit, CREATED)
        for delta in found:
            added(lines, delta)
        assert found
        assert found[0].first < end
        end = found[0].first
    return lines


@pytest.mark.parametrize("name", LOGS)
def test_a_log_read_in_small_parts_in_large_ones_or_from_its_end_has_the_same_lines(
    tmp_path: Path, name: str
) -> None:
    written = WrittenRun(tmp_path).happened(*STARTED).printed(0, LOGS[name])

    bulk = read_in(written.directory.rank(0), 1 << 20)

    assert read_in(written.directory.rank(0), 30_000) == bulk
    assert read_back(written, len(LOGS[name]), 100_000) == bulk
    newlines = [at + 1 for at, byte in enumerate(LOGS[name][:-1]) if byte == 10]
    assert bulk.keys() >= {*newlines}


def test_lines_after_rows_that_moved_have_their_own_addresses_again(tmp_path: Path) -> None:
    written = WrittenRun(tmp_path).happened(*STARTED).printed(0, NESTED)

    lines = read_in(written.directory.rank(0), 1 << 20)

    assert [lines[address] for address in list(lines)[-30_002:-29_998]] == ["after", "and", "line", "line"]
    assert list(lines)[-30_000:] == list(range(len(NESTED) - 150_000, len(NESTED), 5))
    assert read_in(written.directory.rank(0), 7_000) == lines


def test_the_attempts_of_a_run_follow_each_other(tmp_path: Path) -> None:
    written = WrittenRun(tmp_path).happened(*STARTED).printed(0, "first try\nno newline")
    logs = Logs(written.directory, None)
    live: Lines = {}
    for delta in logs.look(written.run, CREATED):
        added(live, delta)
    written.happened(exited(0, 1), exited(1, 1, ended=True), attempt_started(2))
    second = written.directory.rank(0, 2)
    second.path.mkdir(parents=True)
    second.log.write_text("second try\n")

    for delta in logs.look(written.run, CREATED):
        if delta.rank == 0:
            added(live, delta)

    assert list(live.values()) == ["first try", "no newline", "—— attempt 2 ——", "second try"]
    assert read_back(written, max(live) + len("second try\n"), 100_000) == live
