"""``--pull``, and the last expression of a cell, in a real kernel."""

from __future__ import annotations

import pytest

from tests.magics.conftest import Kernel


def test_a_cell_pulls_what_rank_0_gave(used_kernel: Kernel) -> None:
    cell = """%%distributed -n 2 --pull acc,both
import os, nbdist
rank = int(os.environ["RANK"])
nbdist.result(acc=0.5 + rank, both=("é", rank), kept=1)
"""
    reply = used_kernel.run(cell)

    assert reply.status == "ok"
    seen = used_kernel.run(
        "print(acc, both, 'kept' in dir(), [n for n in get_ipython().user_ns_hidden if n == 'acc'])"
    )
    assert seen.stdout == "0.5 ('é', 0) False []\n"


def test_a_name_that_is_not_there_is_raised_when_the_others_are_set(used_kernel: Kernel) -> None:
    reply = used_kernel.run(
        "%%distributed -n 1 --pull acc,model,lock\n"
        "import nbdist, threading\nnbdist.result(acc=1, other=2, lock=threading.Lock())"
    )

    lines = reply.error.splitlines()
    assert lines[0].startswith("RunFailed: --pull model: rank 0 of ")
    assert lines[0].endswith(" gave no result model: it gave acc, other, lock")
    assert "could not store the result lock" in lines[1]
    assert "Traceback" not in reply.traceback
    assert used_kernel.run("print(acc)").stdout == "1\n"
    assert used_kernel.run("print(len(str(model)))").error.startswith("NameError")


def test_after_a_failed_run_nothing_is_set(used_kernel: Kernel) -> None:
    reply = used_kernel.run("acc = 'mine'\n")
    reply = used_kernel.run("%%distributed -n 1 --pull acc\nimport nbdist\nnbdist.result(acc=1)\n1 / 0")

    assert "ZeroDivisionError" in reply.error
    seen = used_kernel.run("import nbdist\nprint(acc, nbdist.attach().results['acc'])").stdout
    assert seen == "mine 1\n"


@pytest.mark.parametrize(
    ("line", "refusal"),
    [
        pytest.param("%%distributed -n 1 -d --pull acc", "--pull and -d disagree: leave out", id="detached"),
        pytest.param("%%distributed -n 1 --pull a.b", "--pull a.b: write names of results", id="no name"),
        pytest.param("%%distributed -n 1 --pull class", "--pull class: write names of", id="a keyword"),
        pytest.param(
            "%%distributed -n 1 --pull acc,In", "--pull In would replace a part of the notebook", id="In"
        ),
        pytest.param(
            "%%distributed -n 1 --pull __name__", "a part of the notebook itself", id="Python's own"
        ),
        pytest.param("%%distributed -n 1 --push get_ipython", "--push get_ipython is a part", id="pushed"),
        pytest.param(
            "%%ranks -n 1 --pull _", "--pull _ would replace a part of the notebook", id="by a session"
        ),
    ],
)
def test_what_cannot_be_pulled_is_refused_before_anything_is_started(
    same_kernel: Kernel, line: str, refusal: str
) -> None:
    reply = same_kernel.run(f"{line}\npass")

    assert refusal in reply.stderr
    assert not (same_kernel.home / "runs").exists()


def test_the_last_expression_of_rank_0_is_shown(used_kernel: Kernel) -> None:
    shown = used_kernel.run("%%distributed -n 2\nimport os\nos.environ['RANK'] + 'st'")
    hidden = used_kernel.run("%%distributed -n 2\nimport os\nos.environ['RANK'] + 'st';")

    assert shown.data == [{"text/plain": "'0st'"}]
    assert hidden.data == []
    assert hidden.status == "ok"


def test_a_script_of_a_notebook_gives_results_too(used_kernel: Kernel) -> None:
    (used_kernel.home.parent / "train.py").write_text("import nbdist, sys\nnbdist.result(lr=sys.argv[1])\n5")

    reply = used_kernel.run("%distributed -n 1 --pull lr train.py 0.1")

    assert reply.status == "ok"
    assert reply.data == []
    assert used_kernel.run("print(lr)").stdout == "0.1\n"


def test_a_class_of_the_cell_comes_by_value(used_kernel: Kernel) -> None:
    pytest.importorskip("cloudpickle")
    used_kernel.run(
        "%%distributed -n 1 --pull mine\nimport nbdist\nclass Mine:\n  def double(self): return 2 * self.x\n"
        "mine = Mine()\nmine.x = 4\nnbdist.result(mine=mine)"
    )

    seen = used_kernel.run("print(type(mine).__module__, type(mine).__name__, mine.double())").stdout

    assert seen == "__main__ Mine 8\n"


def test_a_class_of_the_notebook_comes_back_as_itself(used_kernel: Kernel) -> None:
    used_kernel.run(
        "import enum\nclass C:\n  def __init__(self): self.me = 'kernel'\n"
        "class Kind(enum.Enum):\n  A = 1\nclass Sub(C): pass"
    )

    reply = used_kernel.run(
        "%%distributed -n 1 --push C,Kind,Sub --pull c,kind,sub\nimport nbdist\n"
        "c = C(); c.me = 'rank'\nnbdist.result(c=c, kind=[Kind.A], sub={'s': Sub()})\nc.me"
    )
    seen = used_kernel.run(
        "print(type(c) is C, c.me, kind[0] is Kind.A, type(sub['s']) is Sub, isinstance(c, C))"
    )

    assert reply.data == [{"text/plain": "'rank'"}]
    assert seen.stdout == "True rank True True True\n"
