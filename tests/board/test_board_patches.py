"""The changes in VisualDL: every name still exists, and every change has its effect."""

from __future__ import annotations

import math
import threading
import time
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from visualdl.component.base_component import meta_data, scalar
from visualdl.proto.record_pb2 import Record
from visualdl.reader.reader import LogReader
from visualdl.utils.update_util import PbUpdater

from nbdist.board import patches
from nbdist.board.patches import PATCHES, Boards, PageFiles, VisualDLChangedError, apply
from nbdist.board.visualdl_app import MAX_VIEWS
from nbdist.store import RunDirectory
from tests.programs import until

if TYPE_CHECKING:
    from tests.board.conftest import Home, Visitor


def frame(record: Record) -> bytes:
    message: bytes = record.SerializeToString()
    return len(message).to_bytes(8, "little") + message


def write_records(run: RunDirectory, writer: str, *frames: bytes) -> Path:
    """Write the records of a program that has a LogWriter of its own."""
    path = run.board / writer / "vdlrecords.1763712345.log"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        file.write(b"".join(frames))
    return path


@pytest.mark.parametrize("name", PATCHES)
def test_visualdl_still_has_what_is_changed(name: str) -> None:
    apply({name: PATCHES[name]})


def test_a_visualdl_that_lacks_a_name_is_not_started() -> None:
    with pytest.raises(VisualDLChangedError, match=r"has no visualdl\.server\.lib\.gone"):
        apply({"visualdl.server.lib.gone.away": None})


def test_telemetry_is_off(visitor: Visitor, home: Home) -> None:
    run = home.run()
    sent: list[str] = []

    class Updater(PbUpdater):  # type: ignore[misc]
        def run(self) -> None:
            sent.append("what VisualDL would send")

    updater = Updater()
    updater.start()

    assert not updater.is_alive()
    assert sent == []
    assert patches.board_arguments([str(run.board)], "/board").telemetry is False
    page = visitor.get(f"{run.run_id}/__snowpack__/env.local.js").text
    assert 'SNOWPACK_PUBLIC_TELEMETRY_ID=""' in page


def test_a_torn_last_record_does_not_stop_the_server(visitor: Visitor, home: Home) -> None:
    run = home.run()
    torn = frame(scalar("loss", 2.0, 1, 1))
    write_records(run, "rank0.own", frame(scalar("loss", 1.0, 0, 1)), torn[:11])
    assert visitor.steps(run, "rank0.own") == [0]

    write_records(run, "rank0.own", torn[11:], frame(scalar("loss", 3.0, 2, 1)))

    until(lambda: visitor.steps(run, "rank0.own") == [0, 1, 2])


def test_what_is_no_record_does_not_stop_the_server(visitor: Visitor, home: Home) -> None:
    run = home.run()
    good = frame(scalar("loss", 1.0, 0, 1))
    write_records(run, "rank0.own", good, b"Traceback (most recent call last)\n")
    write_records(run, "rank1.own", good, (5).to_bytes(8, "little") + b"\xff" * 5, good)
    write_records(run, "rank2.own", good, frame(Record()), good)

    assert visitor.curves(run) == {f"rank{n}.own": ["loss"] for n in range(3)}
    assert visitor.steps(run, "rank2.own") == [0, 0]


def test_another_kind_under_a_tag_does_not_stop_the_server(visitor: Visitor, home: Home) -> None:
    run = home.run()
    image = Record.Image(encoded_image_string=b"")
    write_records(
        run,
        "rank0.own",
        frame(scalar("loss", 1.0, 0, 1)),
        frame(Record(values=[Record.Value(id=1, tag="loss", timestamp=1, image=image)])),
        frame(scalar("loss", 2.0, 2, 1)),
    )

    assert visitor.steps(run, "rank0.own") == [0, 2]


def test_writers_with_one_name_are_two_curves(visitor: Visitor, home: Home) -> None:
    run = home.run()
    for writer in ("rank0.own/train", "rank0.own/test"):
        name = meta_data(display_name="paddle", walltime=1)
        write_records(run, writer, frame(name), frame(scalar("loss", 1.0, 0, 1)))

    assert sorted(visitor.curves(run)) == ["rank0.own/test", "rank0.own/train"]


@pytest.mark.parametrize(
    ("run_ids", "names"),
    [
        pytest.param(["20261120-141503-lenet-k3f9"], ["rank0"], id="one run"),
        pytest.param(
            ["20261120-141503-lenet-k3f9", "20261120-141504-lenet-p2x7"],
            ["lenet-k3f9/rank0", "lenet-p2x7/rank0"],
            id="several runs",
        ),
        pytest.param(
            ["20261120-141503-lenet-k3f9", "20261121-141503-lenet-k3f9"],
            ["20261120-141503-lenet-k3f9/rank0", "20261121-141503-lenet-k3f9/rank0"],
            id="runs that differ in their time only",
        ),
    ],
)
def test_curves_have_short_names_that_differ(
    visitor: Visitor, home: Home, run_ids: list[str], names: list[str]
) -> None:
    for run_id in run_ids:
        home.log(home.run(run_id), home.point(0, loss=1))

    answer = visitor.get("~".join(run_ids) + "/api/scalar/tags").json

    assert answer["data"]["runs"] == names


def test_ranks_are_shown_in_their_order(visitor: Visitor, home: Home) -> None:
    run = home.run()
    for rank in range(12):
        home.log(run, home.point(0, loss=1), rank=rank)

    assert list(visitor.curves(run)) == ["max", "mean", "min", *(f"rank{rank}" for rank in range(12))]


