"""One address for a line, however its log is read."""

from __future__ import annotations

import random
from itertools import pairwise
from pathlib import Path

import pytest

from nbdist.feed.rank_log import LogDelta, Logs, RankFollower
from nbdist.store import LogLines, RankDirectory
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
        deltas = logs.before(run, 0, 0, end, limit, CREATED)
        for delta in deltas:
            added(lines, delta)
        assert deltas
        assert deltas[0].first < end
        end = deltas[0].first
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


@pytest.mark.parametrize("seed", range(6), ids=lambda seed: f"seed {seed}")
def test_a_log_reads_the_same_in_bulk_and_in_bits(tmp_path: Path, seed: int) -> None:
    source = random.Random(seed)
    pieces = ["plain " * 9, "x" * 16_384, "x" * 40_000, "Ä" * 50, " 10%\r 20%\r", "", "\033[31mred\033[0m"]
    weights = [2_000, 1, 1, 1, 1, 50, 20] if seed % 2 else [3_000, 1, 0, 0, 0, 50, 0]
    text = "".join(piece + "\n" for piece in source.choices(pieces, weights, k=9_000))
    written = WrittenRun(tmp_path)
    written.printed(0, text)
    directory: RankDirectory = written.directory.rank(0, 1)

    def all_lines(limit: int) -> list[str]:
        follower = RankFollower(0, directory, created=CREATED)
        lines: list[str] = []
        while follower.waiting:
            if delta := follower.read(limit, CREATED):
                assert sum(count for count, _ in delta.times) == len(delta.lines) == delta.count
                lines += delta.lines
        return lines

    assert all_lines(200_000) == all_lines(30_000) == LogLines().feed(text.encode())


def test_rows_that_move_are_shown_as_one_block_and_kept_as_they_end(tmp_path: Path) -> None:
    written = WrittenRun(tmp_path)
    written.printed(0, "\repochs: 0/1\n\rsteps: 1/2\x1b[A")
    follower = RankFollower(0, written.directory.rank(0, 1), created=CREATED)

    begun = follower.read(1 << 20, CREATED)
    # so much that whole lines would be taken as bytes
    written.printed(0, "\n\rsteps: 2/2\x1b[A\repochs: 1/1\n" + "a line\n" * 20_000)
    ended = follower.read(1 << 20, CREATED)

    assert begun is not None
    assert (begun.lines, begun.partial) == ([], "epochs: 0/1\nsteps: 1/2")
    assert ended is not None
    assert (list(ended.lines[:2]), ended.partial) == (["epochs: 1/1", "a line"], "")
    assert follower.last_line == "a line"
