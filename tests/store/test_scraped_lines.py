"""The metrics in lines of training logs, and lines without any."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from nbdist.store.scraped.line_metrics import Progress, lines_with_cues, read_line
from nbdist.store.scraped.names import tag_of

SAMPLES = Path(__file__).parent / "samples"

SAID: dict[str, tuple[str, dict[str, float], str]] = json.loads((SAMPLES / "lines.json").read_text())
"""Lines, their values, and where they say that training stands."""


@pytest.mark.parametrize("name", SAID)
def test_a_line_of_training_is_understood(name: str) -> None:
    line, values, place = SAID[name]
    data = f"before\n{line}\nafter".encode()

    reading = read_line(line)

    assert dict(reading.values) == pytest.approx(values)
    assert place_text(reading.progress) == place
    assert lines_with_cues(data) == [(7, len(data) - 6)], "it is looked at"


def place_text(progress: Progress) -> str:
    counts = (("epoch", progress.epoch, progress.epochs), ("at", progress.at, progress.of))
    return " ".join(
        f"{word} {count:g}{'' if of is None else f'/{of}'}" for word, count, of in counts if count is not None
    )


def test_what_is_no_number_yet_is_a_value() -> None:
    reading = read_line("[rank0]: step 3 loss nan lr inf")

    assert math.isnan(reading.values["loss"])
    assert reading.values["lr"] == math.inf


def test_other_lines_and_what_libraries_print_say_nothing() -> None:
    ordinary = (SAMPLES / "ordinary.log").read_text().splitlines()

    readings = {line: reading for line in ordinary if (reading := read_line(line)) is not None}

    assert len(ordinary) > 500
    assert [line for line, reading in readings.items() if reading.values] == []


def test_a_very_long_line_is_not_looked_at() -> None:
    assert read_line("loss: 0.5 " + "x" * 5000) is None


@pytest.mark.parametrize(
    ("name", "tag"),
    [
        pytest.param("Avg Loss", "avg_loss", id="a space"),
        pytest.param("Acc@1", "acc_1", id="a sign"),
        pytest.param("train/loss", "train/loss", id="a slash"),
        pytest.param("val_loss", "val_loss", id="one already"),
    ],
)
def test_a_name_becomes_a_tag(name: str, tag: str) -> None:
    assert tag_of(name) == tag
