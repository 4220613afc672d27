"""A file that rank 0 writes, and another rank reads too early."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.diagnosis.failed_cells import cause_of

SAVES = """\
def keep(text, path):
    with open(path + "/labels.txt", "w") as file:
        file.write(text)

if rank == 0:
    keep(labels, folder)
read(folder)
"""
NOT_YET = "was not there yet: rank 0 makes it"


@pytest.mark.parametrize(
    ("path", "length", "line"),
    [
        pytest.param("/b/best", 7, 4, id="what rank 0 saves"),
        pytest.param("/b/best", 9, None, id="another file"),
        pytest.param("/b/10-11-12/best", 16, None, id="a name with a time is another one on each rank"),
    ],
)
def test_a_file_that_rank_0_saves_later_is_shown_with_the_line(
    tmp_path: Path, path: str, length: int, line: int | None
) -> None:
    message = f"[Errno 2] No such file or directory: '{path}'"

    cause = cause_of(tmp_path, "FileNotFoundError", message, 5, ("best", f"str of {length} characters"))

    assert cause.startswith(f"{path} {NOT_YET} (line {line})") is (line is not None)


@pytest.mark.parametrize(
    ("cell", "is_known"),
    [
        pytest.param(SAVES, True, id="written by rank 0"),
        pytest.param(SAVES.replace(', "w"', ""), False, id="read"),
        pytest.param(SAVES.replace("if rank == 0", "if verbose"), False, id="written by all"),
    ],
)
def test_a_file_is_rank_0_s_where_rank_0_alone_calls_what_writes_it(
    tmp_path: Path, cell: str, is_known: bool
) -> None:
    message = "[Errno 2] No such file or directory: '/b/labels.txt'"

    cause = cause_of(tmp_path, "FileNotFoundError", message, 7, cell=cell)

    assert cause.startswith(f"/b/labels.txt {NOT_YET} (line 2)") is is_known
