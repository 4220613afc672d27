"""The lines of the next message to the page."""

from __future__ import annotations

import random

import pytest

from nbdist.feed.rank_log import LogDelta
from nbdist.feed.send_queue import LogQueue

LOADED = 10.0
"""Seconds after which a page has long been loaded."""


def a_delta(rank: int, first: int, count: int, *, width: int = 99) -> LogDelta:
    """Return ``width`` and one bytes a line; its number is its address, and the second in which it was
    written."""
    lines = tuple(f"{number:{width}}" for number in range(first, first + count))
    times = tuple((1, float(number)) for number in range(first, first + count))
    edges = range(first, first + count + 1)
    return LogDelta.of(rank=rank, first=first, lines=lines, edges=edges, partial="", times=times)


def numbers(chunks: list[LogDelta], rank: int) -> list[int]:
    places = [
        (chunk.first + at, int(line))
        for chunk in chunks
        if chunk.rank == rank
        for at, line in enumerate(chunk.lines)
    ]
    assert all(place == number for place, number in places)
    return [number for _, number in places]


def size(chunks: list[LogDelta]) -> int:
    return sum(len(chunk.text) for chunk in chunks)


def test_what_fits_into_a_message_is_sent_in_order() -> None:
    queue = LogQueue(2)
    queue.take([a_delta(0, 0, 500), a_delta(1, 0, 5)])

    chunks = queue.next(LOADED)

    assert numbers(chunks, 0) == list(range(500))
    assert numbers(chunks, 1) == list(range(5))
    assert (queue.waiting, queue.complete_until) == (0, None)


def test_of_a_backlog_the_newest_lines_go_ahead_and_the_oldest_follow() -> None:
    queue = LogQueue(1)
    queue.take([a_delta(0, 0, 50_000)])

    first = queue.next(LOADED)
    second = queue.next(LOADED)

    assert numbers(first[:1], 0) == list(range(49_900, 50_000))
    older = numbers(first[1:], 0)
    assert older == list(range(len(older)))
    assert queue.complete_until == float(len(older) + len(numbers(second, 0)) - 1)
    assert size(second) > 200_000
    assert numbers(second, 0)[0] == len(older), (
        "what has gone ahead and is still the newest need not go again"
    )


def test_lines_that_come_while_others_wait_go_ahead_too() -> None:
    queue = LogQueue(1)
    queue.take([a_delta(0, 0, 50_000)])
    queue.next(LOADED)

    queue.take([a_delta(0, 50_000, 7)])

    assert numbers(queue.next(LOADED)[:1], 0) == list(range(50_000, 50_007))


@pytest.mark.parametrize("ranks", [1, 8, 256])
def test_no_message_holds_more_than_a_page_reads_at_once(ranks: int) -> None:
    queue = LogQueue(ranks)
    queue.take([a_delta(rank, 0, 100_000 // ranks) for rank in range(ranks)])

    early = [size(queue.next(age / 10)) for age in range(20)]
    later = [size(queue.next(LOADED + look)) for look in range(5)]

    assert sum(early) <= 6_000_000, "what is sent before the page is loaded is sent again"
    assert max(later) <= 700_000


def test_while_more_is_being_written_little_is_in_its_way() -> None:
    queue = LogQueue(1)
    queue.take([a_delta(0, 0, 50_000)])

    busy = size(queue.next(LOADED))
    still_busy = size(queue.next(LOADED + 0.4))
    quiet = size(queue.next(LOADED + 0.6))

    assert max(busy, still_busy) < 400_000
    assert quiet > 500_000


def test_a_rank_that_wrote_little_does_not_wait_for_one_that_wrote_much() -> None:
    queue = LogQueue(2)
    queue.take([a_delta(0, 0, 50_000), a_delta(1, 0, 300)])

    assert numbers(queue.next(LOADED), 1) == list(range(300))


@pytest.mark.parametrize("seed", range(5), ids=lambda seed: f"seed {seed}")
def test_every_line_comes_whatever_waits(seed: int) -> None:
    source = random.Random(seed)
    ranks, age = source.choice((1, 3, 20)), 0.0
    queue = LogQueue(ranks)
    written = [0] * ranks
    seen: list[set[int]] = [set() for _ in range(ranks)]
    for look in range(400):
        age += 0.1
        if look < 25:
            for rank in range(ranks):
                count = source.choice((0, 1, 900, 9_000 // ranks))
                queue.take([a_delta(rank, written[rank], count, width=source.choice((9, 99)))])
                written[rank] += count
        again = source.random() < 0.1
        chunks = queue.again(age, whole=source.random() < 0.5) if again else queue.next(age)
        for rank in range(ranks):
            seen[rank].update(numbers(chunks, rank))
        until = queue.complete_until
        for rank in range(ranks):
            complete = written[rank] if until is None else min(written[rank], int(until))
            assert seen[rank] >= set(range(complete))
        if look > 25 and not queue.waiting:
            break

    assert [len(lines) for lines in seen] == written
    assert queue.complete_until is None


def test_what_came_so_far_is_sent_again_in_parts_beside_what_is_new() -> None:
    queue = LogQueue(2)
    queue.take([a_delta(0, 0, 20_000), a_delta(1, 0, 20_000)])
    while queue.waiting:
        queue.next(LOADED)

    parts = [queue.again(LOADED, whole=True)]
    while queue.repeating:
        queue.take([a_delta(0, 20_000 + len(parts), 1)])
        parts.append(queue.next(LOADED))

    late = [chunk for part in parts for chunk in part]
    assert max(map(size, parts)) <= 300_000
    assert set(numbers(late, 0)) == set(range(20_000 + len(parts))) - {20_000}
    assert numbers(late, 1) == list(range(20_000))


def test_there_is_always_room_for_a_little_more() -> None:
    queue = LogQueue(1)
    empty = queue.budget
    queue.take([a_delta(0, 0, 20_000, width=3_999)])

    assert (empty, queue.budget) == (64 * 1024 * 1024, 64 * 1024)
