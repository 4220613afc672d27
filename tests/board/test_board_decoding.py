"""VisualDL's records that ranks write, read back without VisualDL."""

from __future__ import annotations

import pytest

from nbdist.board.record_files import Shown, shown_values
from nbdist.worker import records

COUNTS = [[3, 2], [1, 0], [0, 1], [0, 1]]

FRAMES = [
    pytest.param(
        records.encode("samples", 3, 1, records.image(b"\x89PNG")),
        Shown(kind="image", tag="samples", step=3, data=b"\x89PNG"),
        id="an image",
    ),
    pytest.param(
        records.encode("note", 0, 1, records.text("中文")),
        Shown(kind="text", tag="note", step=0, data="中文".encode()),
        id="a text at step 0",
    ),
    pytest.param(
        records.encode("note", -1, 1, records.text("")),
        Shown(kind="text", tag="note", step=-1),
        id="an empty text at a negative step",
    ),
    pytest.param(
        records.encode("w", 1, 1, records.histogram(counts=[1, 2], edges=[0, 0.5, 1])),
        Shown(kind="histogram", tag="w", step=1, rows=((1.0, 2.0), (0.0, 0.5, 1.0))),
        id="a histogram",
    ),
    pytest.param(
        records.encode("r", 1, 1, records.roc_curve(counts=COUNTS, rates=[[1, 0.5], [1, 0]])),
        Shown(kind="roc_curve", tag="r", step=1, rows=((1.0, 0.5), (1.0, 0.0))),
        id="a ROC curve",
    ),
]


@pytest.mark.parametrize(("frame", "expected"), FRAMES)
def test_what_is_written_is_read_back(frame: bytes, expected: Shown) -> None:
    name = records.encode_name("rank0.image", milliseconds=1)
    scalar = records.encode_scalar(tag="loss", step=1, value=1.0, milliseconds=1)

    assert list(shown_values(name + scalar + frame)) == [expected]


def test_damage_costs_the_record_that_has_it() -> None:
    good = records.encode("note", 1, 1, records.text("good"))
    bad = (5).to_bytes(8, "little") + b"\x0a\xff\xff\xff\xff"

    shown = list(shown_values(bad + good + good[:-3]))

    assert [value.data for value in shown] == [b"good"]
