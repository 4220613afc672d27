"""The bytes of a log, from an offset on."""

from __future__ import annotations

from pathlib import Path

import pytest

from nbdist.store import LogStream


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


def test_a_log_is_read_as_it_appears_and_grows(log: Path) -> None:
    stream = LogStream(log)
    assert (stream.size, stream.skip_to_tail(10)) == (0, 0)
    before = stream.read()
    log.write_bytes(b"one\n")
    first = stream.read()
    nothing = stream.read()
    with log.open("ab") as file:
        file.write(b"two\n")

    assert (before, first, nothing, stream.read()) == (b"", b"one\n", b"", b"two\n")


def test_a_log_that_was_removed_is_read_no_further(log: Path) -> None:
    log.write_bytes(b"one\n")
    stream = LogStream(log)
    stream.read()

    log.unlink()

    assert (stream.read(), stream.size, stream.offset) == (b"", 0, 4)


def test_a_log_is_read_in_pieces_that_join_to_the_whole(log: Path) -> None:
    data = bytes(range(256)) * 100
    log.write_bytes(data)
    stream = LogStream(log)

    pieces = list(iter(lambda: stream.read(limit=999), b""))

    assert b"".join(pieces) == data
    assert {len(piece) for piece in pieces[:-1]} == {999}


@pytest.mark.parametrize(
    ("content", "length", "tail"),
    [
        pytest.param(b"one\ntwo\nthree\n", 100, b"one\ntwo\nthree\n", id="shorter than the tail"),
        pytest.param(b"one\ntwo\nthree\n", 14, b"one\ntwo\nthree\n", id="as long as the tail"),
        pytest.param(b"one\ntwo\nthree\n", 8, b"three\n", id="the tail begins inside a line"),
        pytest.param(b"one\ntwo\nthr", 6, b"thr", id="the last line has no end yet"),
        pytest.param(b"x" * 20, 6, b"xxxxxx", id="one line longer than the tail"),
        pytest.param(b"x" * 20 + b"\n", 6, b"xxxxx\n", id="one whole line longer than the tail"),
    ],
)
def test_the_tail_begins_with_a_line_where_it_can(
    log: Path, content: bytes, length: int, tail: bytes
) -> None:
    log.write_bytes(content)
    stream = LogStream(log)

    skipped = stream.skip_to_tail(length)

    assert stream.read() == tail
    assert skipped == len(content) - len(tail)


def test_the_tail_never_goes_back(log: Path) -> None:
    log.write_bytes(b"one\ntwo\nthree\n")
    stream = LogStream(log, offset=8)

    assert stream.skip_to_tail(100) == 0
    assert stream.read() == b"three\n"
