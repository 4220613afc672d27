"""``--push``: names of a notebook, in the ranks of its cells."""

from __future__ import annotations

import re
from pathlib import Path

from nbdist.store import RunStore

DEFINED = """
import dataclasses, numpy as np
SCALE = 3
df = np.arange(100_000.0)
cfg = {"lr": 0.1}
@dataclasses.dataclass
class Config:
    lr: float = 0.5
def helper(x):
    return x * SCALE
class Net:
    def __call__(self, x):
        return helper(x) + Config().lr
def broken(x):
    y = x
    return y / 0
"""
USING = """
print("sum", df.sum(), "lr", cfg["lr"], "net", Net()(2))
"""


def boxes(home: Path) -> list[Path]:
    return [run.inputs for run in RunStore(home).directories() if run.inputs.exists()]


def test_ranks_have_the_names_that_are_pushed_and_none_stays_behind(used_kernel) -> None:
    used_kernel.run(DEFINED)

    given = used_kernel.run(f"%%distributed -n 2 --push df,cfg,Net\n{USING}")
    automatic = used_kernel.run(f"%%distributed -n 2 --push auto\n{USING}")
    kept = used_kernel.run("%%distributed -n 1 --push cfg --keep-inputs --name kept\nprint(cfg)")

    assert given.status == "ok", given.stderr + given.error
    for rank in (0, 1):
        assert f"[{rank}] sum 4999950000.0 lr 0.1 net 6.5\n" in given.stdout
    note = "[nbdist] pushed: df (ndarray, 800 kB), cfg (dict, "
    assert note in given.stdout
    assert re.search(r"Net \(class\), with them .*helper \(function\)", given.stdout)
    assert "sum 4999950000.0 lr 0.1 net 6.5" in automatic.stdout
    assert note in automatic.stdout
    assert kept.status == "ok"
    assert [path.parent.name.split("-")[2] for path in boxes(used_kernel.home)] == ["kept"]


def test_a_cell_that_lacks_names_is_refused_with_the_line_to_type(used_kernel) -> None:
    used_kernel.run(DEFINED + "lr = 0.1")

    refused = used_kernel.run("%%distributed -n 2 --env TOKEN=abc\nprint(df, Net(), lr, np.pi)")
    absent = used_kernel.run("%%distributed -n 2 --push dff\nprint(dff)")
    own = used_kernel.run("%%distributed -n 2 --push get_ipython\nprint(1)")
    several = used_kernel.run("%%distributed -n 2 --nodes 2 --master 10.0.0.1:29500 --push df\nprint(1)")
    script = used_kernel.run("%distributed -n 2 --push df train.py")

    first, *others = refused.stderr.splitlines()
    assert re.search(
        r"uses df, Net, lr, which .*: write  %%distributed -n 2 --env TOKEN=\S+ --push df,Net,lr$",
        first,
    )
    assert {line.partition(" uses ")[2].split()[0].strip(",") for line in others} == {"np"}
    assert "abc" not in refused.stderr
    assert "did you mean  df?" in absent.stderr
    assert "a part of the notebook itself" in own.stderr
    assert "the other machines do not see" in several.stderr
    assert "names of a notebook" in script.stderr


def test_auto_may_be_what_every_cell_does(kernel) -> None:
    kernel.run(DEFINED)
    kernel.run("%env NBDIST_PUSH=auto")

    reply = kernel.run(f"%%distributed -n 1\n{USING}")
    without = kernel.run("%%distributed -n 1\nprint('nothing missing')")

    assert "sum 4999950000.0 lr 0.1 net 6.5" in reply.stdout
    assert "pushed" not in without.stdout


def test_an_error_in_a_pushed_function_names_its_cell_and_line(used_kernel) -> None:
    used_kernel.run(DEFINED)
    number = used_kernel.run("print(len(In) - 2)").stdout.strip()

    failed = used_kernel.run("%%distributed -n 2 --push broken\nx = 1\nbroken(x)")

    assert f"ZeroDivisionError at line 15 of In [{number}]" in failed.error
    assert "return y / 0" in failed.traceback
    assert re.search(rf'File "In \[{number}\]", line 15, in broken', failed.stdout)


def test_a_variable_of_rank_0_is_pulled_and_one_that_no_rank_can_have_is_refused(used_kernel) -> None:
    own = used_kernel.run(
        "%%distributed -n 2 --pull acc,loss\nimport nbdist\nacc, loss = 5, 1\nnbdist.result(loss=2)"
    )
    pulled = used_kernel.run("print(acc, loss)")
    none = used_kernel.run("%%distributed -n 2 --pull accuracy\nimport json\nacc = 5")

    assert own.status == "ok", own.stderr + own.error
    assert pulled.stdout == "5 2\n"
    assert "the cell has no variable accuracy" in none.stderr


def test_the_nearest_magic_is_named(used_kernel) -> None:
    line, cell = used_kernel.run("%dist_stauts"), used_kernel.run("%%distributd -n 2\nx = 1")

    assert "did you mean  %dist_status?" in line.stderr
    assert "did you mean  %%distributed?" in cell.stderr
