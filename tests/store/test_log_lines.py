"""Bytes in, lines out, however the bytes arrive."""

from __future__ import annotations

import operator
import random
import tracemalloc
from collections.abc import Iterable, Iterator

import pytest

from nbdist.store import LogLines


def lines_of(pieces: Iterable[bytes], width: int = 16_384) -> list[str]:
    lines = LogLines(width)
    complete = [line for piece in pieces for line in lines.feed(piece)]
    return complete + lines.close()


def cut_at_random(data: bytes, source: random.Random) -> Iterator[bytes]:
    while data:
        length = source.choice((1, 1, 2, 3, 7, 50))
        yield data[:length]
        data = data[length:]


@pytest.mark.parametrize(
    ("output", "lines"),
    [
        pytest.param(b"", [], id="nothing"),
        pytest.param(b"one\ntwo\n", ["one", "two"], id="whole lines"),
        pytest.param(b"one\ntwo", ["one", "two"], id="no newline at the end"),
        pytest.param(b"\n\none\n\n", ["", "", "one", ""], id="empty lines"),
        pytest.param(b"one\r\ntwo\r\n", ["one", "two"], id="newlines of Windows"),
        pytest.param(b" 10%\r 20%\r100%\n", ["100%"], id="progress that ends with a newline"),
        pytest.param(b"\r 10%\r 20%\r100%", ["100%"], id="progress that ends the log"),
        pytest.param(b" 10%\r 20%\r", [" 20%"], id="progress that returns before it writes"),
        pytest.param(b"\r\r\r\n", [""], id="returns alone"),
        pytest.param("损失 0.5 🏖️\n".encode(), ["损失 0.5 🏖️"], id="more than ASCII"),
        pytest.param(b"half \xe6\x8d\n", ["half \ufffd"], id="a character that never ends"),
        pytest.param(b"half \xe6\x8d", ["half \ufffd"], id="a character that the log's end cuts"),
        pytest.param(b"\xff\xfe\x00binary\n", ["\ufffd\ufffd\x00binary"], id="what is no text"),
        pytest.param("a\u2028b\x0cc\x85d\n".encode(), ["a\u2028b\x0cc\x85d"], id="only \\n ends a line"),
        pytest.param(b"\r 50%\r100%\r    \r", ["100%"], id="progress that is taken away at the end"),
        pytest.param(b"\r100%\r    \rdone\n", ["done"], id="progress that gives way to text"),
        pytest.param(b" 10%\b\b\b\b 20%\b\b\b\b100%\n", ["100%"], id="progress by backspaces"),
        pytest.param(b"at 10%\b\b\b20%\b\b\b", ["at 20%"], id="of which a part is written over"),
        pytest.param(b"|\b/\b-\b \b\n", ["-"], id="a spinner that is taken away at the end"),
        pytest.param(b"\x1b[1G1/2\x1b[3D\x1b[K2/2\x1b[1G", ["\x1b[K2/2"], id="progress by columns"),
        pytest.param(b"ab\x1b[5Gc\x1b[2Cd\x1b[999G\n", ["ab  c  d"], id="columns ahead"),
        pytest.param(b"\x1b[31mred\x1b[0m\n", ["\x1b[31mred\x1b[0m"], id="colours are kept"),
    ],
)
def test_output_becomes_lines_however_it_is_cut(output: bytes, lines: list[str]) -> None:
    whole = lines_of([output])
    byte_by_byte = lines_of(output[at : at + 1] for at in range(len(output)))
    in_two = [lines_of([output[:at], output[at:]]) for at in range(len(output))]

    assert whole == byte_by_byte == lines
    assert all(parts == lines for parts in in_two)


