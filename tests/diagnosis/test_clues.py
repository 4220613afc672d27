"""What a program tells of a key or a file that was missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from nbdist.diagnosis import diagnose
from tests.fakes.directories import WrittenRun
from tests.fakes.runs import CREATED, STARTED, a_spec, errored, exited

CELL = """\
import paddle
CLASSES = {"bicycle": 0, "train": 1}
if rank == 0:
    paddle.save(weights, best)
state = load(best)
row = CLASSES[name]
"""


def cause_of(tmp_path: Path, kind: str, message: str, line: int, operand: tuple[str, str]) -> str:
    written = WrittenRun(tmp_path / "home", cell=CELL).happened(*STARTED)
    program = a_spec().program
    frames, operands = [(program, line, "<module>", "")], [(program, line, *operand)]
    written.raised(1, kind, message, frames=frames, operands=operands, time=CREATED + 5)
    written.happened(errored(1), exited(1, 1))
    failure = diagnose(written.run, written.directory)
    assert failure is not None
    return failure.hint.cause.en if failure.hint is not None else ""


@pytest.mark.parametrize(
    ("key", "said"),
    [
        pytest.param(
            "bycicle", "there is no 'bycicle', and the program has 'bicycle' (line 2)", id="swapped"
        ),
        pytest.param(
            "Bicycle", "there is no 'Bicycle', and the program has 'bicycle' (line 2)", id="capital"
        ),
        pytest.param("bicyle", "there is no 'bicyle', and the program has 'bicycle' (line 2)", id="one less"),
        pytest.param("bicycles", "CLASSES has no 'bicycles': it has 'bicycle', 'train'", id="a plural"),
        pytest.param("brain", "CLASSES has no 'brain': it has 'bicycle', 'train'", id="another word"),
    ],
)
def test_a_key_that_is_missing_is_told_with_what_there_is(tmp_path: Path, key: str, said: str) -> None:
    keys = ("CLASSES", "dict of 2 ('bicycle', 'train')")

    assert cause_of(tmp_path, "KeyError", f"'{key}'", 6, keys).startswith(said)


@pytest.mark.parametrize(
    ("length", "said"),
    [
        pytest.param(7, "/b/best was not there yet: rank 0 makes it (line 4)", id="what rank 0 saves"),
        pytest.param(9, "there is no /b/best;", id="another file"),
    ],
)
def test_a_file_that_rank_0_saves_later_is_told_by_the_line(tmp_path: Path, length: int, said: str) -> None:
    message = "[Errno 2] No such file or directory: '/b/best'"

    cause = cause_of(tmp_path, "FileNotFoundError", message, 5, ("best", f"str of {length} characters"))

    assert cause.startswith(said)


DATASET = """\
class Photos(Dataset):
    def __getitem__(self, index):
        if self.is_cut(index):
            return None
        return self.load(index)

for photos in DataLoader(Photos()):
    step(photos)
"""


@pytest.mark.parametrize(
    ("collate", "message"),
    [
        pytest.param(
            "torch/utils/data/_utils/collate.py", "object of type 'NoneType' has no len()", id="torch"
        ),
        pytest.param("paddle/io/dataloader/collate.py", "got <class 'NoneType'>", id="paddle"),
    ],
)
def test_a_sample_that_is_none_is_told_with_the_line_that_gave_it(
    tmp_path: Path, collate: str, message: str
) -> None:
    written = WrittenRun(tmp_path / "home", cell=DATASET).happened(*STARTED)
    frames = [
        (a_spec().program, 7, "<module>", ""),
        (f"/v/lib/python3.11/site-packages/{collate}", 207, "default_collate", ""),
    ]
    written.raised(1, "TypeError", message, frames=frames, time=CREATED + 5)
    written.happened(errored(1), exited(1, 1))

    failure = diagnose(written.run, written.directory)

    assert failure is not None
    assert failure.hint is not None
    assert failure.hint.cause.en.endswith("no batch can be made of that: it returns None at line 4")