def test_one_look_at_the_files_serves_many_requests(home: Home) -> None:
    run = home.run()
    write_records(run, "rank0", frame(scalar("loss", 1.0, 0, 1)))
    boards = Boards(named=[str(run.board)])
    boards.add(str(run.board))
    LogReader(boards)
    write_records(run, "rank0", frame(scalar("acc", 1.0, 0, 1)))

    boards.loaded = time.monotonic() + 3600
    boards.reader.load_new_data()
    before = list(boards.reader.tags().values())
    boards.loaded = -math.inf
    boards.reader.load_new_data()

    assert before == ["scalar"]
    assert len(boards.reader.tags()) == 2


def test_a_download_has_every_point_there_is_now(visitor: Visitor, home: Home) -> None:
    run = home.run()
    address = f"{run.run_id}/api/scalar/data?run=rank0&tag=loss&type=csv"
    home.log(run, *(home.point(step, loss=step) for step in range(3000)))
    assert len(visitor.get(address).text.splitlines()) == 1 + 3000

    home.log(run, home.point(3000, loss=1), home.point(0, acc=1))

    until(lambda: len(visitor.get(address).text.splitlines()) == 1 + 3001)


def test_a_view_shows_its_own_runs_only(visitor: Visitor, home: Home) -> None:
    first, second = home.run("first"), home.run("second")
    home.log(first, home.point(0, loss=1))
    home.log(second, home.point(0, acc=1))

    assert visitor.curves(first) == {"rank0": ["loss"]}
    assert visitor.curves(second) == {"rank0": ["acc"]}
    assert visitor.curves(first) == {"rank0": ["loss"]}
    assert "/second/_dist_/" in visitor.get("second/scalar").text
    assert "/first/_dist_/" in visitor.get("first/scalar").text


def test_a_view_that_was_dropped_comes_back(visitor: Visitor, home: Home) -> None:
    runs = [home.run(f"run{n}") for n in range(MAX_VIEWS + 1)]
    for run in runs:
        home.log(run, home.point(0, loss=1))

    for run in [*runs, runs[0]]:
        assert visitor.curves(run) == {"rank0": ["loss"]}


def test_of_many_points_the_last_the_lowest_and_the_highest_are_shown(visitor: Visitor, home: Home) -> None:
    run = home.run()
    values = [math.sin(step / 50) for step in range(20_000)]
    values[4321], values[12_345], values[7] = -9.0, 9.0, math.nan
    home.log(run, *(home.point(step, loss=value) for step, value in enumerate(values)))

    until(lambda: visitor.steps(run, "rank0")[-1] == len(values) - 1)
    shown = visitor.steps(run, "rank0")

    assert len(shown) <= 1000
    assert shown == sorted(shown)
    assert {0, 4321, 12_345, 19_999} <= set(shown)
    gaps = [after - before for before, after in pairwise(shown)]
    assert max(gaps) <= 2 * len(values) / 500


def test_the_last_point_is_always_shown(visitor: Visitor, home: Home) -> None:
    run = home.run()
    home.log(run, *(home.point(step, loss=1 / (step + 1)) for step in range(1500)))

    for last in range(1500, 1505):
        home.log(run, home.point(last, loss=0.5))

        until(lambda last=last: visitor.steps(run, "rank0")[-1] == last)


def test_a_tag_that_is_not_there_holds_up_nobody(visitor: Visitor, home: Home) -> None:
    run = home.run()
    home.log(run, home.point(0, loss=1))
    visitor.curves(run)
    start = time.monotonic()

    assert visitor.steps(run, "rank0", "nothing") == []
    assert visitor.steps(run, "rank9", "loss") == []

    assert time.monotonic() - start < 4  # unchanged, each of them takes 4 s


def test_an_open_page_asks_for_new_points_often(visitor: Visitor, home: Home) -> None:
    run = home.run()

    page = visitor.get(f"{run.run_id}/_dist_/hooks/useRequest.js")

    assert page.text.count(f"{patches.POLL_SECONDS}*1e3") == 3
    assert "15*1e3" not in page.text
    assert page.content_type == "application/javascript" or "javascript" in page.content_type


def test_files_beside_the_page_are_not_served(visitor: Visitor, home: Home) -> None:
    run = home.run()

    assert visitor.get(f"{run.run_id}/../../../../app.py").status_code == 404
    assert visitor.get(f"{run.run_id}/%2e%2e/app.py").status_code == 404


def test_a_page_that_has_changed_is_not_served(tmp_path: Path) -> None:
    page = tmp_path / "_dist_/hooks/useRequest.js"
    page.parent.mkdir(parents=True)
    page.write_text("refreshInterval:15e3")
    (tmp_path / "index.html").write_text("<html><head></head></html>")

    with pytest.raises(VisualDLChangedError, match=r"useRequest\.js has no 15\*1e3"):
        PageFiles({"_dist_/hooks/useRequest.js": ("15*1e3", "2*1e3")}, str(tmp_path))


def test_a_view_starts_no_thread(visitor: Visitor, home: Home) -> None:
    run = home.run()
    before = threading.active_count()

    assert visitor.api("component_tabs", run) == ["static_graph"]
    assert visitor.api("profiler/timeunits", run) == ["ns", "us", "ms", "s"]

    assert threading.active_count() == before
