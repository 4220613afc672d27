"""A name that has no value yet in a function is told by what sets it there."""

from __future__ import annotations

from pathlib import Path

import pytest

from nbdist.diagnosis import diagnose
from tests.fakes.directories import WrittenRun
from tests.fakes.runs import CREATED, STARTED, a_spec, errored, exited

GENERIC = "x is set in an if, a try or a loop of this function that did not run, or below this line"


def cause_of(tmp_path: Path, body: str, line: int) -> str:
    """What nbdist says of ``x``, which has no value in this line of a function with this body."""
    cell = f"total = 0\ndef train():\n{body}\ntrain()\n"
    written = WrittenRun(tmp_path / "home", cell=cell).happened(*STARTED)
    message = "cannot access local variable 'x' where it is not associated with a value"
    frames = [(a_spec().program, line, "train", "")]
    written.raised(1, "UnboundLocalError", message, frames=frames, time=CREATED + 5)
    failure = diagnose(written.happened(errored(1), exited(1, 1)).run, written.directory)
    assert failure is not None
    assert failure.hint is not None
    return failure.hint.cause.en


CASES = [
    pytest.param(
        """\
    for epoch in range(3):
        if epoch % 10 == 0:
            x, y = validate()
        print(x)""",
        6,
        "x is set only at line 5, where the program has not come: within line 4  if epoch % 10 == 0:",
        id="an if",
    ),
    pytest.param(
        """\
    if a:
        x = 1
    elif b:
        x = 2
    print(x)""",
        7,
        "x is set only at line 4, 6, where the program has not come: within line 3  if a:, line 3",
        id="some of the cases",
    ),
    pytest.param(
        """\
    if accelerator.is_main_process:
        x = DataLoader(download())
    for batch in x:
        step(batch)""",
        5,
        "x is set only at line 4, where this rank does not come: within line 3  if accelerator.is_main",
        id="an if for one rank",
    ),
    pytest.param(
        """\
    for x, (y, z) in enumerate(loader):
        step(y, z)
    print(x)""",
        5,
        "x is set by  for x, (y, z) in enumerate(loader):  (line 3), which had no round",
        id="the loop itself",
    ),
    pytest.param(
        """\
    for batch in loader:
        x = step(batch)
    print(x)""",
        5,
        "x is set only at line 4, where the program has not come: within line 3  for batch in",
        id="in a loop",
    ),
    pytest.param(
        """\
    try:
        with lock:
            x = load()
    except OSError:
        print("no")
    print(x)""",
        8,
        "an error in the try of line 3 came before x was set there",
        id="a try",
    ),
    pytest.param(
        """\
    print(x)
    x = 3""",
        3,
        "x is set in train() only at line 4, which the program has not come to before this one",
        id="below",
    ),
    pytest.param(
        """\
    for path in paths:
        try:
            x = load(path)
        except OSError:
            continue
    print(x)""",
        8,
        GENERIC,
        id="a try in a loop",
    ),
    pytest.param("    with lock:\n        x = 1\n    print(x)", 5, GENERIC, id="nothing around it"),
    pytest.param("    if a:\n        x = 1\n    del x\n    print(x)", 6, GENERIC, id="taken away"),
    pytest.param("    if a:\n        import x\n    print(x)", 5, GENERIC, id="a module"),
    pytest.param(
        "    for i in n:\n        if i:\n            x = 1\n        print(x)\n        x = 2",
        6,
        GENERIC,
        id="both",
    ),
]


@pytest.mark.parametrize(("body", "line", "said"), CASES)
def test_what_sets_a_name_alone_is_told(tmp_path: Path, body: str, line: int, said: str) -> None:
    assert cause_of(tmp_path, body, line).startswith(said)


def test_a_name_that_only_another_function_has_is_not_one_outside(tmp_path: Path) -> None:
    cause = cause_of(tmp_path, "    print(x)\n    x = 1\ndef other():\n    x = 2", 3)

    assert cause.startswith("x is set in train() only at line 4")


def test_a_name_of_the_module_that_a_function_sets_is_its_own(tmp_path: Path) -> None:
    cause = cause_of(tmp_path, "    x += 1\nx = 0", 3)

    assert cause.startswith("line 3 sets x, so all of train() takes it for a name of its own")


@pytest.mark.parametrize(
    ("cell", "line", "said"),
    [
        pytest.param(
            "for batch in loader:\n    x = step(batch)\nprint(x)\n",
            3,
            "x is set only at line 2, where the program has not come: within line 1  for batch in loader:",
            id="in a loop",
        ),
        pytest.param(
            "import paddle\nloader = DataLoader(data, collate_fn=collate)\n"
            "for i, batch in enumerate(loader):\n    x = step(batch)\nprint(x)\n",
            5,
            "x is set in  for i, batch in enumerate(loader):  (line 3), which had no round: paddle's loader",
            id="in a loop over a loader of paddle",
        ),
        pytest.param(
            "import paddle\nloader = DataLoader(data)\nfor batch in loader:\n    x = step(batch)\nprint(x)\n",
            5,
            "x is set only at line 4",
            id="with what paddle collates",
        ),
        pytest.param(
            "import paddle\nfor b in DataLoader(d, collate_fn=f):\n    if b: continue\n    x = 1\nprint(x)\n",
            5,
            "x is set only at line 4",
            id="with rounds that leave it out",
        ),
        pytest.param("for x in loader:\n    step(x)\nprint(x)\n", 3, "x is set by  for x in", id="the loop"),
        pytest.param("def f():\n    x = 1\nf()\nprint(x)\n", 4, "", id="of a function"),
        pytest.param("def f():\n    global x\n    x = 1\nif a:\n    x = 2\nprint(x)\n", 6, "", id="global"),
        pytest.param("print(x)\nx = 1\n", 1, "", id="below"),
        pytest.param("x = 1\nprint(x)\n", 2, "", id="set, and taken away elsewhere"),
    ],
)
def test_a_name_of_the_module_is_told_by_what_sets_it(
    tmp_path: Path, cell: str, line: int, said: str
) -> None:
    written = WrittenRun(tmp_path / "home", cell=cell).happened(*STARTED)
    frames = [(a_spec().program, line, "<module>", "")]
    written.raised(1, "NameError", "name 'x' is not defined", frames=frames, time=CREATED + 5)
    failure = diagnose(written.happened(errored(1), exited(1, 1)).run, written.directory)
    assert failure is not None
    cause = "" if failure.hint is None else failure.hint.cause.en
    assert cause.startswith(said) if said else not cause.startswith("x is set")


