"""The lines that set the values of the failing line."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from nbdist.diagnosis import diagnose
from tests.fakes.directories import WrittenRun
from tests.fakes.runs import CREATED, STARTED, a_spec, errored, exited

Frame = tuple[Any, ...]
CELL = """\
TOP = {"width": 8,
       "k": 5}

class Net:
    def __init__(self, width):
        self.skip = width * 2
    def forward(self, x, scale=0.5):
        x = x + 1
        for layer in self.layers:
            x = layer(x)
        return x / self.skip / scale / TOP["k"]

def score(logits, k):
    best = logits.topk(k)
    return best

def main():
    pairs = []
    for x, labels in pairs:
        logits = Net(3)(x)
        score(logits, TOP["k"])
        score(k=x, logits=labels)
    total, rounds = 0.0, 0
    for pair in pairs:
        total += pair.loss
    print(total / rounds)
"""


def notes_of(
    tmp_path: Path,
    cell: str,
    frames: list[Frame],
    operands: Sequence[tuple[str, str]],
    *,
    kind: str = "ValueError",
    values: Sequence[tuple[int, str, str]] = (),
) -> list[str]:
    """Return the notes on an error in the innermost frame: of the cell by line and function, or of a library.
    ``operands`` are names in that line, ``values`` in lines around it."""
    program = a_spec().program
    stack = [(program, *frame, "") if len(frame) == 2 else frame for frame in frames]
    written = WrittenRun(tmp_path / "home", cell=cell).happened(*STARTED)
    written.raised(
        1,
        kind,
        "no" * (kind == "ValueError"),
        frames=stack,
        operands=[(program, stack[-1][1], *operand) for operand in operands],
        values=[(program, *value) for value in values],
        time=CREATED + 5,
    )
    failure = diagnose(written.happened(errored(1), exited(1, 1)).run, written.directory)
    return [note.en for note in failure.notes]


def origins_of(tmp_path: Path, frames: list[Frame], *values: tuple[str, str], cell: str = CELL) -> list[str]:
    """Return the origins of these values in the innermost frame."""
    return [note for note in notes_of(tmp_path, cell, frames, values) if " is set at " in note]


TENSOR = "Tensor (2, 3) float32"
FORWARD = [(20, "main"), (11, "forward")]
CASES = {
    "a loop": ([(20, "main")], ("x", TENSOR), "x is set at line 19  for x, labels in pairs:"),
    "the last": (FORWARD, ("x", TENSOR), "x is set at line 10  x = layer(x)"),
    "an attribute": (FORWARD, ("self.skip", "16"), "self.skip is set at line 6  self.skip = width * 2"),
    "a default": (FORWARD, ("scale", "0.5"), "scale is set at line 7  scale=0.5"),
    "in a dict": ([(11, "forward")], ("TOP['k']", "5"), "TOP['k'] is set at line 2  'k': 5"),
    "what the caller gave": ([(21, "main"), (14, "score")], ("k", "5"), "k is set at line 2  'k': 5"),
    "the caller's variable": (
        [(21, "main"), (14, "score")],
        ("logits", TENSOR),
        "logits is set at line 20  logits = Net(3)(x)",
    ),
    "by its keyword": (
        [(22, "main"), (14, "score")],
        ("logits", TENSOR),
        "logits is set at line 19  for x, labels in pairs:",
    ),
    "a sum": ([(26, "main")], ("total", "1.5"), "total is set at line 25  total += pair.loss"),
    "a sum of nothing": (
        [(26, "main")],
        ("total", "0.0"),
        "total is set at line 23  total, rounds = (0.0, 0)",
    ),
}


@pytest.mark.parametrize(("frames", "value", "text"), CASES.values(), ids=CASES)
def test_the_line_that_set_a_value_is_told(
    frames: list[tuple[int, str]], value: tuple[str, str], text: str, tmp_path: Path
) -> None:
    assert origins_of(tmp_path, frames, value) == [text]


def test_arrays_come_before_modules_and_each_line_once(tmp_path: Path) -> None:
    values = [("Net", "Net"), ("pairs", "list of 0"), ("labels", TENSOR), ("x", TENSOR)]

    lines = origins_of(tmp_path, [(22, "main")], *values)

    assert lines == ["pairs is set at line 18  pairs = []", "x is set at line 19  for x, labels in pairs:"]


def test_of_a_name_that_was_cut_nothing_is_told(tmp_path: Path) -> None:
    assert origins_of(tmp_path, [(20, "main")], ("x[labels.index('a", TENSOR)) == []


def test_a_line_that_the_traceback_shows_is_not_told_again(tmp_path: Path) -> None:
    assert origins_of(tmp_path, [(20, "main"), (14, "score"), (15, "score")], ("best", TENSOR)) == []


BRANCHES = """\
def evaluate(best, rank):
    score = None
    for epoch in range(3):
        if epoch == 2:
            score = best = measure(epoch)
        total = 0
        for part in epoch:
            total += part
        report(best, score, total)

