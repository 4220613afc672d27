"""The end of one rank's log in memory."""

from __future__ import annotations

import random

import pytest

from nbdist.feed.rank_log import LogDelta
from nbdist.feed.send_queue import Tail, end_of


def a_delta(first: int, *lines: str, skipped: int = 0, partial: str = "") -> LogDelta:
    times = tuple((1, float(first + at)) for at in range(len(lines)))
    edges = range(first, first + len(lines) + 1)
    return LogDelta.of(
        rank=3, first=first, lines=lines, edges=edges, partial=partial, skipped=skipped, times=times
    )


def numbered(first: int, count: int) -> LogDelta:
    """Return ten bytes a line, with its newline."""
    return a_delta(first, *(f"{number:9}" for number in range(first, first + count)))


def numbers(chunks: list[LogDelta]) -> list[int]:
    """Return the numbers on the lines, each at its place."""
    places = [(chunk.first + at, int(line)) for chunk in chunks for at, line in enumerate(chunk.lines)]
    assert all(place == number for place, number in places)
    times = [time for chunk in chunks for count, time in chunk.times for _ in range(count)]
    assert times == [float(number) for _, number in places]
    return [number for _, number in places]


def test_what_is_new_is_sent_once() -> None:
    tail = Tail(1000)
    tail.take(numbered(0, 3))
    tail.take(numbered(3, 2))

    news = tail.part()

    assert len(news) == 1
    assert numbers(news) == [0, 1, 2, 3, 4]
    assert tail.part() == []


def test_what_was_sent_is_kept_within_its_room() -> None:
    tail = Tail(1000)
    for first in range(0, 5_000, 7):
        tail.take(numbered(first, 7))
        tail.part()

    kept = numbers(tail.end(10**6))

    assert kept[-1] == 5_004
    assert 99 <= len(kept) <= 151


def test_what_was_not_sent_is_kept_whole() -> None:
    tail = Tail(100)
    tail.take(numbered(0, 50))
    tail.take(numbered(50, 50))

    assert numbers(tail.end(0, 1)) == list(range(100))


@pytest.mark.parametrize(
    ("room", "lines", "kept"),
    [
        pytest.param(10**6, 10**6, range(40), id="all"),
        pytest.param(10**6, 15, range(25, 40), id="so many lines"),
        pytest.param(99, 10**6, range(30, 40), id="so many bytes, the last line without its newline"),
        pytest.param(98, 10**6, range(31, 40), id="no half lines"),
        pytest.param(8, 10**6, [], id="less than a line"),
        pytest.param(0, 10**6, [], id="nothing"),
        pytest.param(10**6, 0, [], id="no lines"),
    ],
)
def test_an_end_is_made_of_whole_lines(room: int, lines: int, kept: range) -> None:
    tail = Tail(10**6)
    for first in range(0, 40, 10):
        tail.take(numbered(first, 10))
        tail.part()

    assert numbers(tail.end(room, lines)) == list(kept)


@pytest.mark.parametrize("seed", range(30), ids=lambda seed: f"seed {seed}")
def test_the_end_of_a_chunk_is_that_of_its_lines(seed: int) -> None:
    source = random.Random(seed)
    texts = ["x" * source.choice((0, 0, 1, 5, 30)) for _ in range(source.randrange(1, 30))]
    whole = a_delta(100, *texts)

    for lines in (0, 1, 3, 100):
        for room in (0, 1, 10, 1_000):
            end = end_of(whole, lines, room)
            assert end.count <= lines
            assert len(end.text) <= room
            assert end.lines == texts[len(texts) - end.count :]
            assert end.first == 100 + len(texts) - end.count
            assert sum(count for count, _ in end.times) == end.count


def test_a_gap_parts_what_is_sent() -> None:
    tail = Tail(1000)
    tail.take(a_delta(0, "0"))
    tail.take(a_delta(1, "1", skipped=500))
    tail.take(a_delta(2, "2"))

    chunks = tail.part()

    assert [(chunk.first, chunk.count, chunk.skipped) for chunk in chunks] == [(0, 1, 0), (1, 2, 500)]


def test_the_line_that_grows_is_the_last_that_was_seen() -> None:
    tail = Tail(1000)
    tail.take(a_delta(0, "0", partial=" 10%"))
    tail.part()
    tail.take(a_delta(1, partial=" 20%"))

    assert [(chunk.first, chunk.count, chunk.partial) for chunk in tail.end(1000)] == [(0, 1, " 20%")]


def test_empty_lines_are_lines() -> None:
    tail = Tail(1000)
    for first in range(3):
        tail.take(a_delta(first, ""))

    (chunk,) = tail.part()

    assert chunk.lines == ["", "", ""]
