from __future__ import annotations

from nbdist.feed.rank_log import LogDelta
from nbdist.server.streams import RecentLines


def delta(first: int, *lines: str, partial: str = "") -> LogDelta:
    return LogDelta.of(
        rank=3,
        first=first,
        lines=lines,
        edges=range(first, first + len(lines) + 1),
        partial=partial,
        times=((len(lines), float(first)),) if lines else (),
    )


def test_what_came_since_a_line_is_one_chunk() -> None:
    recent = RecentLines(3, 1000)
    recent.add(delta(0, "a", "b"))
    recent.add(delta(2, "", "d", partial="grow"))

    chunk = recent.since(1)

    assert (chunk.rank, chunk.first, chunk.lines) == (3, 1, ["b", "", "d"])
    assert chunk.times == ((1, 0.0), (2, 2.0))
    assert chunk.partial == "grow"


def test_a_page_that_has_all_gets_the_line_that_grows() -> None:
    recent = RecentLines(3, 1000)
    recent.add(delta(0, "a"))
    recent.add(delta(1, partial="50 %"))

    chunk = recent.since(1)

    assert (chunk.first, chunk.count, chunk.text, chunk.partial) == (1, 0, b"", "50 %")


def test_old_lines_are_forgotten_and_that_is_said() -> None:
    recent = RecentLines(3, 100)
    for number in range(100):
        recent.add(delta(number, "x" * 10))

    assert recent.next == 100
    assert 85 <= recent.first <= 90
    assert recent.since(recent.first - 1).first == recent.first


def test_the_end_is_so_many_lines_in_so_much_room() -> None:
    recent = RecentLines(3, 10_000)
    recent.add(delta(0, *("x" * 9 for _ in range(50))))
    recent.add(delta(50, *("x" * 9 for _ in range(50))))

    assert recent.start_of_end(60, 10_000) == 40
    assert recent.start_of_end(60, 100) == 90
    assert recent.start_of_end(1000, 10_000) == 0


def test_where_lines_are_passed_over_those_before_are_forgotten() -> None:
    recent = RecentLines(3, 1000)
    recent.add(delta(0, "a", "b"))

    recent.add(delta(500, "c"))

    assert (recent.first, recent.next) == (500, 501)
    assert recent.since(1).lines == ["c"]
