"""What is told of a value of the kind that an error names, and of what is called and is no function."""

from __future__ import annotations

from pathlib import Path

import pytest

from nbdist.diagnosis import diagnose
from nbdist.diagnosis.signatures import Hint
from tests.diagnosis.clue_cells import PACKAGES
from tests.fakes.directories import Frame, WrittenRun
from tests.fakes.runs import CREATED, STARTED, a_spec, errored, exited

PROGRAM = a_spec().program
CELL = """\
size = (3, 3)
rate = 0.5
rows = [1, 2]
grid = place(image, size, rate, rows)
"""
IMAGE = ("image", "Image of 3")


def hint_of(
    tmp_path: Path, message: str, line: int, *values: tuple[str, str], cell: str = CELL, inner: str = ""
) -> Hint | None:
    written = WrittenRun(tmp_path / "home", cell=cell).happened(*STARTED)
    frames: list[Frame] = [(PROGRAM, line, "<module>", "")]
    frames += [(inner, 9, "place", "")] if inner else []
    operands = [(PROGRAM, line, *one) for one in values]
    written.raised(1, "TypeError", message, frames=frames, operands=operands, time=CREATED + 5)
    failure = diagnose(written.happened(errored(1), exited(1, 1)).run, written.directory)
    assert failure is not None
    return failure.hint


@pytest.mark.parametrize(
    ("message", "values", "inner", "said"),
    [
        pytest.param(
            "'tuple' object is odd",
            (("size", "(3, 3)"), ("rate", "0.5")),
            "",
            "size is (3, 3) here: line 1  size = (3, 3)",
            id="a tuple",
        ),
        pytest.param(
            "'float' object is odd",
            (("rate", "0.5"),),
            "",
            "rate is 0.5 here: line 2  rate = 0.5",
            id="a float",
        ),
        pytest.param(
            "a size is wanted, got list",
            (("rows", "list of 2"),),
            "",
            "rows is list of 2 here: line 3",
            id="got",
        ),
        pytest.param(
            "place() takes a size, not 'list'",
            (("rows", "list of 2"), ("size", "(3, 3)")),
            "",
            "rows is list of 2 here: line 3",
            id="not",
        ),
        pytest.param("'int' object is odd", (("n", "3"), ("x", "0.5")), "", "n is 3 here", id="a number"),
        pytest.param("'Image' object is odd", (IMAGE,), "", "image is Image of 3 here", id="set elsewhere"),
        pytest.param(
            "'Image' object is odd", (IMAGE,), "lent/_place.pyx", "image is Image of 3 here", id="in Cython"
        ),
        pytest.param("'Image' object is odd", (IMAGE,), f"{PACKAGES}/lent/a.py", "", id="in a library"),
        pytest.param("'list' object is odd", (IMAGE,), "", "", id="of another kind"),
        pytest.param("'Image' object is odd", (IMAGE, ("two", "Image of 4")), "", "", id="one of two"),
        pytest.param("it is not Image", (IMAGE, ("rate", "0.5")), "", "", id="the kind that is wanted"),
        pytest.param("nothing is odd", (IMAGE,), "", "", id="no kind"),
    ],
)
def test_the_one_value_of_the_kind_that_an_error_names_is_told(
    tmp_path: Path, message: str, values: tuple[tuple[str, str], ...], inner: str, said: str
) -> None:
    hint = hint_of(tmp_path, message, 4, *values, inner=inner)

    assert (hint is not None and hint.signature == "value-of-kind") is bool(said)
    assert hint is None or hint.cause.en.startswith(said)


CALLS = """\
{0}
def train(x):
    return {1}
train(x)
"""


