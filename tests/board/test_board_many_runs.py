"""A view of many runs comes up with a few of them, and has the others when they are asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

import pytest

from nbdist.board.visualdl_app import AWAKE_AT_FIRST
from nbdist.store import RunDirectory
from nbdist.worker import records
from nbdist.worker.records import FILE_NAME

if TYPE_CHECKING:
    from tests.board.conftest import Home, Visitor


@pytest.fixture
def runs(home: Home) -> list[RunDirectory]:
    directories = [home.run(f"20261120-1415{n:02d}-exp{n}-k3f9") for n in range(AWAKE_AT_FIRST + 3)]
    for n, run in enumerate(directories):
        home.log(run, *(home.point(step, loss=step + n) for step in range(3)))
    return directories


def test_every_run_is_listed_and_only_the_first_are_read(visitor: Visitor, runs: list[RunDirectory]) -> None:
    listed = visitor.api("scalar/tags", *runs)

    assert listed["runs"] == [f"exp{n}-k3f9/rank0" for n in range(len(runs))]
    assert all("loss" in tags for tags in listed["tags"])
    assert [run.board.exists() for run in runs] == [True] * AWAKE_AT_FIRST + [False] * 3


def test_a_run_is_read_when_its_curve_is_asked_for(visitor: Visitor, runs: list[RunDirectory]) -> None:
    visitor.api("scalar/tags", *runs)

    points = visitor.api(f"scalar/list?run=exp{AWAKE_AT_FIRST}-k3f9/rank0&tag=loss", *runs)

    assert [(step, value) for _, step, value in points] == [(n, n + AWAKE_AT_FIRST) for n in range(3)]
    assert [run.board.exists() for run in runs] == [True] * (AWAKE_AT_FIRST + 1) + [False] * 2
    assert len(visitor.api("scalar/tags", *runs)["runs"]) == len(runs)


def test_the_page_opens_with_one_curve_of_each_of_the_first(
    visitor: Visitor, runs: list[RunDirectory]
) -> None:
    answer = visitor.get("~".join(run.run_id for run in runs) + "/scalar", follow=False)

    shown = parse_qs(urlsplit(answer.headers["Location"]).query)["runs"]
    assert shown == [",".join(f"exp{n}-k3f9/rank0" for n in range(AWAKE_AT_FIRST))]


def test_what_no_list_can_know_is_read_bit_by_bit(
    visitor: Visitor, runs: list[RunDirectory], home: Home
) -> None:
    settings = {"t": 1, "v": {"loss": 2}, "hparams": {"lr": 0.1}, "metrics": ["loss"]}
    home.log(runs[-1], settings)

    names = [item["name"] for item in visitor.api("hparams/list", *runs)]

    assert names == [f"exp{len(runs) - 1}-k3f9/rank0"]


def test_a_page_chooses_its_curves_before_it_asks_for_any(visitor: Visitor, runs: list[RunDirectory]) -> None:
    page = visitor.get(f"{runs[0].run_id}/_dist_/hooks/useTagFilter.js")

    assert "URLSearchParams(location.search)" in page.text


def test_embeddings_are_called_by_their_curves_and_are_those_of_the_view(
    visitor: Visitor, runs: list[RunDirectory], home: Home
) -> None:
    for number, run in enumerate(runs[:2]):
        frame = records.encode(
            "e",
            0,
            1,
            records.embeddings(vectors=[bytes(8)] * (number + 2), labels=[["a"]] * (number + 2), header=[]),
        )
        folder = run.board / "rank0.embeddings"
        folder.mkdir(parents=True)
        (folder / FILE_NAME).write_bytes(records.encode_name("e", milliseconds=1) + frame)

    for number, run in enumerate(runs[:2]):
        (shown,) = visitor.api("embedding/list", run)
        assert shown == {"name": "rank0.embeddings/e", "shape": [number + 2, 2], "path": "rank0.embeddings/e"}
        labels = visitor.get(f"{run.run_id}/api/embedding/metadata?name=rank0.embeddings/e").text
        assert labels.split() == ["a"] * (number + 2)
        tensor = visitor.get(f"{run.run_id}/api/embedding/tensor?name=rank0.embeddings/e").data
        assert len(tensor) == (number + 2) * 8


def test_no_page_names_a_directory(visitor: Visitor, runs: list[RunDirectory], home: Home) -> None:
    home.log(runs[0], {"t": 1, "v": {"loss": 2}, "hparams": {"lr": 0.1}, "metrics": ["loss"]})

    assert str(home.path) not in str(visitor.api("hparams/list", runs[0]))
