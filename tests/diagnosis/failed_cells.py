"""A cell that fails on rank 1, and its hint."""

from __future__ import annotations

from pathlib import Path

from nbdist.diagnosis import Hint, diagnose
from nbdist.model import RunSpec
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


def hint_of(
    tmp_path: Path,
    kind: str,
    message: str,
    line: int,
    *values: tuple[str, str],
    cell: str = CELL,
    function: str = "<module>",
    spec: RunSpec | None = None,
) -> Hint | None:
    """Return the hint for an exception in a line of a cell, with the values of names in it."""
    written = WrittenRun(tmp_path / "home", spec, cell=cell).happened(*STARTED)
    program = a_spec().program
    frames, operands = [(program, line, function, "")], [(program, line, *value) for value in values]
    written.raised(1, kind, message, frames=frames, operands=operands, time=CREATED + 5)
    failure = diagnose(written.happened(errored(1), exited(1, 1)).run, written.directory)
    return failure.hint


def cause_of(*args: object, **more: object) -> str:
    """Return the cause in that hint; empty for none."""
    hint = hint_of(*args, **more)  # type: ignore[arg-type]
    return hint.cause.en if hint is not None else ""
