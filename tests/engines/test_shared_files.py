"""Machines whose shared directory is late, or silent for a while."""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from nbdist.launch.machines.connections import PEER_TIMEOUT
from nbdist.model import NodesAwaited, RunState
from nbdist.store.journal import read_events
from tests.engines.cluster import NoSlurm
from tests.engines.conftest import until
from tests.engines.namespaces import NetworkedCluster, networked
from tests.engines.test_namespaces import LoginNode

pytestmark = pytest.mark.cluster

BELIEVES = 40.0
"""Seconds. What is seen much sooner was not found by waiting."""

# the login node has no rank, as it should be
RUN = ("run", "--on", "slurm", "--slurm", "nodelist=n[2-3]", "--nodes", "2", "-n", "1", "--framework", "none")

SAYS_WHEN = """
import time, nbdist
print("ready", flush=True)
for step in range(8):
    time.sleep(0.3)
    nbdist.log(step=step, loss=1.0 / (step + 1))
    print("at", time.time(), flush=True)
"""

GOES_ON = """
import time, nbdist
print("ready", flush=True)
for step in range(60):
    time.sleep(0.1)
    print("line", step, flush=True)
"""


@pytest.fixture(scope="module")
def machines() -> Iterator[NetworkedCluster]:
    try:
        with networked(believes=BELIEVES) as up:
            yield up
    except NoSlurm as why:
        pytest.skip(f"NOT TESTED: {why}")


@pytest.fixture
def node(machines: NetworkedCluster) -> Iterator[LoginNode]:
    machine = LoginNode(machines, Path(tempfile.mkdtemp(dir=machines.shared)))
    yield machine
    for name in machines.names:
        machines.views.answer(name)
    machine.close()
    until(lambda: not machine.left() and not machine.jobs())


def shown(running: subprocess.Popen[str]) -> list[tuple[float, str]]:
    """Return each line of the output with its time of arrival."""
    assert running.stdout is not None
    return [(time.time(), line) for line in running.stdout]


def delays(lines: list[tuple[float, str]]) -> list[float]:
    """Return the seconds between writing and arrival of each line."""
    return [came - float(line.rpartition(" ")[2]) for came, line in lines if "] at " in line]


def test_what_other_machines_write_is_shown_soon(node: LoginNode) -> None:
    node.script(SAYS_WHEN)

    lines = shown(running := node.start(*RUN, "train.py"))

    assert running.wait() == 0
    assert len(delays(lines)) == 16
    assert max(delays(lines)) < BELIEVES / 4
    assert node.handle.metrics() == {"loss": 0.125}


def test_stacks_and_a_stop_arrive_soon(node: LoginNode) -> None:
    node.script("import time\nprint('ready', flush=True)\ntime.sleep(600)\n")
    node.start(*RUN, "-d", "train.py").communicate(timeout=60)
    node.until_ready()

    out, err = node.start("stacks").communicate(timeout=60)
    stopping = time.monotonic()
    node.start("stop").communicate(timeout=60)

    assert "ranks 0, 1 are in time.sleep" in out, (out, err)
    assert node.handle.wait(BELIEVES) == "stopped"
    assert time.monotonic() - stopping < BELIEVES / 2


def test_a_node_whose_files_stall_is_waited_for_and_loses_nothing(node: LoginNode) -> None:
    node.script(GOES_ON)
    running = node.start(*RUN, "train.py")
    node.until_ready()

    node.cluster.views.stall("n3")
    time.sleep(PEER_TIMEOUT + 4)  # longer than a machine may say nothing
    node.cluster.views.answer("n3")
    code, output = node.finish(running)

    assert code == 0, output
    assert [output.count(f"[{rank}] line ") for rank in range(2)] == [60, 60]
    awaited = [
        event for event in read_events(node.handle.directory.journal) if isinstance(event, NodesAwaited)
    ]
    assert [event.nodes for event in awaited] == [(), (1,), ()]


def test_a_run_can_be_stopped_whose_node_waits_for_its_files(node: LoginNode) -> None:
    node.script(GOES_ON)
    running = node.start(*RUN, "train.py")
    node.until_ready()

    node.cluster.views.stall("n3")
    until(lambda: node.handle.run.awaited == (1,))
    node.start("stop").communicate(timeout=60)
    code, output = node.finish(running)

    assert code == 130, output
    assert node.handle.run.state is RunState.STOPPED
    until(lambda: not node.left())  # while its files do not answer


def test_a_run_outlives_files_that_answer_no_machine_for_a_while(node: LoginNode) -> None:
    node.script(GOES_ON)
    running = node.start(*RUN, "train.py")
    node.until_ready()

    for name in node.cluster.names:
        node.cluster.views.stall(name)
    time.sleep(PEER_TIMEOUT + 4)
    for name in node.cluster.names:
        node.cluster.views.answer(name)
    code, output = node.finish(running)

    assert code == 0, output
    assert [output.count(f"[{rank}] line ") for rank in range(2)] == [60, 60]


def test_where_the_login_node_waits_for_files_the_ranks_go_on(node: LoginNode) -> None:
    node.script(GOES_ON)
    running = node.start(*RUN, "train.py")
    node.until_ready()

    node.cluster.views.stall("n1")
    until(lambda: all(node.handle.logs(rank).endswith("line 59\n") for rank in range(2)))
    node.cluster.views.answer("n1")
    code, output = node.finish(running)

    assert code == 0, output
    assert [output.count(f"[{rank}] line ") for rank in range(2)] == [60, 60]