@pytest.mark.parametrize("seed", range(12), ids=lambda seed: f"seed {seed}")
def test_any_cutting_gives_the_same_lines(seed: int) -> None:
    source = random.Random(seed)
    words = ["loss", "损失", "\n", "\n", "\r", "\r\n", "🏖️", "\x1b[1m", "0.125", "é"]
    words += ["\b", "\b\b\b", "\x1b[2D", "\x1b[G"] if seed % 2 else [" "]
    # twelve words between two newlines at the most: within the width
    text = "".join(
        "".join(source.choices(words, k=source.randrange(12))) + source.choice("\r\n") for _ in range(200)
    )

    cut = lines_of(cut_at_random(text.encode(), source))

    assert cut == lines_of([text.encode()])


@pytest.mark.parametrize("seed", range(6), ids=lambda seed: f"seed {seed}")
def test_long_lines_are_cut_alike_however_they_arrive(seed: int) -> None:
    source = random.Random(seed)
    text = "\n".join("损x" * source.randrange(30) for _ in range(50)) + "\n"

    pieces = lines_of(cut_at_random(text.encode(), source), width=16)

    assert pieces == lines_of([text.encode()], width=16)
    assert max(map(len, pieces)) == 16
    assert "".join(pieces) == text.replace("\n", "")


@pytest.mark.parametrize(
    ("length", "pieces"),
    [
        pytest.param(0, [0], id="an empty line is one line"),
        pytest.param(15, [15], id="just short of the width"),
        pytest.param(16, [16], id="just the width"),
        pytest.param(17, [16, 1], id="just over the width"),
        pytest.param(48, [16, 16, 16], id="three times the width"),
    ],
)
@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=["unix", "windows"])
def test_a_line_is_cut_only_where_it_is_too_long(length: int, pieces: list[int], end: str) -> None:
    output = ("x" * length + end).encode()

    whole = lines_of([output], width=16)
    byte_by_byte = lines_of((output[at : at + 1] for at in range(len(output))), width=16)

    assert [len(piece) for piece in whole] == pieces
    assert byte_by_byte == whole


@pytest.mark.parametrize(
    ("fed", "partial"),
    [
        pytest.param([b"one\ntw"], "tw", id="what has no newline yet"),
        pytest.param([b"one\n"], "", id="nothing after a newline"),
        pytest.param(["损".encode()[:2]], "", id="half a character is none"),
        pytest.param([b"\r 10%", b"\r 20%"], " 20%", id="progress as a terminal shows it"),
        pytest.param([b" 10%\r", b" 20%\r"], " 20%", id="progress that waits for the next one"),
        pytest.param([b" 10%\r", b" 2"], " 2", id="progress that is being written over"),
    ],
)
def test_the_line_that_still_grows_is_shown(fed: list[bytes], partial: str) -> None:
    lines = LogLines()

    for data in fed:
        lines.feed(data)

    assert lines.partial == partial
    lines.close()
    assert lines.close() == []


@pytest.mark.parametrize(
    "step", [pytest.param("\r{:3}%", id="return first"), pytest.param("{:3}%\r", id="return last")]
)
def test_progress_longer_than_a_line_may_be_is_still_one_line(step: str) -> None:
    lines = LogLines(width=64)

    done, shown = [], []
    for percent in range(101):
        done += lines.feed(step.format(percent).encode())
        shown.append(lines.partial)

    assert done == []
    assert shown == [f"{percent:3}%" for percent in range(101)]
    assert lines.feed(b"\n") == ["100%"]


@pytest.mark.parametrize(
    "block",
    [
        pytest.param(b"x" * 65_536, id="one line of 10 MB"),
        pytest.param(b"\r 42%|####      |" * 4096, id="10 MB of progress"),
        pytest.param("损".encode() * 21_845 + b"x", id="10 MB of Chinese"),
    ],
)
def test_output_without_a_newline_does_not_eat_the_memory(block: bytes) -> None:
    lines = LogLines()
    tracemalloc.start()

    try:
        for _ in range(160):
            lines.feed(block)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 2_000_000
    assert len(lines.partial) <= 16_384