@pytest.mark.parametrize(
    ("line", "call", "kind", "values", "said"),
    [
        pytest.param(
            "max = 5",
            "max(x)",
            "int",
            (("max", "5"),),
            "max is called like a function, and is 5: line 1",
            id="int",
        ),
        pytest.param(
            "list = [1, 2]",
            "list(x)",
            "list",
            (("list", "list of 2"), ("x", "Tensor (3,) float32")),
            "list is called like a function, and is list of 2: line 1  list = [1, 2]",
            id="a list",
        ),
        pytest.param(
            "net = torch.load(path)",
            "net(x)",
            "dict",
            (("net", "dict of 2 ('a', 'b')"),),
            "net is no model: line 1 has loaded its weights alone, a dict:  net = torch.load(path)",
            id="weights",
        ),
        pytest.param(
            "net = other.state_dict()",
            "net(x)",
            "dict",
            (("net", "dict of 2 ('a', 'b')"),),
            "net is no model: line 1",
            id="weights of a model",
        ),
        pytest.param(
            "names = json.loads(text)",
            "names(x)",
            "list",
            (("names", "list of 2"),),
            "names is called like a function, and is list of 2: line 1",
            id="no weights",
        ),
        pytest.param("import net", "net(x)", "list", (("net", "list of 2"),), "", id="nothing sets it"),
        pytest.param("net = [1]", "x[net]", "list", (("net", "list of 1"),), "", id="it is not called"),
        pytest.param("net = [1]", "make()(net)", "list", (("net", "list of 1"),), "", id="another call"),
        pytest.param("net = [1]", "net(x)", "dict", (("net", "list of 1"),), "", id="of another kind"),
    ],
)
def test_what_is_called_and_is_no_function_is_told_with_the_line_that_set_it(
    tmp_path: Path, line: str, call: str, kind: str, values: tuple[tuple[str, str], ...], said: str
) -> None:
    message = f"'{kind}' object is not callable"

    hint = hint_of(tmp_path, message, 3, *values, cell=CALLS.format(line, call))

    assert hint is not None
    assert hint.cause.en.startswith(said or f"a {kind} is called like a function: a name such as")


LISTED = "kept = stack(masks.numpy())\nsizes = size.tolist()\nout = run(net(x).numpy(), masks)\n"


@pytest.mark.parametrize(
    ("kind", "name", "line", "value", "cause", "fix"),
    [
        pytest.param(
            "list",
            "numpy",
            1,
            ("masks", "list of 16 (ndarray (20, 20))"),
            "masks is list of 16 (ndarray (20, 20)), a plain list, and .numpy() belongs to tensors",
            "leave .numpy() out:  masks ;",
            id="arrays",
        ),
        pytest.param(
            "list",
            "numpy",
            1,
            ("masks", "list of 3 (Tensor (20, 20))"),
            "masks is list of 3 (Tensor (20, 20)): each tensor in it has .numpy()",
            "[t.numpy() for t in masks]; of one: masks[0].numpy();",
            id="tensors",
        ),
        pytest.param(
            "tuple",
            "tolist",
            2,
            ("size", "(3, 3)"),
            "size is (3, 3), a plain tuple, and .tolist()",
            "leave .tolist() out:  size ;",
            id="numbers",
        ),
        pytest.param(
            "list",
            "numpy",
            1,
            ("masks", "list of 3 (Image)"),
            "this is a plain list, and .numpy() belongs to tensors",
            "numbers, arrays: leave .numpy() out",
            id="what may be anything",
        ),
        pytest.param(
            "list",
            "numpy",
            3,
            ("masks", "list of 3 (Tensor (20, 20))"),
            "this is a plain list, and .numpy() belongs to tensors",
            "numbers, arrays: leave .numpy() out",
            id="of another value in the line",
        ),
    ],
)
def test_a_list_that_is_asked_for_a_method_of_tensors_is_told_by_what_is_in_it(
    tmp_path: Path, kind: str, name: str, line: int, value: tuple[str, str], cause: str, fix: str
) -> None:
    written = WrittenRun(tmp_path / "home", cell=LISTED).happened(*STARTED)
    message = f"'{kind}' object has no attribute '{name}'"
    operands, frames = [(PROGRAM, line, *value)], [(PROGRAM, line, "<module>", "")]
    written.raised(1, "AttributeError", message, frames=frames, operands=operands, time=CREATED + 5)
    failure = diagnose(written.happened(errored(1), exited(1, 1)).run, written.directory)

    assert failure is not None
    assert failure.hint is not None
    assert failure.hint.cause.en.startswith(cause)
    assert failure.hint.fix.en.startswith(fix)
