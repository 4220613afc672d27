"""``POST api/compare``: runs beside each other, for a page."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.directories import WrittenRun
from tests.fakes.runs import RUN_ID, STARTED, a_spec

Ask = Callable[..., Any]
OTHER = "20261120-141503-other-m2a1"
GONE = "20261120-141503-gone-x9y8"


def two_runs(home: Path) -> None:
    WrittenRun(home).recorded(0, loss=0.5).happened(*STARTED)
    WrittenRun(home, a_spec(run_id=OTHER, name="other", retries=2)).recorded(0, loss=0.25)


async def test_a_page_gets_the_table_and_the_curves(ask: Ask, home: Path) -> None:
    two_runs(home)

    answer = await ask("api/compare", "POST", {"run_ids": [RUN_ID, GONE, OTHER, RUN_ID], "curves": True})

    comparison = json.loads(answer.body)
    assert [run["label"] for run in comparison["runs"]] == ["lenet-k3f9", "other-m2a1"]
    rows = {(row["group"], row["name"]): row for row in comparison["rows"]}
    assert (rows["option", "--retries"]["values"], rows["option", "--retries"]["differs"]) == ([0, 2], True)
    assert rows["option", "--framework"]["differs"] is False
    assert [curve["values"] for curves in comparison["curves"] for curve in curves] == [[0.5], [0.25]]
    assert "diffs" not in comparison


async def test_without_curves_it_says_how_the_programs_differ(ask: Ask, home: Path) -> None:
    two_runs(home)

    comparison = json.loads((await ask("api/compare", "POST", {"run_ids": [RUN_ID, OTHER]})).body)

    assert [diff["run_id"] for diff in comparison["diffs"]] == [OTHER]
    assert "curves" not in comparison


@pytest.mark.parametrize(
    ("body", "code"),
    [
        pytest.param({"run_ids": []}, 400, id="no runs"),
        pytest.param({"run_ids": [RUN_ID] * 201}, 400, id="too many"),
        pytest.param({"run_ids": ["../lenet"]}, 400, id="no id"),
        pytest.param({"run_ids": [RUN_ID], "curves": 1}, 400, id="no truth"),
        pytest.param({"run_ids": [GONE]}, 404, id="all are gone"),
    ],
)
async def test_what_cannot_be_compared_is_refused(ask: Ask, home: Path, body: object, code: int) -> None:
    assert (await ask("api/compare", "POST", body)).code == code
