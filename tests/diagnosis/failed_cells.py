"""A cell that fails on rank 1, and the cause that is shown of it."""

from __future__ import annotations

from pathlib import Path

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


def cause_of(
    tmp_path: Path,
    kind: str,
    message: str,
    line: int,
    *values: tuple[str, str],
    cell: str = CELL,
    function: str = "<module>",
) -> str:
    """Return the cause that is shown of an exception in a line of a cell; empty for none."""
    written = WrittenRun(tmp_path / "home", cell=cell).happened(*STARTED)
    program = a_spec().program
    frames, operands = [(program, line, function, "")], [(program, line, *value) for value in values]
    written.raised(1, kind, message, frames=frames, operands=operands, time=CREATED + 5)
    written.happened(errored(1), exited(1, 1))
    failure = diagnose(written.run, written.directory)
    assert failure is not None
    return failure.hint.cause.en if failure.hint is not None else ""
