"""Lines of a log from an address on: however often a program reads on, none comes twice and none is lost."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from nbdist.feed.log_lines import LineReader, LogLine, MergedLines, Place
from nbdist.model import RunState
from nbdist.verbs.runs import log_places
from tests.fakes.directories import WrittenRun
from tests.fakes.runs import CREATED, STARTED, a_spec, attempt_failed, attempt_started, exited, run_ended

ENDED = (exited(0), exited(1), run_ended(RunState.FINISHED))
MANY = "".join(f"step {number} läuft 训练\n" for number in range(400)).encode()
BARS = b"".join(f"\r{share} %".encode() for share in range(100)) + b"\n"
NESTED = b"".join(f"\repoch {n // 9}/9\n\r batch {n % 9}/9\x1b[A".encode() for n in range(81)) + b"\n\nend\n"
LIVE = (
    b"\x1b[?25louter 0\ninner 0\n"
    + b"".join(f"\x1b[2A\x1b[2Klog {n}\n\x1b[2Kouter {n}\n\x1b[2Kinner {n}\n".encode() for n in range(60))
    + b"\x1b[?25hend\n"
)
LONG = b"x" * 50_000 + b"\nshort\n"


def read(written: WrittenRun, since: Place | None = None) -> tuple[list[LogLine], Place]:
    """Return the lines from a place on, and the place to read on from."""
    reader = LineReader(written.directory, written.run, 0, since)
    return list(reader.read(written.run)), reader.next


def texts(lines: list[LogLine]) -> list[str]:
    return [line.text for line in lines]


@pytest.mark.parametrize(
    "log",
    [
        pytest.param(MANY, id="lines"),
        pytest.param(MANY + BARS + MANY, id="a bar"),
        pytest.param(LONG * 3, id="lines that are cut"),
        pytest.param(b"\x1b[32mgreen\x1b[0m\n" * 50 + b"no newline", id="colours, and no last newline"),
        pytest.param(MANY[:90] + NESTED + MANY[:90], id="bars in bars"),
        pytest.param(MANY[:90] + LIVE + MANY[:90], id="logs above bars"),
    ],
)
def test_who_reads_on_gets_each_line_once(tmp_path: Path, written: WrittenRun, log: bytes) -> None:
    chance = random.Random(5)
    whole = WrittenRun(tmp_path / "whole").happened(*STARTED, *ENDED).printed(0, log)
    seen: list[LogLine] = []
    place, at = None, 0

    while at < len(log):
        size = chance.randrange(1, 3000)
        written.printed(0, log[at : at + size])
        at += size
        lines, place = read(written, place)
        seen += lines
    written.happened(*ENDED)
    lines, place = read(written, place)

    assert texts(seen + lines) == texts(read(whole)[0])
    assert read(written, place) == ([], place)


def test_a_line_begins_at_its_offset(written: WrittenRun) -> None:
    written.printed(0, MANY + BARS + LONG).happened(*ENDED)
    lines, _ = read(written)

    for number in range(0, len(lines), 37):
        assert read(written, Place(lines[number].offset))[0] == lines[number:]


def test_a_line_that_may_still_grow_waits(written: WrittenRun) -> None:
    written.printed(0, "one\ntw")

    before, place = read(written)
    written.printed(0, "o\n")

    assert (texts(before), str(place)) == (["one"], "4")
    assert texts(read(written, place)[0]) == ["two"]


def test_logs_above_bars_come_while_the_bars_are_there(written: WrittenRun) -> None:
    written.printed(0, LIVE[:900])
    first, place = read(written)
    written.printed(0, LIVE[900:1200])

    more, _ = read(written, place)

    assert texts(first) == [f"log {number}" for number in range(len(first))]
    assert texts(more)[0] == f"log {len(first)}"
    assert place == Place(0, len(first))


def test_it_goes_on_through_the_attempts(tmp_path: Path) -> None:
    written = WrittenRun(tmp_path / "home", a_spec(retries=1)).happened(*STARTED).printed(0, "a\nb\nc")
    first, place = read(written)
    written.happened(exited(0, 1), exited(1, 1), attempt_failed(1, "rank 0 failed"), attempt_started(2))
    files = written.directory.rank(0, 2)
    files.path.mkdir(parents=True, exist_ok=True)
    files.log.write_text("d\ne\n")

    rest, _ = read(written, place)

    assert [(line.attempt, line.text) for line in rest] == [(1, "c"), (2, "d"), (2, "e")]
    assert texts(read(written)[0]) == ["d", "e"], "without a place the last attempt alone"
    assert texts(read(written, Place(0))[0]) == ["a", "b", "c", "d", "e"]
    assert [line.offset for line in first] == [0, 2]
    assert first[0].time >= CREATED


def test_secrets_are_masked_and_no_line_moves(written: WrittenRun) -> None:
    token = "hf_" + "a1" * 16
    written.printed(0, f"begin\ntoken {token}\nend\n").happened(*ENDED)

    lines, _ = read(written)

    assert texts(lines) == ["begin", "token •••", "end"]
    assert lines[2].offset == len(f"begin\ntoken {token}\n")


def test_where_there_is_nothing_nothing_is_read(written: WrittenRun) -> None:
    assert read(written) == ([], Place(0))
    assert read(written, Place(10_000)) == ([], Place(10_000))


def test_who_takes_only_some_lines_of_several_ranks_reads_on_behind_them(written: WrittenRun) -> None:
    written.printed(0, "a\nb\nc\n").printed(1, "d\ne\n").happened(*ENDED)
    seen: list[tuple[int, str]] = []
    places = log_places("0:0,1:0")

    for _ in range(9):
        readers = [LineReader(written.directory, written.run, rank, since) for rank, since in places.items()]
        merged = MergedLines(readers, written.run)
        # the second line is looked at, and not taken
        seen += [(line.rank, line.text) for line, _ in zip(merged, range(1), strict=False)]
        places = log_places(merged.next)

    assert sorted(seen) == [(0, "a"), (0, "b"), (0, "c"), (1, "d"), (1, "e")]
