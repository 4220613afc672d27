"""Where a tensor was changed that a gradient still needs."""

from __future__ import annotations

from pathlib import Path

import pytest

from nbdist.diagnosis import diagnose
from tests.fakes.directories import WrittenRun
from tests.fakes.runs import CREATED, STARTED, a_spec, errored, exited

SAID = "(PermissionDenied) Tensor '' used in gradient computation has been modified by an inplace operation."
CELL = """\
class Net(nn.Layer):
    def __init__(self):
        self.sizes[0] = 1
    def forward(self, h):
        {change}
        return h
net(x).backward()
"""
AT = "line 5 changes in place a tensor that backward() still needs:  "


@pytest.mark.parametrize(
    ("change", "said"),
    [
        pytest.param("h[0, 1:] = 0.0", f"{AT}h[0, 1:] = 0.0", id="an item"),
        pytest.param("h[0] += 1", f"{AT}h[0] += 1", id="an item that is added to"),
        pytest.param("h.add_(1)", f"{AT}h.add_(1)", id="a method"),
        pytest.param("h = h + 1", "a tensor that backward() still needs", id="none"),
        pytest.param("h[0] = 1; h[1] = 2", "a tensor that backward() still needs", id="two"),
    ],
)
def test_the_line_that_changes_a_tensor_in_place_is_told(tmp_path: Path, change: str, said: str) -> None:
    written = WrittenRun(tmp_path / "home", cell=CELL.format(change=change)).happened(*STARTED)
    frames = [(a_spec().program, 7, "<module>", "")]
    written.raised(1, "RuntimeError", SAID, frames=frames, time=CREATED + 5)
    failure = diagnose(written.happened(errored(1), exited(1, 1)).run, written.directory)

    assert failure is not None
    assert failure.hint is not None
    assert failure.hint.cause.en.startswith(said)
