"""Lines that stay bytes until somebody asks for them."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from nbdist.feed.rank_log import RankFollower
from nbdist.store import LogLines, RankDirectory
from tests.fakes.directories import WrittenRun
from tests.fakes.runs import CREATED


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