@pytest.mark.parametrize(
    ("cell", "line", "told"),
    [
        pytest.param("print(x)", 1, "1", id="once"),
        pytest.param("print(x)\nf(x)\nx.y\nx + 1", 1, "1", id="often"),
        pytest.param("def f(y):\n    return x\nf(1)", 2, "2", id="in a function"),
        pytest.param("exec('x = 1', {})\nprint(x)", 2, "2", id="a text of other names"),
        pytest.param("o.x = 1\nprint(x)", 2, "2", id="an attribute is no name"),
        pytest.param("f(x=1)\nprint(x)", 2, "2", id="nor is what a call gives"),
        pytest.param("x: int\nprint(x)", 2, "", id="an annotation"),
        pytest.param("from lib import *\nprint(x)", 2, "", id="a star import"),
        pytest.param("import lib as x\nprint(x)", 2, "", id="an import"),
        pytest.param("def f():\n    global x\n    x = 1\nprint(x)", 4, "", id="global"),
        pytest.param(
            "class A:\n    x = 1\n    def f(self):\n        return x\nA().f()", 4, "4", id="a class"
        ),
        pytest.param("def f(x): ...\nprint(x)", 2, "2", id="a parameter"),
        pytest.param("def f(x):\n    return x", 2, "", id="its own parameter"),
        pytest.param("[x for x in y]\nprint(x)", 2, "", id="a comprehension"),
        pytest.param("for x in (): ...\nprint(x)", 2, "", id="a loop"),
        pytest.param("if False: (x := 1)\nprint(x)", 2, "", id="a walrus"),
        pytest.param("if False:\n    with f() as x: ...\nprint(x)", 3, "", id="with"),
        pytest.param("try: ...\nexcept ValueError as x: ...\nprint(x)", 3, "", id="except"),
        pytest.param("match y:\n    case [x]: ...\nprint(x)", 3, "", id="match"),
        pytest.param("match y:\n    case [*x]: ...\nprint(x)", 3, "", id="the rest of a match"),
        pytest.param("match y:\n    case {**x}: ...\nprint(x)", 3, "", id="the rest of a dict"),
        pytest.param("def x(): ...\ndel x\nprint(x)", 3, "", id="taken away"),
        pytest.param("print(x", 1, "", id="no program"),
    ],
)
def test_a_name_that_nothing_sets_is_told(tmp_path: Path, cell: str, line: int, told: str) -> None:
    written = WrittenRun(tmp_path / "home", cell=f"{cell}\n").happened(*STARTED)
    frames = [(a_spec().program, line, "<module>", "")]
    written.raised(1, "NameError", "name 'x' is not defined", frames=frames, time=CREATED + 5)
    failure = diagnose(written.happened(errored(1), exited(1, 1)).run, written.directory)

    assert failure is not None
    cause = failure.hint.cause.en if failure.hint is not None else ""
    said = f"nothing sets, defines or imports x where line {told} could see it"
    assert cause.startswith(said) if told else not cause.startswith("nothing")


FREE = """\
x = 0
def train():
    def step():
        return x
    {first}
    {second}
train()
"""


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        pytest.param("step()", "x = 1", "line 6 sets x, so all of train() takes it for", id="below"),
        pytest.param(
            "if a: x = 1", "step()", "x is set only at line 5, where the program has not", id="an if"
        ),
        pytest.param(
            "for x in y: ...", "step()", "x is set by  for x in y:  (line 5), which had", id="a loop"
        ),
        pytest.param("x = 1; del x", "step()", GENERIC, id="taken away"),
    ],
)
def test_a_name_of_the_function_around_is_told_by_what_sets_it_there(
    tmp_path: Path, first: str, second: str, said: str
) -> None:
    cell = FREE.replace("{first}", first).replace("{second}", second)
    written = WrittenRun(tmp_path / "home", cell=cell).happened(*STARTED)
    message = "cannot access free variable 'x' where it is not associated with a value in enclosing scope"
    program = a_spec().program
    frames = [(program, 7, "<module>", ""), (program, 6, "train", ""), (program, 4, "step", "")]
    written.raised(1, "NameError", message, frames=frames, time=CREATED + 5)
    failure = diagnose(written.happened(errored(1), exited(1, 1)).run, written.directory)

    assert failure is not None
    assert failure.hint is not None
    assert failure.hint.cause.en.startswith(said)
