"""The record files are VisualDL's own, byte for byte, and whole."""

from __future__ import annotations

from nbdist.board.record_files import split
from nbdist.worker.records import encode_scalar


def test_a_torn_frame_is_left_for_later() -> None:
    frames = [encode_scalar(tag="a", step=i, value=i, milliseconds=1) for i in range(3)]
    ends = [sum(map(len, frames[: n + 1])) for n in range(3)]
    whole = b"".join(frames)

    for length in range(len(whole) + 1):
        ends_read = [end for _, end in split(whole[:length])]

        assert ends_read == [end for end in ends if end <= length]
