"""A sweep in a real kernel."""

from __future__ import annotations

import signal
from pathlib import Path

from nbdist import processes
from nbdist.runner.sweeps import SweepHandle
from nbdist.store.run_store import SweepStore
from tests.magics.conftest import Kernel
from tests.programs import until

SLEEPING = """%%distributed --sweep lr=0.1,0.01 --sweep width=64,128 -n 2 --each 1
import nbdist, time
print(nbdist.params.lr, flush=True)
time.sleep(600)
"""


def begun(home: Path) -> SweepHandle:
    """Return the sweep of this home once two of its points run."""
    until(lambda: bool(SweepStore(home).sweeps()) and SweepStore(home).sweeps()[0].spec.exists(), 60)
    handle = SweepHandle(SweepStore(home).sweeps()[0])
    until(lambda: handle.look().counts["running"] == 2, 60)
    return handle


def test_a_sweep_of_a_cell_of_a_function_and_one_that_is_interrupted(kernel: Kernel) -> None:
    kernel.run("lr = 5")
    points = '"lr,width=0.1,8 1,16 0.01,32"'
    cell = f"""%%distributed --sweep {points} -n 2 --each 1 --args "--lr {{lr}}" --name lenet --metric loss
import sys, nbdist
nbdist.log(0, loss=nbdist.params.lr * 2)
assert sys.argv[1:] == ["--lr", str(nbdist.params["lr"])], sys.argv
if nbdist.params.lr == 1:
    raise ValueError("the loss is not finite")
"""

    failed = kernel.run(cell)
    kernel.run("def train(lr, width=1): import nbdist; nbdist.log(0, loss=lr); return lr * 10 * width")
    listed = [{"lr": 3}, {"lr": 2, "width": 2}]
    called = kernel.run(f"sweep = __import__('nbdist').run(train, sweep={listed}, nproc=1)")
    results = kernel.run("print(sweep.best().params, [run.result() for run in sweep.runs])")
    shown = kernel.run(cell.replace("nbdist.params.lr == 1", "False"), metadata={"cellId": "one"})
    message = kernel.submit(SLEEPING)
    handle = begun_last(kernel.home)
    kernel.interrupt()
    stopped = kernel.collect(message)

    assert failed.error.startswith("RunFailed: 1 of 3 points of sweep lenet-")
    assert "lr=1 width=16 · Failed" in failed.stdout
    assert "ValueError: the loss is not finite" in failed.stdout
    assert called.status == results.status == "ok"
    assert results.stdout == "{'lr': 2, 'width': 2} [30, 40]\n"
    assert shown.status == "ok"
    assert "application/vnd.jupyter.widget-view+json" in shown.data[0]
    assert "Finished" in shown.data[-1]["text/html"]
    assert stopped.error.startswith("RunStopped")
    assert [run.state.value for run, _ in handle.look().runs] == ["stopped"] * 4


def begun_last(home: Path) -> SweepHandle:
    until(lambda: len(SweepStore(home).sweeps()) == 4, 60)
    return begun(home)


def test_a_sweep_ends_with_its_kernel_and_its_runs_with_the_process_that_starts_them(kernel: Kernel) -> None:
    kernel.submit(SLEEPING)
    mine = begun(kernel.home)
    kernel.manager.signal_kernel(signal.SIGKILL)
    until(lambda: not mine.look().live, 60)

    assert mine.look().reason.code == "kernel-ended"
    assert {run.state.value for run, _ in mine.look().runs} == {"stopped"}
    assert not processes.marked("NBDIST_PARAMS", '{"lr": 0.1, "width": 64}')
