"""What a diagnosis says of a line that a framework runs to record a graph."""

from __future__ import annotations

from pathlib import Path

import pytest

from nbdist.diagnosis import diagnose
from tests.diagnosis.clue_cells import PACKAGES
from tests.fakes.directories import WrittenRun
from tests.fakes.runs import CREATED, STARTED, a_spec, errored, exited

CELL = """\
def forward(x):
    return table[x]
spec = InputSpec([None, 3])
save(forward, [spec])
"""
PROGRAM = a_spec().program
OUTER, INNER = (PROGRAM, 4, "<module>", ""), (PROGRAM, 2, "forward", "")


def by(path: str) -> tuple[str, int, str, str]:
    return f"{PACKAGES}/{path}", 7, "run", ""


EXPORT = "line 2 is not run with data: {} traces it from line 4, with the shapes that were declared{}"


@pytest.mark.parametrize(
    ("frames", "said"),
    [
        pytest.param(
            (OUTER, by("paddle/jit/api.py"), INNER),
            EXPORT.format("paddle.jit", ", as in InputSpec([None, 3]) of line 3"),
            id="paddle",
        ),
        pytest.param(
            (OUTER, by("torch/export/_trace.py"), INNER), EXPORT.format("torch.export", ""), id="export"
        ),
        pytest.param((OUTER, by("torch/onnx/utils.py"), INNER), EXPORT.format("torch.onnx", ""), id="onnx"),
        pytest.param(
            (OUTER, by("torch/_dynamo/convert_frame.py"), INNER),
            EXPORT.format("torch.compile", ""),
            id="compile",
        ),
        pytest.param(
            (OUTER, by("torch/_dynamo/eval_frame.py"), INNER), "", id="what was compiled runs with data"
        ),
        pytest.param((OUTER, by("torch/jit/_trace.py"), INNER), "", id="what records data"),
        pytest.param(
            (OUTER, by("torch/onnx/utils.py"), by("torch/jit/_trace.py"), INNER), "", id="through another"
        ),
        pytest.param((OUTER, INNER, by("paddle/jit/api.py")), "", id="below the line"),
        pytest.param((by("paddle/jit/api.py"), INNER), "", id="no line of the program around it"),
        pytest.param((OUTER, by("lent/jit/api.py"), INNER), "", id="another library"),
    ],
)
def test_by_whom_a_line_is_traced_is_told(
    frames: tuple[tuple[str, int, str, str], ...], said: str, tmp_path: Path
) -> None:
    written = WrittenRun(tmp_path / "home", cell=CELL).happened(*STARTED)
    written.raised(1, "RuntimeError", "nothing that is known", frames=frames, time=CREATED + 5)

    failure = diagnose(written.happened(errored(1), exited(1, 1)).run, written.directory)

    assert failure is not None
    assert [note.en for note in failure.notes if "traces" in note.en] == ([said] if said else [])
