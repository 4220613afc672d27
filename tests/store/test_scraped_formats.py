"""The prints of many kinds of programs, and the curves that they make, all and no others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nbdist.store.metrics import MetricPoint
from nbdist.store.scraped.log import ScrapedMetrics

LATER = 4e9  # long after any of these logs was written

Curves = dict[str, list[tuple[int | None, float]]]


def curves_of(log: Path, data: bytes, size: int) -> Curves:
    """Return the curves of a log that grows by ``size`` bytes at a time."""
    now = 0.0
    log.write_bytes(b"")
    scraped = ScrapedMetrics(log, clock=lambda: now)
    points: list[MetricPoint] = []
    with log.open("ab", buffering=0) as file:
        for at in range(0, len(data), size):
            file.write(data[at : at + size])
            points += scraped.read()
    now = LATER
    for _ in range(3):
        while more := scraped.read():
            points += more
    curves: Curves = {}
    for point in points:
        for tag, value in point.values.items():
            curves.setdefault(tag, []).append((point.step, value))
    return curves


SAMPLES = Path(__file__).parent / "samples/formats"
EXPECTED: dict[str, dict[str, Any]] = json.loads((SAMPLES / "curves.json").read_text())
"""The points of each curve, step and value, by the name of what printed it into a log beside this."""


@pytest.mark.parametrize("size", [1 << 20, 90, 7], ids=["at once", "in large pieces", "in small pieces"])
@pytest.mark.parametrize("name", EXPECTED)
def test_the_curves_are_those_that_were_printed(tmp_path: Path, name: str, size: int) -> None:
    expected = EXPECTED[name]

    curves = curves_of(tmp_path / "log", (SAMPLES / f"{name}.log").read_bytes(), size)

    assert {tag: [step for step, _ in curve] for tag, curve in curves.items()} == {
        tag: [step for step, _ in curve] for tag, curve in expected.items()
    }
    for tag, curve in expected.items():
        assert [value for _, value in curves[tag]] == pytest.approx([value for _, value in curve])
