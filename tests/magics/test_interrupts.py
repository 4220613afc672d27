"""An interrupt of the kernel at each step of a cell: the run is stopped, or was never started."""

from __future__ import annotations

import pytest

from nbdist.store import RunDirectory, RunStore, snapshot
from tests.magics.conftest import Kernel
from tests.programs import until

# the moment is a function that the kernel calls or leaves
INTERRUPT_AT = """
import signal, sys
def look(frame, event, _, wanted={!r}):
    if (frame.f_code.co_filename.endswith(wanted[0]), frame.f_code.co_name, event) == (True, *wanted[1:]):
        sys.setprofile(None)
        signal.raise_signal(signal.SIGINT)
sys.setprofile(look)
"""

LONG = "%%distributed -n 2\nimport time\ntime.sleep(600)"
SHORT = "%%distributed -n 2\npass"
DETACHED = LONG.replace("-n 2", "-n 2 -d")
NOTHING_STARTED = ("KeyboardInterrupt: nothing was started", None)
STOPPED = ("RunStopped: ", "stopped")
DETACHED_STOPPED = ("KeyboardInterrupt: the run is stopped", "stopped")
ENDED_BEFORE = ("KeyboardInterrupt: ", "finished")


@pytest.fixture
def kernel(same_kernel: Kernel) -> Kernel:
    return same_kernel


def state_of(run: RunDirectory) -> str:
    current = snapshot(run)
    assert current is not None, "its spec can be read"
    return current.state.value


def is_interrupted(kernel: Kernel, moment: str, cell: str, outcome: tuple[str, str | None]) -> None:
    """Interrupt a cell at this moment; check its error and the end of its run."""
    before = set(RunStore(kernel.home).directories())
    kernel.run(INTERRUPT_AT.format(tuple(moment.split())))

    reply = kernel.run(cell, limit=30, metadata={"cellId": "a1"})

    error, state = outcome
    made = set(RunStore(kernel.home).directories()) - before
    assert reply.error.startswith(error)
    assert "nbdist/" not in reply.traceback
    assert len(made) == (state is not None)
    until(lambda: all(state_of(run) == state for run in made))


@pytest.mark.parametrize(
    ("cell", "moment", "outcome"),
    [
        pytest.param(LONG, "runner/planning.py plan return", NOTHING_STARTED, id="planned"),
        pytest.param(LONG, "runner/pruning.py keeping call", NOTHING_STARTED, id="the limits are read"),
        pytest.param(LONG, "subprocess.py _execute_child return", STOPPED, id="the first process is there"),
        pytest.param(LONG, "launch/local.py look_after call", STOPPED, id="nobody waits for it yet"),
        pytest.param(LONG, "launch/local.py submit return", STOPPED, id="its supervisor runs"),
        pytest.param(LONG, "runner/launching.py start return", STOPPED, id="it is started"),
        pytest.param(LONG, "magics/presentation.py tell call", STOPPED, id="the notes are printed"),
        pytest.param(LONG, "runner/pruning.py begin call", STOPPED, id="old runs are looked for"),
        pytest.param(LONG, "magics/showing.py _surface call", STOPPED, id="the widgets are imported"),
        pytest.param(LONG, "magics/showing.py __init__ return", STOPPED, id="the panel is open"),
        pytest.param(LONG, "feed/following.py follow call", STOPPED, id="it is followed"),
        pytest.param(SHORT, "feed/following.py follow return", ENDED_BEFORE, id="its end was seen"),
        pytest.param(SHORT, "panel/widget.py placed call", ENDED_BEFORE, id="the panel gets its place"),
        pytest.param(SHORT, "warm/pool.py after return", ENDED_BEFORE, id="all is done"),
        pytest.param(DETACHED, "runner/launching.py start return", DETACHED_STOPPED, id="-d, it is started"),
        pytest.param(
            DETACHED, "magics/showing.py show_in_background return", DETACHED_STOPPED, id="-d, it is shown"
        ),
    ],
)
def test_a_cell_that_is_interrupted_leaves_no_run_and_waits_for_its_end(
    kernel: Kernel, leaves_nothing_in, cell: str, moment: str, outcome: tuple[str, str | None]
) -> None:
    is_interrupted(kernel, moment, cell, outcome)

    leaves_nothing_in(kernel.home)


@pytest.mark.parametrize(
    "moment",
    [
        pytest.param("warm/pool.py wait_until_ready call", id="they are not ready"),
        pytest.param("warm/pool.py go call", id="they are told their run"),
        pytest.param("warm/pool.py go return", id="they have taken it"),
    ],
)
def test_with_ranks_that_wait_it_is_no_different(kernel: Kernel, leaves_nothing_in, moment: str) -> None:
    kernel.run("from nbdist import runner\nrunner.warm_ranks.choose('always')")
    try:
        is_interrupted(kernel, moment, LONG, STOPPED)
    finally:
        kernel.run("runner.warm_ranks.choose('off')")

    leaves_nothing_in(kernel.home)


def test_a_cell_whose_run_cannot_be_shown_leaves_none(kernel: Kernel, leaves_nothing_in) -> None:
    kernel.run("import sys\nsys.modules['nbdist.panel.widget'] = None")
    try:
        reply = kernel.run(LONG, metadata={"cellId": "a1"})
    finally:
        kernel.run("del sys.modules['nbdist.panel.widget']")

    assert reply.status == "error"
    until(lambda: state_of(RunStore(kernel.home).directories()[0]) == "stopped")
    leaves_nothing_in(kernel.home)
