from __future__ import annotations

from pathlib import Path

import pytest

from nbdist.server.rank_history import BLOCK, LineMap
from nbdist.store import LogLines

LOGS = {
    "short lines": b"".join(b"line %d\n" % number for number in range(60_000)),
    "long lines among short ones": b"".join(
        b"%d " % number + b"x" * (40_000 if number % 500 == 7 else 20) + b"\n" for number in range(6000)
    ),
    "a line longer than a block": b"a\n" + b"y" * (2 * BLOCK + 77) + b"\nb\nc\n" + b"z\n" * 100_000,
    "no newline at the end": b"one\ntwo\nthree",
    "characters of several bytes": "训练 ✓\n".encode() * 50_000,
    "nested bars among lines": b"".join(
        b"line %d\n" % number * 50 + b"\router" + b"\n\rinner\x1b[A" * 40 + b"\router\n\rafter\nand\n"
        for number in range(60)
    )
    + b"line\n" * 100_000,
    "a nested bar that goes on": b"line\n" * 50 + b"\router" + b"\n\rinner\x1b[A" * 3_000,
    "nothing": b"",
}


def lines_of(data: bytes) -> list[str]:
    lines = LogLines()
    found = [line for at in range(0, len(data), 65_536) for line in lines.feed(data[at : at + 65_536])]
    return [*found, *lines.close()]


@pytest.mark.parametrize("name", LOGS)
def test_it_counts_as_a_reader_does(tmp_path: Path, name: str) -> None:
    (tmp_path / "log").write_bytes(LOGS[name])

    assert LineMap(tmp_path / "log").total() == len(lines_of(LOGS[name]))


@pytest.mark.parametrize("name", LOGS)
def test_the_begin_of_a_line_is_found_by_byte_and_by_number(tmp_path: Path, name: str) -> None:
    data = LOGS[name]
    (tmp_path / "log").write_bytes(data)
    wanted = lines_of(data)
    lines = LineMap(tmp_path / "log")

    for part in range(11):
        for offset, number in (
            lines.near(len(data) * part // 10),
            lines.at_line(len(wanted) * part // 10),
        ):
            assert offset == 0 or data[offset - 1 : offset] == b"\n"
            assert lines_of(data[offset:]) == wanted[number:]


def test_near_is_the_last_line_before(tmp_path: Path) -> None:
    data = LOGS["short lines"]
    (tmp_path / "log").write_bytes(data)

    offset, _ = LineMap(tmp_path / "log").near(500_000)

    assert offset == data.rfind(b"\n", 0, 500_000) + 1


def test_a_log_that_grows_is_counted_on(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"one\ntw")
    lines = LineMap(log)
    before = lines.near(6)
    with log.open("ab") as file:
        file.write(b"o\nthree\n")

    assert before == (4, 1)
    assert lines.near(8) == (8, 2)
    assert lines.total() == 3
