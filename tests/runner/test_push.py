"""The names of a notebook in its ranks: their arrival, and refusals before the start. Kinds of values are in
tests/values."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from nbdist import options, runner
from nbdist.errors import UsageMistake
from tests.programs import until

Push = Callable[..., runner.RunHandle]

DEFINED = """
import abc, math
import numpy as np, torch

class Base(abc.ABC):
    @abc.abstractmethod
    def f(self): ...
    @property
    def double(self): return 2 * self.f()
class Sub(Base):
    def __init__(self, v): self.v = v
    def f(self): return self.v
def even(n): return True if n == 0 else odd(n - 1)
def odd(n): return False if n == 0 else even(n - 1)
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    def forward(self, x): return self.body(x)
sub = Sub(4)
array = np.arange(20_000.0).reshape(100, 200)
whole, view = array, array[:, 3]
net = Net()
state = net.state_dict()
optimizer = torch.optim.Adam(net.parameters())
"""

CHECKS = """
assert isinstance(sub, Base) and sub.double == 8 and even(10) and math.pi > 3 and np.__name__ == "numpy"
assert array is whole and view.sum() == array[:, 3].sum()
array[0, 0] = 9
assert type(net) is Net and net(torch.ones(1, 8)).shape == (1, 2)
assert state["body.0.weight"].data_ptr() == net.body[0].weight.data_ptr()
before = net.body[2].bias.clone()  # has a gradient even where no unit of the first layer fires
net(torch.ones(1, 8)).sum().backward(); optimizer.step()
assert not torch.equal(before, net.body[2].bias), "the optimizer has other parameters"
print("all right")
"""
NAMES = "Base,sub,even,array,whole,view,net,Net,state,optimizer,math,np,torch"


def notebook(source: str) -> runner.Namespace:
    """Return the names of a notebook that has run ``source``."""
    values: dict[str, object] = {"__name__": "__main__"}
    exec(compile(source, "/tmp/ipykernel_1/2.py", "exec"), values)
    return runner.Namespace(values=values)


@pytest.fixture
def plan(home: Path, tmp_path: Path) -> Callable[..., runner.Plan]:
    def make(line: str, cell: str, source: str = "", **environ: str) -> runner.Plan:
        return runner.plan(
            options.parse(line),
            cell=cell,
            cwd=str(tmp_path),
            python_path=["", *sys.path],
            environ={**os.environ, **environ},
            namespace=notebook(source),
        )

    return make


@pytest.fixture
def push(plan: Callable[..., runner.Plan], leaves_nothing: None) -> Push:
    """Run a cell with names of a notebook that has run ``source``."""

    def run(line: str, cell: str, source: str, limit: float = 90.0) -> runner.RunHandle:
        handle = runner.start(plan(line, cell, source))
        handle.wait(limit)
        return handle

    return run


def test_what_is_pushed_arrives_as_it_was(push: Push) -> None:
    handle = push(f"-n 1 --push {NAMES}", CHECKS, DEFINED)

    assert handle.run.state == "finished", handle.logs(0)
    assert handle.logs(0) == "all right\n"


PADDLE = """
import paddle
class Net(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.body = paddle.nn.Linear(4, 1)
    def forward(self, x): return self.body(x).sum()
net = Net()
total = float(net.body.weight.sum())
"""


@pytest.mark.filterwarnings("ignore")  # paddle's own, when it is imported
def test_a_layer_of_the_notebook_trains_in_the_ranks(push: Push) -> None:
    pytest.importorskip("paddle")
    cell = (
        "import paddle\nassert type(net) is Net and abs(float(net.body.weight.sum()) - total) < 1e-6\n"
        "fresh = Net(); assert fresh.body.weight.name != net.body.weight.name\n"
        "opt = paddle.optimizer.Adam(0.1, parameters=net.parameters())\n"
        "net(paddle.ones([2, 4])).backward(); opt.step()\n"
        "print(abs(float(net.body.weight.sum()) - total) > 0.1)\n"
    )

    handle = push("-n 1 --push net,Net,total", cell, PADDLE)

    assert handle.logs(0).endswith("True\n")


def test_auto_finds_the_names_in_functions_too(plan: Callable[..., runner.Plan]) -> None:
    planned = plan("-n 1 --push auto", "def f():\n    return sub.double\nprint(even(3), f(), net)", DEFINED)

    chosen = [(pushed.name, pushed.type) for pushed in planned.spec.inputs if pushed.asked]
    assert chosen == [("sub", "Sub"), ("even", "function"), ("net", "Net")]
    along = {pushed.name for pushed in planned.spec.inputs if not pushed.asked}
    assert along == {"Base", "Sub", "odd", "Net", "torch"}
    assert planned.spec.framework == "torch"


def test_nothing_is_pushed_unasked_and_nothing_imported(plan: Callable[..., runner.Plan]) -> None:
    planned = plan("-n 1 --no-check", "print(sub)", "sub = 1")

    assert planned.spec.inputs == ()
    assert planned.write_inputs is None


@pytest.mark.parametrize("guard", ["", "if __name__ == '__main__': "], ids=["a plain cell", "a guarded one"])
def test_a_pool_that_is_spawned_finds_what_was_pushed(push: Push, guard: str) -> None:
    cell = (
        "import multiprocessing as mp\n"
        "class Mine(Doubling):\n    def __call__(self, x): return super().__call__(x) + 1\n"
        "def show():\n"
        "    with mp.get_context('spawn').Pool(1) as pool: print(pool.map(Mine(), [1, 2]))\n"
        f"{guard}show()\n"
    )
    source = "def double(x): return 2 * x\nclass Doubling:\n    def __call__(self, x): return double(x)\n"

    handle = push("-n 1 --push Doubling,double", cell, source)

    assert handle.logs(0) == "[3, 5]\n"


def test_every_attempt_has_the_names_and_the_end_deletes_them(push: Push) -> None:
    count = "os.listdir(os.environ['NBDIST_RUN_DIR']).count('inputs.box')"
    cell = f"import os, sys; print(cfg, {count}); sys.exit(3)"

    handle = push("-n 1 --retries 1 --push cfg", cell, "cfg = {'a': 1}")

    assert handle.run.attempt == 2
    assert handle.logs(0) == "{'a': 1} 1\n"
    assert not handle.directory.inputs.exists()
    assert [item.name for item in handle.run.spec.inputs] == ["cfg"]


@pytest.mark.parametrize("keep", [False, True])
def test_a_run_whose_supervisor_was_killed_leaves_its_names_to_the_pruning(
    plan: Callable[..., runner.Plan], leaves_nothing: None, keep: bool
) -> None:
    line = f"-n 1 -d --push cfg {'--keep-inputs' if keep else ''}"
    handle = runner.start(plan(line, "import time; time.sleep(600)", "cfg = 'x' * 5000"))
    until(lambda: handle.run.supervisor is not None, 30)
    os.kill(handle.run.supervisor.pid, 9)
    assert handle.wait(30) == "lost"
    assert handle.directory.inputs.exists()
    (prompt := handle.directory.rank(0).debugger).touch()  # of a rank that was killed in a debugger

    list(runner.prune(runner.store(), (300, 20.0)))

    assert (handle.directory.inputs.exists(), prompt.exists()) == (keep, False)


def test_too_much_is_refused_with_the_size_of_each(plan: Callable[..., runner.Plan]) -> None:
    arrays = "import numpy as np\nbig = np.ones(300_000)\nsmall = np.ones(1000)\n"
    source = f"{arrays}text = ['x' * 1000 + str(n) for n in range(5000)]"

    for names, sizes in (("big,small", "big 2.4 MB, small 8.0 kB is 2.4 MB in all"), ("small,text", "text ")):
        with pytest.raises(UsageMistake, match="may be pushed") as caught:
            plan(f"-n 1 --push {names}", "pass", source, NBDIST_PUSH_GB="0.002")
        assert sizes in str(caught.value)
        assert "NBDIST_PUSH_GB=1" in str(caught.value)


SETS = "import os\nos.environ['OMP_NUM_THREADS'] = '7'\nimport torch\n"


def test_a_variable_that_an_import_reads_must_be_set_before_the_names_come(
    plan: Callable[..., runner.Plan],
) -> None:
    source = "import torch\nt = torch.ones(3)\ncfg = {'a': 1}"

    with pytest.raises(UsageMistake, match=r"sets OMP_NUM_THREADS.*imports torch.*--env OMP_NUM_THREADS="):
        plan("-n 1 --push t", SETS, source)
    for line, cell in (
        ("-n 1 --push cfg", SETS),
        ("-n 1 --push t --env OMP_NUM_THREADS=7", SETS),
        ("-n 1 --push t", "import os, torch\nos.environ['OMP_NUM_THREADS'] = '7'"),
        ("-n 1 --push t", "import os\nos.environ['NCCL_DEBUG'] = 'INFO'\nimport torch"),
    ):
        assert plan(line, cell, source).spec.inputs


def test_a_value_that_ranks_cannot_make_ends_the_run_with_its_name(push: Push, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("class Mine: pass")
    made = "from mine import Mine; sys.path.pop(0); m = Mine()"
    source = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); {made}"

    handle = push("-n 1 --push m --cwd /", "print(m)", source)

    assert handle.run.state == "failed"
    assert "m (Mine) cannot be made here: ModuleNotFoundError: No module named 'mine'" in handle.logs(0)
