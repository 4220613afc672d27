"""What is encoded is what VisualDL's own functions make, byte for byte."""

from __future__ import annotations

import math
import struct

import pytest
from visualdl.component import base_component as theirs
from visualdl.component.base_component import meta_data, scalar
from visualdl.proto.record_pb2 import Record

from nbdist.worker import records
from nbdist.worker.records import (
    encode_hparams,
    encode_name,
    encode_scalar,
)

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


@pytest.mark.parametrize("text", ["", "hello", "长" * 200])
def test_a_text_is_encoded_as_protobuf_does(text: str) -> None:
    expected = framed(theirs.text("note", text, 3, AT))

    assert records.encode("note", 3, AT, records.text(text)) == expected


def test_an_image_is_encoded_as_protobuf_does() -> None:
    image = Record.Image(encoded_image_string=b"\x89PNG" * 100)
    expected = framed(Record(values=[Record.Value(id=3, tag="a/b", timestamp=AT, image=image)]))

    assert records.encode("a/b", 3, AT, records.image(b"\x89PNG" * 100)) == expected


def test_a_sound_is_encoded_as_protobuf_does() -> None:
    audio = Record.Audio(
        sample_rate=8000,
        num_channels=2,
        length_frames=5,
        encoded_audio_string=b"RIFF",
        content_type="audio/wav",
    )
    expected = framed(Record(values=[Record.Value(id=3, tag="a", timestamp=AT, audio=audio)]))

    frame = records.encode("a", 3, AT, records.audio(wav=b"RIFF", sample_rate=8000, channels=2, frames=5))

    assert frame == expected


def test_a_histogram_is_encoded_as_protobuf_does() -> None:
    expected = framed(theirs.histogram("h", [1.0, 0.0, 7.0], [0.0, 0.5, 1.0, 1.5], 3, AT))

    frame = records.encode("h", 3, AT, records.histogram(counts=[1, 0, 7], edges=[0, 0.5, 1, 1.5]))

    assert frame == expected


def test_embeddings_are_encoded_as_protobuf_does() -> None:
    rows, labels = [[1.0, 2.0], [3.0, 4.0]], [["a", "x"], ["b", "y"]]
    columns = [list(column) for column in zip(*labels, strict=True)]
    expected = framed(theirs.embedding("e", columns, rows, 3, ["name", "kind"], AT))

    frame = records.encode(
        "e",
        3,
        AT,
        records.embeddings(
            vectors=[struct.pack("<2f", *row) for row in rows], labels=labels, header=["name", "kind"]
        ),
    )

    assert frame == expected


@pytest.mark.parametrize(
    ("curve", "their_curve"),
    [
        pytest.param(records.pr_curve, theirs.pr_curve_raw, id="PR"),
        pytest.param(records.roc_curve, theirs.roc_curve_raw, id="ROC"),
    ],
)
def test_a_curve_is_encoded_as_protobuf_does(curve, their_curve) -> None:
    counts, rates = [[300, 2], [1, 0], [0, 5], [7, 8]], [[0.5, 1.0], [0.25, 0.125]]
    expected = framed(their_curve("c", *counts, *rates, 3, AT))

    assert records.encode("c", 3, AT, curve(counts, rates)) == expected


def test_hyperparameters_are_encoded_as_protobuf_does() -> None:
    hparams = {"lr": 0.1, "layers": 3, "zero": 0, "name": "net", "empty": "", "seed": -1}
    expected = framed(theirs.hparam("rank0", hparams, ["loss", "acc"], AT))

    frame = encode_hparams(name="rank0", hparams=hparams, metrics=["loss", "acc"], milliseconds=AT)

    assert frame == expected


def test_a_bool_is_a_number() -> None:
    # VisualDL's own writer raises
    frame = encode_hparams(name="", hparams={"debug": True}, metrics=[], milliseconds=AT)

    assert Record.FromString(frame[8:]).values[0].hparam.hparamInfos[0].int_value == 1


def test_an_int_that_no_int64_holds_is_a_float() -> None:
    frame = encode_hparams(name="", hparams={"seed": 2**64}, metrics=[], milliseconds=AT)

    assert Record.FromString(frame[8:]).values[0].hparam.hparamInfos[0].float_value == 2.0**64


def test_a_percent_sign_is_kept_out_of_tags() -> None:
    frame = records.encode("acc%", 1, AT, records.text(""))

    assert Record.FromString(frame[8:]).values[0].tag == "acc_"
