"""The record files are VisualDL's own, byte for byte, and whole."""

from __future__ import annotations

from pathlib import Path

from visualdl import LogWriter
from visualdl.proto.record_pb2 import Record

from nbdist.board.records import split
from nbdist.worker.records import encode_name, encode_scalar


def test_a_file_is_the_one_that_logwriter_writes(tmp_path: Path) -> None:
    with LogWriter(str(tmp_path / "theirs"), display_name="rank0") as writer:
        for step in range(300):
            writer.add_scalar("train/loss", 1 / (step + 1), step, walltime=1763712345000 + step)
        theirs = Path(writer.file_name)
    theirs_bytes = theirs.read_bytes()
    first = Record.FromString(next(split(theirs_bytes))[0]).values[0].timestamp

    ours = [encode_name("rank0", milliseconds=first)]
    for step in range(300):
        at = 1763712345000 + step
        ours.append(encode_scalar(tag="train/loss", step=step, value=1 / (step + 1), milliseconds=at))

    assert b"".join(ours) == theirs_bytes


def test_a_torn_frame_is_left_for_later() -> None:
    frames = [encode_scalar(tag="a", step=i, value=i, milliseconds=1) for i in range(3)]
    ends = [sum(map(len, frames[: n + 1])) for n in range(3)]
    whole = b"".join(frames)

    for length in range(len(whole) + 1):
        ends_read = [end for _, end in split(whole[:length])]

        assert ends_read == [end for end in ends if end <= length]
