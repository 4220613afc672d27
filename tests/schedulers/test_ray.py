"""Runs on a real Ray of two nodes: from the queue to the end, and all that may go wrong on the way."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from nbdist.model import RunState
from nbdist.store import RunStore
from tests.schedulers.conftest import Login, until
from tests.schedulers.programs import FAILS_ON_RANK_1, SAVES
from tests.schedulers.ray_cluster import NoRay, RayCluster, ray

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(400)]

PLAIN = ("--nodes", "2", "-n", "1", "--framework", "none")
LIMIT = 240.0
"""Seconds: Ray starts many processes, and the machine may have other things to do."""

EVIL = "a $(touch evil); b.py"

TORCH = """
import os, nbdist, torch, torch.distributed as dist
dist.init_process_group("gloo")
total = torch.tensor([dist.get_rank() + 1.0])
dist.all_reduce(total)
nbdist.log(step=1, mean=total.item())
where = [os.environ[name] for name in ("GROUP_RANK", "CUDA_VISIBLE_DEVICES")]
print("sum", total.item(), *where, os.nice(0), flush=True)
print(os.environ["API_KEY"], sorted(name for name in os.environ if name.startswith("RAY_")), flush=True)
"""


class RayLogin(Login):
    """A machine that reaches Ray's dashboard, and sees the nodes' files."""

    def __init__(self, cluster: RayCluster, folder: Path) -> None:
        self.ray = cluster
        super().__init__(cluster, folder)  # type: ignore[arg-type]

    def begin(self, *words: str, **variables: str) -> subprocess.Popen[str]:
        return self.start("run", "--on", "ray", "--ray", self.ray.address, *words, **variables)

    def finish(self, process: subprocess.Popen[str], limit: float = LIMIT) -> tuple[int, str]:
        return super().finish(process, limit)

    def run(self, *words: str, limit: float = LIMIT, **variables: str) -> tuple[int, str]:
        return super().run(*words, limit=limit, **variables)

    def until_ready(self) -> None:
        handle = self.handle
        until(lambda: all("ready" in handle.logs(rank) for rank in range(handle.run.spec.world_size)), LIMIT)

    def over(self) -> bool:
        """Whether no job is left on Ray."""
        return all(
            job["status"] not in ("PENDING", "RUNNING") for job in json.loads(self.ray.ask("/api/jobs/"))
        )


@pytest.fixture(scope="module")
def cluster() -> Iterator[RayCluster]:
    try:
        with ray() as up:
            yield up
    except NoRay as why:
        pytest.skip(f"NOT TESTED: {why}")


@pytest.fixture
def login(cluster: RayCluster, tmp_path: Path) -> Iterator[RayLogin]:
    there = RayLogin(cluster, tmp_path)
    yield there
    there.close()
    until(lambda: not there.left() and there.over(), LIMIT)


def test_torch_trains_on_two_nodes_and_all_logs_are_here(login: RayLogin) -> None:
    login.script(TORCH, EVIL)

    words = ("--nodes", "2", "--gpus", "1", "--backend", "gloo", "--env", "API_KEY=s3cret", EVIL)
    code, said = login.run(*words)

    assert code == 0, said
    assert "[nbdist] queued: Ray has not started it yet" in said
    handle = login.handle
    lines = [handle.logs(rank).splitlines() for rank in range(2)]
    # Ray gives its own processes the lowest priority, and not these; it chooses the GPU
    assert [each[0] for each in lines] == [f"sum 3.0 {rank} 0 0" for rank in range(2)]
    assert [each[1] for each in lines] == ["s3cret []"] * 2
    assert handle.metrics() == {"mean": 3.0}
    assert {rank.state.value for rank in handle.run.ranks} == {"succeeded"}
    _nothing_is_told(login)


def _nothing_is_told(login: RayLogin) -> None:
    """What lets one in at Ray's is in no file of the run, and what a rank is told not on the dashboard."""
    logs = {str(login.handle.directory.rank(rank).log) for rank in range(2)}
    for path in login.home.rglob("*"):
        if path.is_file():
            assert login.ray.token.encode() not in path.read_bytes(), path
            assert b"s3cret" not in path.read_bytes() or str(path) in logs, path
    assert b"s3cret" not in login.ray.ask(f"/api/jobs/{login.job}")
    assert [path.name for path in login.folder.rglob("evil*")] == []


