"""What in a loop has let ranks leave out a call."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from nbdist.diagnosis.positions import Side
from nbdist.programs.sources import Sources
from nbdist.store.reports import Call
from tests.diagnosis.hang_cells import a_program, at, reason


def said(sources: Sources, *sides: Side) -> str:
    return reason(sources, *sides).cause.en


ROUNDS = """\
def fit(loader):
    for batch in loader:
        if done:
            {leaves}
        if hard:
            continue
        backward(batch)
        report(batch)
        if late:
            {leaves}
{call}
"""


@pytest.mark.parametrize(
    ("leaves", "call", "named"),
    [
        pytest.param("return", "fit(loader)", False, id="a return that ends it all"),
        pytest.param("break", "fit(loader)", False, id="a break that ends it all"),
        pytest.param("continue", "fit(loader)", True, id="the next round"),
        pytest.param("return", "for _ in range(3): fit(loader)", True, id="the next epoch"),
    ],
)
def test_ranks_that_came_round_have_not_left_the_loop(
    leaves: str, call: str, named: bool, tmp_path: Path
) -> None:
    sources = a_program(tmp_path, ROUNDS.format(leaves=leaves, call=call))
    inside = at((0,), "gather", (11, "<module>"), (8, "fit"))

    told = said(sources, inside, at((1,), "backward", (11, "<module>"), (7, "fit")))

    assert "line 5  if hard:" in told
    assert ("line 3  if done:" in told) is named


def test_conditions_of_a_module_are_told_with_its_name(tmp_path: Path) -> None:
    sources = a_program(tmp_path, "for step in range(9):\n    backward(step)\n    report(step)\n")
    module = tmp_path / "monitor.py"
    module.write_text("def report(step):\n    if not values:\n        return\n    all_gather(values)\n")
    inside = at((0,), "all_gather", (3, "<module>"))
    reports = Call(file=str(module), line=4, function="report")
    inside = replace(
        inside, way=(*inside.way, reports), place=replace(inside.place, line=4, file="monitor.py")
    )

    told = said(sources, inside, at((1,), "backward", (2, "<module>")))

    assert "called all_gather (line monitor.py:4)" in told
    assert "monitor.py  if not values:" in told