def frames_of_tqdm(inner: int) -> bytes:
    """A bar over two epochs, and below it one over ``inner`` steps for each, which is taken away."""
    frames = b""
    for epoch in (0, 1):
        frames += b"\repochs: %d/2" % epoch
        frames += b"".join(b"\n\rstep %d/%d\x1b[A" % (step, inner) for step in range(inner + 1))
        frames += b"\n\r          \r\x1b[A"
    return frames + b"\repochs: 2/2\n"


UP = b"\r\x1b[2K\x1b[1A\x1b[2K"
RICH = (
    b"\x1b[?25l\r\x1b[2Kepochs 0\r\x1b[2Kepochs 0\nsteps 0" + UP + b"epochs 0\nsteps 1" + UP + b"a word\n"
    b"epochs 1\nsteps 1" + UP + b"epochs 2\n\x1b[?25h"
)


@pytest.mark.parametrize(
    ("output", "lines"),
    [
        pytest.param(frames_of_tqdm(5), ["epochs: 2/2"], id="nested bars of tqdm"),
        pytest.param(
            frames_of_tqdm(5) + b"done\nand over\n", ["epochs: 2/2", "done", "and over"], id="and text"
        ),
        pytest.param(b"before\n" + RICH + b"done\n", ["before", "a word", "epochs 2", "done"], id="rich"),
        pytest.param(b"\x1b[?25l- word\n\x1b[?25h\r\x1b[1A\x1b[2Kdone\n", ["done"], id="rich's status"),
        pytest.param(b"a\nb\n\x1b[2A\x1b[Jc\n", ["c"], id="all below is erased"),
        pytest.param(b"a\nb\n\x1b[1FB\x1b[1Ec\n", ["a", "B", "c"], id="to the start of a line"),
        pytest.param(b"\x1b[3Aone\n\x1b[2B\ntwo\n", ["one", "two"], id="further than there are rows"),
        pytest.param(b"one\ntwo\x1b[", ["one", "two\x1b["], id="half a sequence at the end"),
        pytest.param(b"\x1b[?25h\x1b[2J\x1b[Bone\n", ["\x1b[?25h\x1b[2J\x1b[Bone"], id="no row moves"),
    ],
)
def test_rows_that_are_drawn_again_are_lines_once(output: bytes, lines: list[str]) -> None:
    assert lines_of([output]) == lines


def test_a_table_that_is_drawn_again_row_by_row_appears_once() -> None:
    tables = [[f"row {row} of {rows}" for row in range(rows)] for rows in range(20, 25)]
    erased = [b"\r\x1b[2K" + b"\x1b[1A\x1b[2K" * (len(table) - 1) for table in tables]
    frames = ["\n".join(table).encode() for table in tables]
    output = b"\x1b[?25l" + b"".join(map(operator.add, frames, [*erased[:-1], b"\n\x1b[?25h"]))

    assert lines_of(output.splitlines(keepends=True)) == tables[-1]


@pytest.mark.parametrize("size", [1, 2, 7, 60])
@pytest.mark.parametrize(
    "output", [frames_of_tqdm(300) + b"done\n", RICH * 40 + b"done\n"], ids=["tqdm", "rich"]
)
def test_where_a_read_ends_costs_one_line_of_a_moving_block_at_most(output: bytes, size: int) -> None:
    whole = lines_of([output])

    cut = lines_of(output[at : at + size] for at in range(0, len(output), size))

    assert cut[-len(whole) :] == whole
    assert len(cut) <= len(whole) + 1


def test_rows_that_move_are_shown_together() -> None:
    lines = LogLines()

    done = lines.feed(b"\repochs: 0/2\n\rstep 1/5\x1b[A\n\rstep 2/5\x1b[A")

    assert done == []
    assert lines.partial == "epochs: 0/2\nstep 2/5"


def test_a_program_that_moves_up_without_end_takes_little_memory() -> None:
    lines = LogLines()

    done = [line for at in range(2000) for line in lines.feed(b"\x1b[999999999Aline %d\n\n\n" % at)]

    assert lines.partial.count("\n") <= 64
    assert len(done) == 2000 - lines.partial.count("line")
