"""Names that ranks lack, their source, and when that is certain."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from nbdist.preflight import Situation, check, origin_of


def findings_of(cell: str, **situation: object) -> list[tuple[str, str, int | None, bool]]:
    """Return rule, name, line and certainty of the findings about a cell's names."""
    findings = check(cell, Situation(**situation))
    return [(f.rule.name, f.values.get("name", ""), f.line, f.certain) for f in findings]


DEFINED = {
    "what every program has": "x = 1\nprint(x, __name__, __file__, __doc__)",
    "defined below the function": "def f():\n    return g()\ndef g():\n    return 1\nf()",
    "conditional": "if flag() if False else True:\n    y = 1\nprint(y)\ndef flag(): ...",
    "global at the top level": "global x\nx = 1\nprint(x)",
    "made by global": "def f():\n    global made\n    made = 1\nf()\nprint(made)",
    "a NameError is expected": "try:\n    unicode\nexcept NameError:\n    unicode = str",
    "asked for by name": "if 'scaler' in dir():\n    print(scaler)",
    "exec": "exec('x = 1')\nprint(x)",
    "globals()": "globals().update(x=1)\nprint(x)",
    "a star import": "from os.path import *\nprint(join('a'))",
    "annotations as text": "x: int\ndef f(a: 'Later') -> 'Later': ...",
    "set on the module": "import sys\nsys.modules[__name__].x = 1\nprint(x)",
    "deleted and made again": "import math\nx = 1\ndel x\nx = 2\nprint(x)",
    "guard": "if __name__ == '__main__':\n    a = 1\n    print(a)",
    "bound in an earlier round, in a function": (
        "def f(items):\n    for i in items:\n        if i:\n            print(last)\n        last = i"
    ),
    "bound in an earlier round": "for i in range(3):\n    if i:\n        print(last)\n    last = i",
    "defined under a condition": "import os\nif os.sep:\n    def f(): ...\nf()",
    "a type as text": "from typing import cast\ncast('Later', 1)",
    "del in a loop": "def f(n):\n    for i in range(n):\n        x = i\n        del x\n    x",
    "del that may not be reached": "x = 1\nfor i in open('f'):\n    del x\nprint(x)",
    "deleted after its use": "def f():\n    return x\nx = 1\nf()\ndel x",
    "a doctest": 'def f():\n    """\n    >>> weight\n    """',
    "__all__": "__all__ = ['weight']",
    "what an import has bound on the side": "import os.path\ndel path",
}


@pytest.mark.parametrize("cell", DEFINED.values(), ids=DEFINED)
def test_a_program_that_defines_what_it_uses_gets_no_word(cell: str) -> None:
    assert findings_of(cell) == []


UNDEFINED = {
    "top level": ("x = 1\nprint(weight)", "name-unknown", "weight", 2, True),
    "function not called": ("def f():\n    weight\n", "name-unknown", "weight", 2, False),
    "function called": ("def f():\n    weight\nf()", "name-unknown", "weight", 2, True),
    "condition": ("import os\nif os.sep:\n    weight", "name-unknown", "weight", 3, False),
    "loop": ("for i in open('f'):\n    weight", "name-unknown", "weight", 2, False),
    "after an exit": ("import sys\nsys.exit()\nweight", "name-unknown", "weight", 3, False),
    "try": ("try:\n    weight\nexcept Exception:\n    pass", "name-unknown", "weight", 2, False),
    "loop with a count": ("E = 3\nfor i in range(E):\n    weight", "name-unknown", "weight", 3, True),
    "endless loop": ("while True:\n    weight", "name-unknown", "weight", 2, True),
    "addition": ("count += 1", "name-unknown", "count", 1, True),
    "only annotated": ("x: int\nprint(x)", "name-unknown", "x", 2, True),
    "in a class body": ("class A:\n    rate = base\nbase = 1", "name-too-early", "base", 2, True),
    "too early": ("print(late)\nlate = 1", "name-too-early", "late", 1, True),
    "deleted": ("x = 1\ndel x\nprint(x)", "name-deleted", "x", 3, True),
    "a common import": ("print(np.ones(1))", "name-not-imported", "np", 1, True),
    "misspelt": ("learning_rate = 1\nprint(learning_rat)", "name-misspelt", "learning_rat", 2, True),
    "kernel": ("get_ipython().system('ls')", "name-of-the-kernel", "get_ipython", 1, True),
}


