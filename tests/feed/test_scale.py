"""The sentence of a scale: what the larger number of ranks lost, by the parts of their steps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nbdist.feed.scale import Scaling, scaling_of
from nbdist.model import RunState
from nbdist.panel.comparison_view import _scale_html, _scale_text
from nbdist.tables import read_table
from tests.diagnosis.test_training import FACTS, some_steps
from tests.fakes.directories import WrittenRun
from tests.fakes.runs import STARTED, a_spec, run_ended

STAGED = read_table(__file__, "scale")["sentence"]
ALONE: list[float] = [4, 36, 50, 0, 10, 0]


def measured(home: Path, *points: tuple[int, list[float], int], device: str = "cpu") -> Scaling:
    """Return a scale of points: ranks, shares of their time in percent, and steps in ten seconds."""
    runs = []
    for ranks, shares, steps in points:
        written = WrittenRun(home, a_spec(ranks=ranks, run_id=f"20261120-141503-lenet-n{ranks}-aaaa"))
        division = some_steps(shares, steps=steps)
        record = {"time": 1.0, "total": division, "recent": division, "facts": FACTS | {"device": device}}
        for rank in range(ranks if steps else 0):
            written.directory.rank(rank).steps.write_text(json.dumps(record))
        written.happened(*STARTED, run_ended(RunState.FINISHED))
        runs.append((written.run, written.directory))
    return scaling_of(runs)


@pytest.mark.parametrize("staged", STAGED)
def test_the_sentence_names_what_was_lost(home: Path, staged: dict[str, Any]) -> None:
    points = (1, ALONE, 100), (2, staged["shares"], staged["steps"])
    scaling = measured(home, *points, device=staged.get("device", "cpu"))

    assert scaling.sentence("en") == staged["en"]
    assert scaling.sentence("zh").startswith("2 个进程是")


def test_points_without_steps_are_in_the_table(home: Path) -> None:
    scaling = measured(home, (1, ALONE, 0), (2, ALONE, 100), (4, ALONE, 60))
    text, page = _scale_text(scaling, "en"), _scale_html(scaling, "zh")

    assert text.splitlines()[1].endswith(" Finished")
    bar = "█" * 12 + "░" * 8
    assert f"4      768        1.20 ×    60 % {bar}   the computation takes 86 %" in text
    assert text.splitlines()[-1].startswith("4 ranks give 1.2 × the rate of 2 (60 %)")
    assert page.count("<tr>") == 4
    assert bar in page
    assert measured(home, (8, ALONE, 0)).sentence("en").startswith("no steps of a training")
