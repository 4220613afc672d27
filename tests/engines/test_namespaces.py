"""Slurm whose nodes have a network, a name and an address each, unlike on one machine."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nbdist.model import RunState
from tests.engines.cluster import NoSlurm
from tests.engines.conftest import Login, until
from tests.engines.namespaces import NetworkedCluster, networked

pytestmark = pytest.mark.cluster

TRAINS = """
import os, socket, nbdist, torch, torch.distributed as dist
dist.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    loss = model(torch.ones(8, 4) * (dist.get_rank() + 1)).pow(2).mean()
    optimizer.zero_grad(); loss.backward(); optimizer.step()
    nbdist.log(step=step, loss=loss.item())
weights = [p.detach().clone() for p in model.parameters()]
for weight in weights:
    dist.all_reduce(weight)
same = all(torch.allclose(w / 2, p) for w, p in zip(weights, model.parameters()))
print("host", socket.gethostname(), "master", os.environ["MASTER_ADDR"], "same", same, flush=True)
dist.destroy_process_group()
"""


@pytest.fixture(scope="module")
def machines() -> Iterator[NetworkedCluster]:
    try:
        with networked() as up:
            yield up
    except NoSlurm as why:
        pytest.skip(f"NOT TESTED: {why}")


class LoginNode(Login):
    """The first of the machines."""

    cluster: NetworkedCluster

    def start(self, *words: str, before: tuple[str, ...] = (), **variables: str) -> Any:
        return super().start(*words, before=(*self.cluster.inside("n1"), *before), **variables)


@pytest.fixture
def node(machines: NetworkedCluster, tmp_path: Path) -> Iterator[LoginNode]:
    machine = LoginNode(machines, tmp_path)
    yield machine
    machine.close()
    until(lambda: not machine.left() and not machine.jobs())


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
def test_a_cell_trains_on_two_machines(node: LoginNode) -> None:
    node.script(TRAINS)

    code, output = node.run("--nodes", "2", "-n", "1", "train.py", limit=120)

    assert code == 0, output
    # torch has warnings of its own
    lines = [line for rank in range(2) for line in node.handle.logs(rank).splitlines()]
    logs = [line.split() for line in lines if line.startswith("host ")]
    assert sorted(words[1] for words in logs) == ["n1", "n2"]
    assert [words[3] for words in logs] == ["10.213.78.1"] * 2
    assert [words[5] for words in logs] == ["True"] * 2
    assert node.handle.run.state is RunState.FINISHED


def test_a_step_meets_on_its_first_machine_and_not_where_it_was_started(node: LoginNode) -> None:
    node.script("import os, socket; print('host', socket.gethostname(), os.environ['MASTER_ADDR'])")
    words = ("--parsable", "--exclusive", "--nodelist=n[2-3]", "--output=/dev/null", "--wrap", "sleep 600")
    job = node.cluster.call("sbatch", *words)
    until(lambda: f"{job}|RUNNING" in node.jobs())

    code, output = node.run(
        "--nodes", "2", "-n", "1", "--framework", "none", "train.py", limit=120, SLURM_JOB_ID=job
    )
    node.cluster.call("scancel", job)

    assert code == 0, output
    logs = [node.handle.logs(rank).split() for rank in range(2)]
    assert logs == [["host", host, "10.213.78.2"] for host in ("n2", "n3")]


def test_machines_that_are_well_find_each_other(node: LoginNode) -> None:
    code, entries = node.examine()

    assert code == 0, entries
    seen = {title: entry["level"] for title, entry in entries.items()}
    assert [seen[title] for title in ("shared directory", "ports", "job")] == ["ok"] * 3, entries


def test_a_directory_of_each_machine_is_not_taken_for_shared(node: LoginNode) -> None:
    code, entries = node.examine(NBDIST_HOME=str(node.cluster.own / "home"))

    assert code == 1
    # the first machine sees it as little: what a login mounts is its own
    assert "can the nodes see that directory?" in entries["job"]["what"]
    assert "NBDIST_HOME" in entries["job"]["what"]


def test_machines_that_do_not_reach_each_other_are_named(node: LoginNode) -> None:
    node.cluster.separate("n2", "n3")
    try:
        code, entries = node.examine("--slurm", "nodelist=n[2-3]", "--wait", "10s")
    finally:
        node.cluster.join("n2", "n3")

    assert code == 1
    assert "does not reach n3: No route to host" in entries["job"]["what"]
