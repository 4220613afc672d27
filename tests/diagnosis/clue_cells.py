"""Cells that fail, and what is said of them, for the tests of clues."""

from __future__ import annotations

from pathlib import Path

from nbdist.diagnosis import diagnose
from tests.fakes.directories import Frame, WrittenRun
from tests.fakes.runs import CREATED, STARTED, a_spec, errored, exited

CELL = """\
import paddle
CLASSES = {"bicycle": 0, "train": 1}
if rank == 0:
    paddle.save(weights, best)
state = load(best)
row = CLASSES[name]
"""


def cause_of(
    tmp_path: Path, kind: str, message: str, line: int, *values: tuple[str, str], cell: str = CELL
) -> str:
    written = WrittenRun(tmp_path / "home", cell=cell).happened(*STARTED)
    program = a_spec().program
    frames, operands = [(program, line, "<module>", "")], [(program, line, *one) for one in values]
    written.raised(1, kind, message, frames=frames, operands=operands, time=CREATED + 5)
    written.happened(errored(1), exited(1, 1))
    failure = diagnose(written.run, written.directory)
    assert failure is not None
    return failure.hint.cause.en if failure.hint is not None else ""


def cause_in_function(
    tmp_path: Path,
    cell: str,
    message: str,
    at: tuple[int, str],
    *values: tuple[str, str],
    inner: tuple[Frame, ...] = (),
) -> str:
    """What nbdist tells of an error in a line of a function of a cell, or in a library that this called."""
    written = WrittenRun(tmp_path / "home", cell=cell).happened(*STARTED)
    program = a_spec().program
    frames = [(program, *at, ""), *inner]
    operands = [(program, at[0], *one) for one in values]
    written.raised(1, "RuntimeError", message, frames=frames, operands=operands, time=CREATED + 5)
    failure = diagnose(written.happened(errored(1), exited(1, 1)).run, written.directory)
    assert failure is not None
    return failure.hint.cause.en if failure.hint is not None else ""


READS = """\
image = cv2.imread(folder + name)
steps = len(dataset) // batch_size
side = image.shape
epochs = total / steps
parsed(image)
"""


PACKAGES = "/v/lib/python3.11/site-packages"


IN_TRAINER = (f"{PACKAGES}/transformers/trainer.py", 1800, "train", "for step, inputs in enumerate(epoch):")


OF_LOADER = "/v/lib/python3.11/site-packages/torch/utils/data/_utils/fetch.py"