evaluate(0.5, 0)
"""


def test_a_line_in_an_if_may_not_have_set_a_value(tmp_path: Path) -> None:
    def branches(folder: str, *values: tuple[str, str]) -> list[str]:
        return origins_of(tmp_path / folder, [(11, "<module>"), (9, "evaluate")], *values, cell=BRANCHES)

    assert branches("if", ("best", "0.5"), ("score", "0.25")) == []
    assert branches("none", ("score", "None")) == ["score is set at line 2  score = None"]
    assert branches("loop", ("total", "7")) == ["total is set at line 8  total += part"]


CHECKPOINTED = """\
class Block:
    def forward(self, x, mask):
        return self.attention(x, mask)
def forward(self, x):
    mask = causal(x)
    x = self.embed(x)
    return checkpoint(self.block, x, mask)
"""


@pytest.mark.parametrize(("inner", "known"), [("checkpoint", False), ("_call_impl", True)])
def test_what_a_function_of_a_library_hands_on_is_not_taken_by_its_place(
    tmp_path: Path, inner: str, known: bool
) -> None:
    # where no such function lies between, checkpoint is the layer itself
    library = ("/v/lib/python3.11/site-packages/torch/utils/checkpoint.py", 500, inner, "")

    notes = origins_of(
        tmp_path, [(7, "forward"), library, (3, "forward")], ("mask", TENSOR), cell=CHECKPOINTED
    )

    assert bool(notes) is known


DIVERGED = """\
def step(x, scale):
    hidden = x * scale
    loss = hidden.sum()
    assert math.isfinite(loss)

scale = 1e30
for batch in batches:
    step(batch, scale)
"""
NAN, FINE = "Tensor (8, 3) float32, 25% nan", "Tensor (8, 3) float32"


def not_finite(tmp_path: Path, loss: str, *values: tuple[int, str, str]) -> list[str]:
    """Return the notes on the first value that was not finite, for an assertion in line 4."""
    frames = [(8, "<module>"), (4, "step")]
    notes = notes_of(tmp_path, DIVERGED, frames, [("loss", loss)], kind="AssertionError", values=values)
    return [note for note in notes if " was nan or inf first, at " in note]


def test_the_variable_that_was_not_finite_first_is_shown(tmp_path: Path) -> None:
    inner = ((4, "hidden", NAN), (4, "loss", "Tensor () float32, 100% nan"))

    assert not_finite(tmp_path / "in", "Tensor () float32, 100% nan", *inner) == [
        "hidden was nan or inf first, at line 2  hidden = x * scale"
    ]
    assert not_finite(tmp_path / "out", "Tensor () float32, 100% nan", *inner, (8, "batch", NAN)) == [
        "batch was nan or inf first, at line 7  for batch in batches:"
    ]


def test_where_the_failing_line_is_finite_nothing_is_shown_of_it(tmp_path: Path) -> None:
    assert not_finite(tmp_path, "Tensor () float32", (4, "hidden", NAN)) == []
