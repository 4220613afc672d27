"""An interrupt of the kernel at each step of a cell: the run is stopped, or was never started."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from nbdist.store import RunDirectory, RunStore, snapshot
from tests.magics.conftest import Kernel, Reply, leaves_nothing_in
from tests.programs import until

__all__ = ["leaves_nothing_in"]

# the moment is a function that the kernel calls or leaves
INTERRUPT_AT = """
import signal, sys
def look(frame, event, _, wanted={!r}):
    if (frame.f_code.co_filename.endswith(wanted[0]), frame.f_code.co_name, event) == (True, *wanted[1:]):
        sys.setprofile(None)
        signal.raise_signal(signal.SIGINT)
sys.setprofile(look)
"""

LONG = "import time\ntime.sleep(600)"

BEFORE = [
    pytest.param("runner/planning.py", "plan", "return", id="planned"),
    pytest.param("runner/pruning.py", "keeping", "call", id="the limits are read"),
]
WHILE = [
    pytest.param("subprocess.py", "_execute_child", "return", id="the first process is there"),
    pytest.param("launch/local.py", "look_after", "call", id="nobody waits for it yet"),
    pytest.param("launch/local.py", "close", "call", id="it is told its ranks"),
    pytest.param("runner/launching.py", "start", "return", id="it is started"),
    pytest.param("magics/presentation.py", "tell", "call", id="the notes are printed"),
    pytest.param("runner/pruning.py", "begin", "call", id="old runs are looked for"),
    pytest.param("magics/showing.py", "_surface", "call", id="the panel's widgets are imported"),
    pytest.param("magics/showing.py", "__init__", "return", id="the panel is open"),
    pytest.param("feed/following.py", "follow", "call", id="it is followed"),
]
AFTER = [
    pytest.param("feed/following.py", "follow", "return", id="its end was seen"),
    pytest.param("panel/widget.py", "placed", "call", id="the panel gets its place"),
    pytest.param("warm/pool.py", "after", "return", id="all is done"),
]


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    kernel = Kernel(tmp_path_factory.mktemp("kernel") / "home")
    yield kernel
    kernel.close()


def ended_by(kernel: Kernel, moment: tuple[str, str, str], cell: str) -> tuple[Reply, str | None]:
    """What a cell says that is interrupted at that moment, and how its run stands, where there is one."""
    before = set(RunStore(kernel.home).directories())
    kernel.run(INTERRUPT_AT.format(moment))
    reply = kernel.run(cell, limit=30, metadata={"cellId": "a1"})
    made = set(RunStore(kernel.home).directories()) - before
    return reply, state_of(*made) if made else None


def state_of(run: RunDirectory) -> str:
    found = snapshot(run)
    assert found is not None, "its spec can be read"
    return found.state.value


@pytest.mark.parametrize(("file", "function", "event"), BEFORE)
def test_before_there_is_a_process_nothing_is_started(
    kernel: Kernel, leaves_nothing_in, file: str, function: str, event: str
) -> None:
    reply, state = ended_by(kernel, (file, function, event), f"%%distributed -n 2\n{LONG}")

    assert reply.error == "KeyboardInterrupt: nothing was started"
    assert "nbdist/" not in reply.traceback
    assert state is None


@pytest.mark.parametrize(("file", "function", "event"), WHILE)
def test_once_there_is_a_process_the_run_is_stopped_and_the_cell_waits_for_its_end(
    kernel: Kernel, leaves_nothing_in, file: str, function: str, event: str
) -> None:
    reply, state = ended_by(kernel, (file, function, event), f"%%distributed -n 2\n{LONG}")

    assert reply.error.startswith("RunCancelled: ")
    assert "the kernel was interrupted" in reply.error
    assert state == "cancelled"
    leaves_nothing_in(kernel.home)


@pytest.mark.parametrize(("file", "function", "event"), AFTER)
def test_after_its_end_the_cell_alone_is_interrupted(
    kernel: Kernel, leaves_nothing_in, file: str, function: str, event: str
) -> None:
    reply, state = ended_by(kernel, (file, function, event), "%%distributed -n 2\npass")

    assert reply.error.startswith("KeyboardInterrupt: ")
    assert "nbdist/" not in reply.traceback
    assert state == "succeeded"
    leaves_nothing_in(kernel.home)


@pytest.mark.parametrize(
    ("file", "function", "event"),
    [
        pytest.param("runner/launching.py", "start", "return", id="it is started"),
        pytest.param("magics/showing.py", "show_in_background", "return", id="its panel is shown"),
    ],
)
def test_a_detached_run_is_stopped_whose_cell_is_interrupted(
    kernel: Kernel, leaves_nothing_in, file: str, function: str, event: str
) -> None:
    reply, _ = ended_by(kernel, (file, function, event), f"%%distributed -n 2 -d\n{LONG}")

    assert reply.error.startswith("KeyboardInterrupt: the run is stopped")
    until(lambda: state_of(RunStore(kernel.home).directories()[0]) == "cancelled")
    leaves_nothing_in(kernel.home)


@pytest.mark.parametrize(
    ("file", "function", "event"),
    [
        pytest.param("warm/pool.py", "wait_until_ready", "call", id="they are not ready"),
        pytest.param("warm/pool.py", "go", "call", id="they are told their run"),
        pytest.param("warm/pool.py", "go", "return", id="they have taken it"),
    ],
)
def test_with_ranks_that_wait_it_is_no_different(
    kernel: Kernel, leaves_nothing_in, file: str, function: str, event: str
) -> None:
    kernel.run("from nbdist import runner\nrunner.warm_ranks.choose('always')")
    try:
        reply, state = ended_by(kernel, (file, function, event), f"%%distributed -n 2\n{LONG}")
    finally:
        kernel.run("runner.warm_ranks.choose('off')")

    assert reply.error.startswith("RunCancelled")
    assert state == "cancelled"
    leaves_nothing_in(kernel.home)


def test_a_cell_whose_run_cannot_be_shown_leaves_none(kernel: Kernel, leaves_nothing_in) -> None:
    kernel.run("import sys\nsys.modules['nbdist.panel.widget'] = None")
    try:
        reply = kernel.run(f"%%distributed -n 2\n{LONG}", metadata={"cellId": "a1"})
    finally:
        kernel.run("del sys.modules['nbdist.panel.widget']")

    assert reply.status == "error"
    until(lambda: state_of(RunStore(kernel.home).directories()[0]) == "cancelled")
    leaves_nothing_in(kernel.home)
