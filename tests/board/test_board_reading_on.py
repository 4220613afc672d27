"""A board over more points than can be read at once: the page comes first, and in the end all are there."""

from __future__ import annotations

import math
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from werkzeug.test import Client

from nbdist.board.patches import PATCHES, Boards, apply, read_on
from nbdist.board.record_files import FrameReader, split
from nbdist.board.scalars import Feed
from nbdist.board.visualdl_app import View
from nbdist.store import RunDirectory
from nbdist.worker.records import FILE_NAME, encode_scalar
from tests.programs import until

if TYPE_CHECKING:
    from tests.board.conftest import Home

LAST = 9_999


@pytest.fixture
def run(home: Home) -> RunDirectory:
    """Return a run of two ranks that have logged more than one piece."""
    run = home.run()
    for rank in (0, 1):
        home.log(
            run, *(home.point(step, t=1e9 + step, loss=step + rank) for step in range(LAST + 1)), rank=rank
        )
    return run


class HeldFeed(Feed):
    """A feed that reads one piece, and the others when the test lets it."""

    def __init__(self) -> None:
        super().__init__()
        self.released = threading.Event()
        self._begun = False

    def advance(self, run: RunDirectory, seconds: float = math.inf) -> bool:
        if self._begun and not self.released.wait(0.01):
            return False
        self._begun = True
        return super().advance(run, 0.0)


class Browser:
    def __init__(self, runs: list[RunDirectory], feed: Feed) -> None:
        apply(PATCHES)
        self._client = Client(View(runs, "/x", feed))

    def page(self) -> int:
        return self._client.get("/x/scalar?runs=rank0", headers={"Accept-Language": "en"}).status_code

    def points(self, curve: str) -> list[list[float]]:
        answer: Any = self._client.get(f"/x/api/scalar/list?run={curve}&tag=loss").json
        return list(answer["data"])

    def last(self, curve: str) -> float:
        return max((step for _, step, _ in self.points(curve)), default=-1)


def test_the_page_comes_before_all_is_read_and_all_points_of_all_runs_in_the_end(
    run: RunDirectory, home: Home
) -> None:
    other = home.run("20261120-141504-lenet-p2x7")
    home.log(other, *(home.point(step, t=1e9 + step, loss=step) for step in range(LAST + 1)))
    feed = HeldFeed()
    browser = Browser([run, other], feed)
    curves = ["lenet-p2x7/rank0", *(f"lenet-k3f9/{name}" for name in ("rank0", "rank1", "mean", "max"))]

    assert browser.page() == 200
    assert 0 < browser.last("lenet-k3f9/rank0") < LAST
    feed.released.set()
    until(lambda: {browser.last(curve) for curve in curves} == {LAST}, 60)
    assert browser.points("lenet-k3f9/max")[-1][2] == LAST + 1


def records(run: RunDirectory) -> dict[str, list[bytes]]:
    """Return the records of each curve, sorted: those of several tags may come in another order."""
    files = run.board.rglob(FILE_NAME)
    return {file.parent.name: sorted(message for message, _ in split(file.read_bytes())) for file in files}


def test_in_pieces_the_records_are_those_of_one_go(run: RunDirectory) -> None:
    feed, pieces = Feed(), 1
    while not feed.advance(run, 0.0):
        pieces += 1
    in_pieces = records(run)

    Feed().advance(run)

    assert pieces > 3
    assert records(run) == in_pieces


def test_visualdl_reads_a_file_in_pieces_and_none_twice(run: RunDirectory) -> None:
    apply(PATCHES)
    from visualdl.reader.reader import LogReader

    Feed().advance(run)
    boards = Boards(named=[str(run.board)])
    boards.add(str(run.board))
    boards.behind = True  # so that it does not begin by itself
    reader = LogReader(boards)

    pieces = 1
    while not read_on(boards, 0.0):
        pieces += 1

    bucket = reader.data_manager.get_reservoir("scalar")
    assert pieces > 3
    assert bucket._buckets[f"{run.board}/rank0/loss"]._num_items_index == LAST + 1


@pytest.mark.parametrize("room", [1, 20, 64, 1000])
def test_a_file_is_read_in_pieces_of_whole_records(tmp_path: Path, room: int) -> None:
    frames = [encode_scalar(tag="t" * size, step=1, value=1.0, milliseconds=1) for size in (1, 200, 3)]
    path = tmp_path / FILE_NAME
    path.write_bytes(b"".join(frames) + frames[1][:30])
    reader = FrameReader(str(path), room=room)

    messages = list(reader.get_remain())
    while reader.behind:
        messages += reader.get_remain()

    assert messages == [frame[8:] for frame in frames]
    with path.open("ab") as file:
        file.write(frames[1][30:])
    messages = reader.get_remain()
    while reader.behind:
        messages += reader.get_remain()
    assert messages == [frames[1][8:]]
