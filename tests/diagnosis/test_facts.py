"""Where the values of the failing line were set."""

from __future__ import annotations

from pathlib import Path

import pytest

from nbdist.diagnosis import diagnose
from tests.fakes.directories import WrittenRun
from tests.fakes.runs import CREATED, STARTED, a_spec, errored, exited

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


def told(tmp_path: Path, frames: list[tuple[int, str]], *values: tuple[str, str]) -> list[str]:
    """What nbdist says of these values in the innermost of these lines and functions."""
    written = WrittenRun(tmp_path / "home", cell=CELL).happened(*STARTED)
    program = a_spec().program
    stack = [(program, line, function, "") for line, function in frames]
    operands = [(program, frames[-1][0], *one) for one in values]
    written.raised(1, "ValueError", "no", frames=stack, operands=operands, time=CREATED + 5)
    failure = diagnose(written.happened(errored(1), exited(1, 1)).run, written.directory)
    assert failure is not None
    return [note.en for note in failure.notes if " is from " in note.en]


TENSOR = "Tensor (2, 3) float32"
CASES = [
    pytest.param([(20, "main")], ("x", TENSOR), "x is from line 19  for x, labels in pairs:", id="a loop"),
    pytest.param(
        [(20, "main"), (11, "forward")], ("x", TENSOR), "x is from line 10  x = layer(x)", id="the last"
    ),
    pytest.param(
        [(20, "main"), (11, "forward")],
        ("self.skip", "16"),
        "self.skip is from line 6  self.skip = width * 2",
        id="an attribute",
    ),
    pytest.param(
        [(20, "main"), (11, "forward")], ("scale", "0.5"), "scale is from line 7  scale=0.5", id="a default"
    ),
    pytest.param([(11, "forward")], ("TOP['k']", "5"), "TOP['k'] is from line 2  'k': 5", id="in a dict"),
    pytest.param(
        [(21, "main"), (14, "score")], ("k", "5"), "k is from line 2  'k': 5", id="what the caller gave"
    ),
    pytest.param(
        [(21, "main"), (14, "score")],
        ("logits", TENSOR),
        "logits is from line 20  logits = Net(3)(x)",
        id="the caller's variable",
    ),
    pytest.param(
        [(22, "main"), (14, "score")],
        ("logits", TENSOR),
        "logits is from line 19  for x, labels in pairs:",
        id="by its keyword",
    ),
    pytest.param([(26, "main")], ("total", "1.5"), "total is from line 25  total += pair.loss", id="a sum"),
    pytest.param(
        [(26, "main")],
        ("total", "0.0"),
        "total is from line 23  total, rounds = (0.0, 0)",
        id="a sum of nothing",
    ),
]


@pytest.mark.parametrize(("frames", "value", "said"), CASES)
def test_the_line_that_set_a_value_is_told(
    frames: list[tuple[int, str]], value: tuple[str, str], said: str, tmp_path: Path
) -> None:
    assert told(tmp_path, frames, value) == [said]


def test_arrays_come_before_modules_and_each_line_once(tmp_path: Path) -> None:
    values = [("Net", "Net"), ("pairs", "list of 0"), ("labels", TENSOR), ("x", TENSOR)]

    lines = told(tmp_path, [(22, "main")], *values)

    assert lines == [
        "pairs is from line 18  pairs = []",
        "x is from line 19  for x, labels in pairs:",
    ]


def test_of_a_name_that_was_cut_nothing_is_told(tmp_path: Path) -> None:
    assert told(tmp_path, [(20, "main")], ("x[labels.index('a", TENSOR)) == []


def test_a_line_that_the_traceback_shows_is_not_told_again(tmp_path: Path) -> None:
    assert told(tmp_path, [(20, "main"), (14, "score"), (15, "score")], ("best", TENSOR)) == []


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


def branches(
    tmp_path: Path, *values: tuple[str, str], kind: str = "ValueError", message: str = "no"
) -> list[str]:
    """What nbdist says of values in line 9."""
    written = WrittenRun(tmp_path / "home", cell=BRANCHES).happened(*STARTED)
    program = a_spec().program
    stack = [(program, 11, "<module>", ""), (program, 9, "evaluate", "")]
    operands = [(program, 9, *one) for one in values]
    written.raised(1, kind, message, frames=stack, operands=operands, time=CREATED + 5)
    failure = diagnose(written.happened(errored(1), exited(1, 1)).run, written.directory)
    assert failure is not None
    return [note.en for note in failure.notes if " is from " in note.en]


def test_a_line_in_an_if_may_not_have_set_a_value(tmp_path: Path) -> None:
    assert branches(tmp_path, ("best", "0.5"), ("score", "0.25")) == []
    assert branches(tmp_path / "none", ("score", "None")) == ["score is from line 2  score = None"]
    assert branches(tmp_path / "loop", ("total", "7")) == ["total is from line 8  total += part"]


CHECKPOINTED = """\
class Block:
    def forward(self, x, mask):
        return self.attention(x, mask)
def forward(self, x):
    mask = causal(x)
    x = self.embed(x)
    return checkpoint(self.block, x, mask)
"""


@pytest.mark.parametrize(("inner", "told"), [("checkpoint", False), ("_call_impl", True)])
def test_what_a_function_of_a_library_hands_on_is_not_taken_by_its_place(
    tmp_path: Path, inner: str, told: bool
) -> None:
    # where no such function lies between, checkpoint is the layer itself
    written = WrittenRun(tmp_path / "home", cell=CHECKPOINTED).happened(*STARTED)
    program = a_spec().program
    library = ("/v/lib/python3.11/site-packages/torch/utils/checkpoint.py", 500, inner, "")
    stack = [(program, 7, "forward", ""), library, (program, 3, "forward", "")]
    operands = [(program, 3, "mask", TENSOR)]
    written.raised(1, "ValueError", "no", frames=stack, operands=operands, time=CREATED + 5)
    failure = diagnose(written.happened(errored(1), exited(1, 1)).run, written.directory)

    assert failure is not None
    assert any(note.en.startswith("mask is from") for note in failure.notes) is told


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
    """Return the notes on what was not finite first, of an assertion that failed in line 4."""
    written = WrittenRun(tmp_path / "home", cell=DIVERGED).happened(*STARTED)
    program = a_spec().program
    stack = [(program, 8, "<module>", ""), (program, 4, "step", "")]
    operands = [(program, 4, "loss", loss)]
    seen = [(program, line, name, what) for line, name, what in values]
    written.raised(1, "AssertionError", "", frames=stack, operands=operands, values=seen, time=CREATED + 5)
    failure = diagnose(written.happened(errored(1), exited(1, 1)).run, written.directory)
    assert failure is not None
    return [note.en for note in failure.notes if " was not finite first: " in note.en]


def test_the_variable_that_was_not_finite_first_is_shown(tmp_path: Path) -> None:
    inner = ((4, "hidden", NAN), (4, "loss", "Tensor () float32, 100% nan"))

    assert not_finite(tmp_path / "in", "Tensor () float32, 100% nan", *inner) == [
        "hidden was not finite first: line 2  hidden = x * scale"
    ]
    assert not_finite(tmp_path / "out", "Tensor () float32, 100% nan", *inner, (8, "batch", NAN)) == [
        "batch was not finite first: line 7  for batch in batches:"
    ]


def test_where_the_failing_line_is_finite_nothing_is_shown_of_it(tmp_path: Path) -> None:
    assert not_finite(tmp_path, "Tensor () float32", (4, "hidden", NAN)) == []
