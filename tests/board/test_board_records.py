"""The record files are VisualDL's own, byte for byte."""

from __future__ import annotations

import math
import resource
from pathlib import Path

import pytest
from visualdl import LogWriter
from visualdl.component.base_component import meta_data, scalar
from visualdl.proto.record_pb2 import Record

from nbdist.board.records import RecordFile, encode_name, encode_scalar, split


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


def test_a_file_is_the_one_that_logwriter_writes(tmp_path: Path) -> None:
    with LogWriter(str(tmp_path / "theirs"), display_name="rank0") as writer:
        for step in range(300):
            writer.add_scalar("train/loss", 1 / (step + 1), step, walltime=1763712345000 + step)
        theirs = Path(writer.file_name)
    theirs_bytes = theirs.read_bytes()
    first = Record.FromString(next(split(theirs_bytes))[0]).values[0].timestamp

    ours = RecordFile(tmp_path / "ours.log")
    ours.append(encode_name("rank0", milliseconds=first))
    for step in range(300):
        ours.append(
            encode_scalar(
                tag="train/loss",
                step=step,
                value=1 / (step + 1),
                milliseconds=1763712345000 + step,
            )
        )

    assert (tmp_path / "ours.log").read_bytes() == theirs_bytes


def test_a_torn_frame_is_left_for_later() -> None:
    frames = [encode_scalar(tag="a", step=i, value=i, milliseconds=1) for i in range(3)]
    ends = [sum(map(len, frames[: n + 1])) for n in range(3)]
    whole = b"".join(frames)

    for length in range(len(whole) + 1):
        found = [end for _, end in split(whole[:length])]

        assert found == [end for end in ends if end <= length]


def test_a_write_that_fails_half_way_leaves_no_trace(tmp_path: Path) -> None:
    path = tmp_path / "records.log"
    records = RecordFile(path)
    records.append(b"a" * 100)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (150, hard))
    try:
        with pytest.raises(OSError, match="File too large"):
            records.append(b"b" * 100)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert path.stat().st_size == 150

    records.append(b"c" * 100)

    assert path.read_bytes() == b"a" * 100 + b"c" * 100
