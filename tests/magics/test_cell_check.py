"""Checks of a cell before it starts: without a kernel, and in a real one."""

from __future__ import annotations

import pytest

from nbdist.errors import UsageMistake
from nbdist.magics.cell_check import explained
from nbdist.model.plan import Program


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        pytest.param(
            "%%writefile train.py\nimport os", "leave it out: nbdist writes the cell", id="writefile"
        ),
        pytest.param("%env DATA=/data\nx = 1", "write  %%distributed --env DATA=/data", id="env"),
        pytest.param("%cd /data\nx = 1", "write  %%distributed --cwd /data", id="cd"),
        pytest.param("%matplotlib widget\nx = 1", "figures are shown without it", id="matplotlib"),
        pytest.param("x = 1\nx?", "x?: leave it out", id="question"),
        pytest.param("!CUDA_VISIABLE_DEVICES=0 python a.py", "--gpus 0,1", id="misspelt variable"),
        pytest.param("x = (1\n% 2)\ny = = 1", "line 3 of the cell does not compile", id="an expression's %"),
        pytest.param(
            "x = f（1）", "does not compile: invalid character '（' (U+FF08): x", id="as Python says"
        ),
    ],
)
def test_what_is_no_program_is_told_what_to_type_instead(cell: str, expected: str) -> None:
    with pytest.raises(UsageMistake) as raised, explained(cell):
        Program.parse(cell)

    assert expected in str(raised.value)
    assert len(str(raised.value).splitlines()) == 1


_COUNT_PARSES = """
import builtins
compiled, python_compile = [], builtins.compile
def counting(source, *more, **options):
    # ast.parse goes through here, too; what IPython makes of the whole cell is not counted
    if isinstance(source, (str, bytes)):
        if "counted_here" in str(source) and "get_ipython" not in str(source):
            compiled.append(source)
    return python_compile(source, *more, **options)
builtins.compile = counting
"""


def test_the_kernel_parses_a_cell_once(kernel) -> None:
    kernel.run(_COUNT_PARSES)
    kernel.run("%%distributed -n 1 --cold\nimport os\nos.environ['A'] = '1'\ncounted_here = 1")

    assert kernel.run("print(len(compiled))").stdout == "1\n"


def test_a_name_of_the_notebook_is_named_with_where_it_came_from_and_nothing_starts(kernel) -> None:
    kernel.run("import math as m\nlearning_rate = 0.1")
    kernel.run("def train(): ...")

    reply = kernel.run("%%distributed -n 2\nprint(learning_rate)\nm.sqrt(2)\ntrain()")

    assert reply.status == "error"
    push, *lines = reply.stderr.strip().splitlines()
    assert push.endswith("write  %%distributed -n 2 --push learning_rate,train")
    assert lines[0].startswith("line 3 of the cell uses m, which cell [2] of the notebook imported")
    assert lines[0].endswith("write  import math as m  into this cell")
    assert len(lines) == 1
    assert not (kernel.home / "runs").exists()


def test_a_warning_is_a_note_and_the_run_starts(used_kernel) -> None:
    cell = "import os\nos.environ['CUDA_VISIABLE_DEVICES'] = '0'\nprint('ran')"

    reply = used_kernel.run(f"%%distributed -n 1\n{cell}")

    assert reply.status == "ok"
    assert "[nbdist] line 3 of the cell sets CUDA_VISIABLE_DEVICES" in reply.stdout
    assert "ran" in reply.stdout


def test_no_check_starts_whatever_is_there(used_kernel) -> None:
    reply = used_kernel.run("%%distributed -n 1 --no-check\nprint('started')\nprint(nothing_of_the_kind)")

    assert "started" in reply.stdout
    assert "NameError" in reply.error


def test_the_doctor_shows_a_page_and_imports_no_framework(kernel) -> None:
    reply = kernel.run("%dist_doctor")

    page = reply.data[0]
    assert 'class="nbdist-doctor"' in page["text/html"]
    assert "Python and packages" in page["text/plain"]
    loaded = kernel.run("import sys\nprint({'torch', 'paddle', 'visualdl'} & set(sys.modules))")
    assert loaded.stdout == "set()\n"
