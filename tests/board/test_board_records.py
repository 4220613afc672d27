"""The record files are VisualDL's own, byte for byte, and whole."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest
from visualdl import LogWriter
from visualdl.proto.record_pb2 import Record

from nbdist.board.records import RecordFile, split
from nbdist.worker.records import encode_name, encode_scalar


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