@pytest.mark.parametrize(("cell", "rule", "name", "line", "certain"), UNDEFINED.values(), ids=UNDEFINED)
def test_a_name_that_nobody_defines_is_named_with_its_line(
    cell: str, rule: str, name: str, line: int, certain: bool
) -> None:
    assert findings_of(cell) == [(rule, name, line, certain)]


def test_what_pyflakes_is_told_elsewhere_gives_ranks_no_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYFLAKES_BUILTINS", "weight")

    assert findings_of("weight") == [("name-unknown", "weight", 1, True)]


CELLS = [
    "",
    "import numpy as np\nfrom torch import nn, optim",
    "class Net:\n    pass\ndef helper(): ...",
    "lr = 0.1\ndata = sorted([3, 1])",
    "get_ipython().run_cell_magic('distributed', '-n 2', 'model = 1\\n')",
    "model = 2\ndel model",
    "get_ipython().run_cell_magic('time', '', 'steps = 5\\n')",
]


class Net: ...


Net.__module__ = "__main__"


@pytest.mark.parametrize(
    ("name", "value", "kind", "code", "cell"),
    [
        pytest.param("nn", None, "import", "from torch import nn", 1, id="imported from"),
        pytest.param("np", pytest, "import", "import numpy as np", 1, id="imported under another name"),
        pytest.param("Net", Net, "definition", "", 2, id="class"),
        pytest.param("lr", 0.1, "data", "lr = 0.1", 3, id="a value that can be written down"),
        pytest.param("steps", 5, "data", "steps = 5", 6, id="made in a timed cell"),
        pytest.param("data", [1, 3], "data", "", 3, id="a value that was computed"),
        pytest.param("tests", pytest, "import", "import pytest as tests", None, id="no cell imported it"),
        pytest.param("Path", Path, "import", f"from {Path.__module__} import Path", None, id="of a module"),
    ],
)
def test_the_notebook_tells_where_it_has_a_name_from(
    name: str, value: object, kind: str, code: str, cell: int | None
) -> None:
    origin = origin_of(name, {name: value}, CELLS)

    assert (origin.kind, origin.code, origin.cell) == (kind, code, cell)


def test_a_name_that_only_earlier_ranks_had_is_told_from_one_that_nobody_has() -> None:
    ranks = origin_of("model", {}, CELLS[:5])

    assert (ranks.kind, ranks.cell) == ("ranks", 4)
    assert origin_of("nothing", {}, CELLS) is None


def test_a_model_that_the_cell_wraps_is_looked_for_in_the_notebook() -> None:
    cell = "model = str(model)"

    assert (
        findings_of(cell, origin=lambda name: origin_of(name, {"model": [1]}, CELLS))[0][0] == "name-of-data"
    )
    assert findings_of(cell) == [("name-unknown", "model", 1, True)]


def test_a_star_import_of_a_small_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("rate = 1\n_own = 2\n")

    findings = check("from mine import *\nprint(rate, decay)", Situation(), [str(tmp_path)])

    assert [finding.values["name"] for finding in findings] == ["decay"]


def test_the_texts_say_what_to_type_in_both_languages() -> None:
    cell = "print(lr)"
    [finding] = check(cell, Situation(origin=lambda name: origin_of(name, {"lr": 0.1}, CELLS)))

    assert finding.text() == (
        "line 1 of the cell uses lr, which cell [3] of the notebook assigned, but ranks do not see the "
        "kernel's variables: write  lr = 0.1  into this cell"
    )
    assert finding.text(script="train.py").startswith("line 1 of train.py uses lr")
    assert finding.text("zh").startswith("单元格第 1 行用到 lr，它由笔记本的单元格 [3] 赋值")


def test_loading_nbdist_imports_no_pyflakes() -> None:
    loads = "import sys, nbdist.preflight.capabilities; print('pyflakes' in sys.modules)"

    done = subprocess.run([sys.executable, "-c", loads], capture_output=True, text=True, check=True)

    assert done.stdout == "False\n"
