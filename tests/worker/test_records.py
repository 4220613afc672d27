"""Records are encoded as by VisualDL's own functions, byte for byte."""

from __future__ import annotations

import math
import struct
from typing import Any

import pytest
from visualdl.component import base_component as theirs
from visualdl.component.base_component import meta_data, scalar
from visualdl.proto.record_pb2 import Record

from nbdist.worker import records
from nbdist.worker.records import encode_hparams, encode_name, encode_scalar

AT = 1763712345123


def framed(record: Record) -> bytes:
    message: bytes = record.SerializeToString()
    return len(message).to_bytes(8, "little") + message


@pytest.mark.parametrize(
    ("tag", "step", "value", "milliseconds"),
    [
        pytest.param("loss", 12, 0.5, 1763712345123, id="a usual point"),
        pytest.param("loss", 0, 0.0, 0, id="all zero"),
        pytest.param("train/loss", 127, -1.25, 1, id="the largest step of one byte"),
        pytest.param("loss", 128, 1 / 3, 1, id="the smallest step of two bytes"),
        pytest.param("loss", 2**63 - 1, 1e-45, 2**62, id="the largest step, a subnormal"),
        pytest.param("loss", -1, 1.0, 1, id="a negative step"),
        pytest.param("损失 ✓", 1, 1.0, 1, id="a tag that is not ASCII"),
        pytest.param("t" * 300, 1, 1.0, 1, id="a tag whose length takes two bytes"),
        pytest.param("loss", 1, math.nan, 1, id="not a number"),
        pytest.param("loss", 1, -math.inf, 1, id="minus infinity"),
        pytest.param("loss", 1, 3.4028235677973362e38, 1, id="just inside float32"),
        pytest.param("loss", 1, 3.4028235677973366e38, 1, id="just outside float32"),
        pytest.param("loss", 1, -1e300, 1, id="far outside float32"),
    ],
)
def test_a_scalar_is_encoded_as_protobuf_does(tag: str, step: int, value: float, milliseconds: int) -> None:
    expected = scalar(tag, value, step, milliseconds).SerializeToString()

    frame = encode_scalar(tag=tag, step=step, value=value, milliseconds=milliseconds)

    assert frame == len(expected).to_bytes(8, "little") + expected


@pytest.mark.parametrize("name", ["", "lenet-k3f9/rank0", "名"])
def test_a_name_is_encoded_as_protobuf_does(name: str) -> None:
    expected = meta_data(display_name=name, walltime=1763712345123).SerializeToString()

    frame = encode_name(name, milliseconds=1763712345123)

    assert frame == len(expected).to_bytes(8, "little") + expected


CURVE = ([[300, 2], [1, 0], [0, 5], [7, 8]], [[0.5, 1.0], [0.25, 0.125]])
PNG = b"\x89PNG" * 100
SOUND = {"sample_rate": 8000, "num_channels": 2, "length_frames": 5, "content_type": "audio/wav"}
ROWS, LABELS = [[1.0, 2.0], [3.0, 4.0]], [["a", "x"], ["b", "y"]]
VECTORS = [struct.pack("<2f", *row) for row in ROWS]


def holding(**value: Any) -> Record:
    return Record(values=[Record.Value(id=3, tag="a", timestamp=AT, **value)])


@pytest.mark.parametrize(
    ("ours", "expected"),
    [
        *((records.text(text), theirs.text("a", text, 3, AT)) for text in ("", "hello", "长" * 200)),
        (records.image(PNG), holding(image=Record.Image(encoded_image_string=PNG))),
        (
            records.audio(wav=b"RIFF", sample_rate=8000, channels=2, frames=5),
            holding(audio=Record.Audio(encoded_audio_string=b"RIFF", **SOUND)),
        ),
        (
            records.histogram(counts=[1, 0, 7], edges=[0, 0.5, 1, 1.5]),
            theirs.histogram("a", [1.0, 0.0, 7.0], [0.0, 0.5, 1.0, 1.5], 3, AT),
        ),
        (
            records.embeddings(vectors=VECTORS, labels=LABELS, header=["name", "kind"]),
            theirs.embedding("a", [["a", "b"], ["x", "y"]], ROWS, 3, ["name", "kind"], AT),
        ),
        (records.pr_curve(*CURVE), theirs.pr_curve_raw("a", *CURVE[0], *CURVE[1], 3, AT)),
        (records.roc_curve(*CURVE), theirs.roc_curve_raw("a", *CURVE[0], *CURVE[1], 3, AT)),
    ],
    ids=["no text", "a text", "a long one", "an image", "a sound", "a histogram", "embeddings", "PR", "ROC"],
)
def test_a_value_is_encoded_as_protobuf_does(ours: bytes, expected: Record) -> None:
    assert records.encode("a", 3, AT, ours) == framed(expected)


def test_hyperparameters_are_encoded_as_protobuf_does() -> None:
    hparams = {"lr": 0.1, "layers": 3, "zero": 0, "name": "net", "empty": "", "seed": -1}
    expected = framed(theirs.hparam("rank0", hparams, ["loss", "acc"], AT))

    frame = encode_hparams(name="rank0", hparams=hparams, metrics=["loss", "acc"], milliseconds=AT)

    assert frame == expected


@pytest.mark.parametrize(
    ("value", "field", "kept"),
    [
        # VisualDL's own writer raises
        pytest.param(True, "int_value", 1, id="a bool is a number"),
        pytest.param(2**64, "float_value", 2.0**64, id="an int that no int64 holds is a float"),
    ],
)
def test_a_setting_is_a_number(value: int, field: str, kept: float) -> None:
    frame = encode_hparams(name="", hparams={"setting": value}, metrics=[], milliseconds=AT)

    assert getattr(Record.FromString(frame[8:]).values[0].hparam.hparamInfos[0], field) == kept


def test_a_percent_sign_is_kept_out_of_tags() -> None:
    frame = records.encode("acc%", 1, AT, records.text(""))

    assert Record.FromString(frame[8:]).values[0].tag == "acc_"
