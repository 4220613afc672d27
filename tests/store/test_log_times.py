"""The time at which a log had reached an offset, read from the index beside it."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

from nbdist.store import LogTimes
from nbdist.store.logs import RECORD


@pytest.fixture
def index(tmp_path: Path) -> Path:
    return tmp_path / "log.times"


def append(index: Path, *entries: tuple[float, int]) -> None:
    with index.open("ab") as file:
        file.writelines(RECORD.pack(*entry) for entry in entries)


def test_a_record_is_two_little_endian_words(index: Path) -> None:
    append(index, (1.0, 258))

    assert index.read_bytes() == b"\0\0\0\0\0\0\xf0\x3f" + b"\x02\x01\0\0\0\0\0\0"


def test_what_the_index_does_not_reach_is_not_known_yet(index: Path) -> None:
    # of a run of an older version there never is an index
    times = LogTimes(index)
    assert (times.at(0), times.at(1)) == (None, None)

    append(index, (10.0, 5))
    assert times.at(6) is None

    append(index, (11.0, 6))
    assert times.at(6) == 11.0


def test_an_entry_that_is_being_written_counts_when_it_is_whole(index: Path) -> None:
    record = RECORD.pack(11.0, 9)
    append(index, (10.0, 5))
    times = LogTimes(index)
    for at in range(RECORD.size - 1):
        with index.open("ab") as file:
            file.write(record[at : at + 1])
        assert times.at(9) is None

    with index.open("ab") as file:
        file.write(record[-1:])

    assert times.at(9) == 11.0


def test_an_entry_that_goes_back_is_passed_over(index: Path) -> None:
    append(index, (10.0, 5), (11.0, 3), (12.0, 5), (13.0, 7))
    times = LogTimes(index)

    assert [times.at(4), times.at(6)] == [10.0, 13.0]


def test_any_order_of_questions_has_the_same_answers(index: Path) -> None:
    generator = random.Random(7)
    entries = [
        (float(number), size) for number, size in enumerate(sorted(generator.sample(range(1, 10**6), 5000)))
    ]
    times = LogTimes(index)
    for at in range(0, 5000, 500):
        append(index, *entries[at : at + 500])
        for _ in range(50):
            offset = generator.randrange(10**6)
            expected = next((time for time, size in entries[: at + 500] if size >= offset), None)
            assert times.at(offset) == expected


ON_A_FULL_DISK = """
import os, resource, sys
from nbdist.store.paths import append_whole, open_to_append
resource.setrlimit(resource.RLIMIT_FSIZE, (40, 40))
handle = open_to_append(sys.argv[1])
done = [append_whole(handle, b"x" * 16) for _ in range(4)]
print(done, os.fstat(handle).st_size, append_whole(handle, b"x" * 8))
"""


def test_a_disk_that_has_room_for_half_an_entry_gets_none(index: Path) -> None:
    process = subprocess.run(
        [sys.executable, "-c", ON_A_FULL_DISK, index], stdout=subprocess.PIPE, text=True, check=True
    )

    assert process.stdout == "[True, True, False, False] 32 True\n"