@pytest.mark.slow
def test_a_rank_that_fails_ends_the_others_on_all_nodes(login: RayLogin) -> None:
    login.script(FAILS_ON_RANK_1)

    code, said = login.run(*PLAIN, "train.py")

    assert code == 1
    assert "rank 1 failed first: ValueError at line 5 of train.py" in said
    assert [rank.state.value for rank in login.handle.run.ranks] == ["ended", "failed"]


def test_a_detached_run_is_followed_and_stopped_from_elsewhere(login: RayLogin) -> None:
    login.script(SAVES)
    code, said = login.run(*PLAIN, "-d", "train.py")
    assert code == 0, said
    login.until_ready()

    following = login.start("attach")
    until(lambda: login.handle.run.state is RunState.RUNNING)
    login.finish(login.start("stop"))
    _, followed = login.finish(following)

    assert "stopped by nbdist stop" in followed
    # one SIGINT a rank, and none in the middle of what it does about that
    assert ["saved" in login.handle.logs(rank) for rank in range(2)] == [True, True]


@pytest.mark.slow
def test_a_job_that_is_stopped_at_ray_says_so(login: RayLogin) -> None:
    login.script(SAVES)
    running = login.begin(*PLAIN, "train.py")
    login.until_ready()

    login.ray.ask(f"/api/jobs/{login.job}/stop", method="POST")
    said = login.finish(running)[1]

    assert login.handle.run.state is RunState.CANCELLED
    assert f"Ray's job {login.job} was stopped, and not from here" in said


def test_a_run_that_waits_for_nodes_says_why_and_is_stopped(login: RayLogin) -> None:
    login.script(SAVES)
    running = login.begin("--nodes", "2", "-n", "3", "--framework", "none", "train.py")

    until(lambda: "asks for 2 nodes with 3 CPUs each, and Ray has 0" in login.handle.run.queued, LIMIT)
    running.send_signal(signal.SIGINT)
    code, said = login.finish(running)

    assert code == 130, said
    assert login.handle.run.reason == "interrupted"


def test_a_token_that_ray_does_not_know_leaves_no_run(login: RayLogin) -> None:
    login.script(SAVES)

    code, said = login.run(*PLAIN, "train.py", RAY_AUTH_TOKEN="x" * 48)

    assert code == 1
    assert "does not accept the token" in said
    assert not RunStore(login.home).directories()


CELL = """
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
shell.run_line_magic("load_ext", "nbdist")
shell.run_cell_magic("distributed", "--on ray --nodes 2 -n 1 --no-panel --framework none",
                     "import os\\nprint('node', os.environ['GROUP_RANK'])")
import sys
assert "ray" not in sys.modules
"""


@pytest.mark.slow
def test_a_cell_runs_on_two_nodes(login: RayLogin) -> None:
    environment = login.environment | {"RAY_ADDRESS": login.ray.address}
    done = subprocess.run(
        [sys.executable, "-c", CELL], env=environment, cwd=login.folder, capture_output=True, text=True
    )

    assert done.returncode == 0, done.stderr
    assert ["[0] node 0" in done.stdout, "[1] node 1" in done.stdout] == [True, True], done.stderr
    spec = json.loads(login.handle.directory.spec.read_text())
    assert (spec["engine"], spec["nodes"]) == ("ray", 2)


def test_a_run_begins_again_when_a_node_dies(login: RayLogin) -> None:
    """The last one: Ray has lost a node afterwards."""
    login.script(SAVES)
    login.ray.start_node(2)
    login.run(*PLAIN, "-d", "--retries", "1", "train.py")
    login.until_ready()
    handle = login.handle
    taken = handle.directory.job_log.read_text().splitlines()[-1]
    lost = int(re.findall(r"127\.0\.0\.([2-9])", taken)[-1]) - 1

    login.ray.kill(lost)
    until(lambda: handle.run.attempt > 1 and handle.status == "running", LIMIT)

    login.finish(login.start("stop"))
    assert handle.status == "cancelled"
