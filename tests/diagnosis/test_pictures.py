"""What a program tells of its pictures, and of masks that it resizes."""

from __future__ import annotations

from pathlib import Path

import pytest

from nbdist.diagnosis import diagnose
from tests.diagnosis.clue_cells import cause_in_function as cause_of
from tests.fakes.directories import WrittenRun
from tests.fakes.runs import CREATED, STARTED, a_spec, errored, exited

RESIZED = """\
def grown(picture, size):
    return ndimage.zoom(picture, size / len(picture), order=3)
def __getitem__(self, i):
    return grown(self.images[i], 32), grown(self.masks[i], 32)
loss = criterion(logits, labels)
"""
NO_CLASS = "Target 9 is out of bounds."
OF_PIXELS = ("labels", "Tensor (4, 32, 32) int64")


@pytest.mark.parametrize(
    ("cell", "values", "told"),
    [
        pytest.param(RESIZED, OF_PIXELS, True, id="masks"),
        pytest.param(RESIZED.replace("order=3", "order=0"), OF_PIXELS, False, id="by nearest neighbour"),
        pytest.param(
            RESIZED.replace("grown(self.masks[i], 32)", "self.masks[i]"), OF_PIXELS, False, id="images"
        ),
        pytest.param(RESIZED, ("labels", "Tensor (4,) int64"), False, id="of whole pictures"),
        pytest.param(
            "resize = transforms.Compose([transforms.Resize(32)])\n\nitem = resize(x), resize(mask)\n\n"
            "loss = criterion(logits, labels)\n",
            OF_PIXELS,
            True,
            id="by a transform",
        ),
    ],
)
def test_masks_with_values_that_are_no_class_are_told_by_what_resizes_them(
    tmp_path: Path, cell: str, values: tuple[str, str], told: bool
) -> None:
    at = cell.count("\n")
    written = WrittenRun(tmp_path / "home", cell=cell).happened(*STARTED)
    program = a_spec().program
    frames, operands = [(program, at, "<module>", "")], [(program, at, *values)]
    written.raised(1, "IndexError", NO_CLASS, frames=frames, operands=operands, time=CREATED + 5)
    failure = diagnose(written.happened(errored(1), exited(1, 1)).run, written.directory)

    assert failure is not None
    assert failure.hint is not None
    assert (failure.hint.signature == "masks-resized") is told


@pytest.mark.parametrize(
    ("kind", "message", "told"),
    [
        ("Image", "too many indices for array: array is 2-dimensional, but 3 were indexed", True),
        (
            "ndarray (24, 24) uint8",
            "too many indices for array: array is 2-dimensional, but 3 were indexed",
            False,
        ),
        ("Image", "too many indices for array: array is 3-dimensional, but 4 were indexed", False),
    ],
)
def test_a_picture_without_colours_is_told(tmp_path: Path, kind: str, message: str, told: bool) -> None:
    cause = cause_of(tmp_path, "x = np.asarray(img)[:, :, ::-1]\n", message, (1, "<module>"), ("img", kind))

    assert cause.startswith("a picture without colours") is told
