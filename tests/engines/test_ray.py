"""Runs on a real Ray of two nodes: from the queue to the end, and all that may go wrong on the way."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from nbdist import processes
from nbdist.model import ProcessId, RunState
from nbdist.runner.handle import RunHandle
from nbdist.store import RunDirectory, RunStore
from nbdist.text import reason_text
from tests.engines.conftest import Login, running, until
from tests.engines.programs import SAVES
from tests.engines.ray_cluster import NoRay, RayCluster, ray

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
nbdist.result(total=total, rank=dist.get_rank())
where = [os.environ[name] for name in ("GROUP_RANK", "CUDA_VISIBLE_DEVICES")]
print("sum", total.item(), *where, os.nice(0), flush=True)
print(os.environ["API_KEY"], sorted(name for name in os.environ if name.startswith("RAY_")), flush=True)
"""


FAILS = """
import os, sys, time
rank = os.environ["RANK"]
if "attempt" not in os.environ["NBDIST_RANK_DIR"]:
    sys.exit(3) if rank == "1" else time.sleep(600)
print("meets", flush=True)
open(f"saw-{rank}", "w").close()
while not all(os.path.exists(f"saw-{each}") for each in range(2)):
    time.sleep(0.01)
if rank == "1":
    raise ValueError("boom")
time.sleep(600)
"""


class RayLogin(Login):
    """A machine that reaches Ray's dashboard, and sees the nodes' files."""

    def __init__(self, cluster: RayCluster, folder: Path) -> None:
        self.ray = cluster
        super().__init__(cluster, folder)  # type: ignore[arg-type]

    def detach(self, *words: str, **variables: str) -> subprocess.Popen[str]:
        """Start a detached run."""
        return self.begin(*words, "-d", "train.py", **variables)

    def ready(self, detached: subprocess.Popen[str]) -> RunHandle:
        """Return that run, once every rank has printed "ready"."""
        code, output = self.finish(detached)
        assert code == 0, output
        handle = RunHandle(RunDirectory(self.home / "runs" / output.split()[0]))
        until(lambda: all("ready" in handle.logs(rank.spec.rank) for rank in handle.run.ranks), LIMIT)
        return handle

    def supervisors_of(self, handle: RunHandle) -> list[ProcessId]:
        """Return the supervisors of all nodes, and the processes above them."""
        return running(f"/engines/node.py\0{handle.directory.path}\0")

    def begin(self, *words: str, **variables: str) -> subprocess.Popen[str]:
        return self.start("run", "--on", "ray", "--ray", self.ray.address, *words, **variables)

    def finish(self, process: subprocess.Popen[str], limit: float = LIMIT) -> tuple[int, str]:
        return super().finish(process, limit)

    def run(self, *words: str, limit: float = LIMIT, **variables: str) -> tuple[int, str]:
        return super().run(*words, limit=limit, **variables)

    def until_ready(self, limit: float = LIMIT) -> None:
        super().until_ready(limit)

    def over(self) -> bool:
        """Return whether no job is left on Ray."""
        return self.ray.headless or all(
            job["status"] not in ("PENDING", "RUNNING") for job in json.loads(self.ray.ask("/api/jobs/"))
        )


@pytest.fixture(scope="module")
def cluster() -> Iterator[RayCluster]:
    try:
        with ray(head_cpus=2, cpus=4) as up:
            yield up
    except NoRay as why:
        pytest.skip(f"NOT TESTED: {why}")


@pytest.fixture
def login(cluster: RayCluster, tmp_path: Path) -> Iterator[RayLogin]:
    machine = RayLogin(cluster, tmp_path)
    yield machine
    machine.close()
    until(lambda: not machine.left() and machine.over(), LIMIT)


def test_torch_trains_on_two_nodes_and_all_logs_are_here(login: RayLogin) -> None:
    login.script(TORCH, EVIL)

    words = ("--nodes", "2", "--gpus", "1", "--backend", "gloo", "--env", "API_KEY=s3cret", EVIL)
    code, output = login.run(*words)

    assert code == 0, output
    assert "[nbdist] queued: Ray has not started it yet" in output
    handle = login.handle
    lines = [handle.logs(rank).splitlines() for rank in range(2)]
    # Ray gives its own processes the lowest priority, and these that of this test; it chooses the GPU
    assert [each[0] for each in lines] == [f"sum 3.0 {rank} 0 {os.nice(0)}" for rank in range(2)]
    assert [each[1] for each in lines] == ["s3cret []"] * 2
    assert handle.metrics() == {"mean": 3.0}
    assert handle.results.gather("rank") == [0, 1]
    assert handle.results["total"].item() == 3.0
    assert {rank.state.value for rank in handle.run.ranks} == {"finished"}
    _nothing_is_told(login)


def _nothing_is_told(login: RayLogin) -> None:
    """Check that no file of the run has Ray's token, and the dashboard no secret of a rank."""
    logs = {str(login.handle.directory.rank(rank).log) for rank in range(2)}
    for path in login.home.rglob("*"):
        if path.is_file():
            assert login.ray.token.encode() not in path.read_bytes(), path
            assert b"s3cret" not in path.read_bytes() or str(path) in logs, path
    assert b"s3cret" not in login.ray.ask(f"/api/jobs/{login.job}")
    assert [path.name for path in login.folder.rglob("evil*")] == []


def test_a_rank_that_fails_ends_the_other_after_another_attempt(login: RayLogin) -> None:
    login.script(FAILS)

    code, output = login.run("--nodes", "2", "-n", "1", "--retries", "1", "train.py")

    assert code == 1
    assert "—— attempt 2 ——" in output
    assert "rank 1 failed first: ValueError at line" in output
    assert ["meets" in login.handle.logs(rank) for rank in range(2)] == [True, True]
    assert [rank.state.value for rank in login.handle.run.ranks] == ["stopped", "failed"]


def test_a_detached_run_outlives_its_notebook_and_is_seen_from_elsewhere(login: RayLogin) -> None:
    first, second = (login.notebook(RAY_ADDRESS=login.ray.address) for _ in range(2))
    first.run(f"%%distributed --on ray {' '.join(PLAIN)} --no-panel -d\n{SAVES}")
    login.until_ready()
    imported = first.run("import sys; print('ray' in sys.modules)")
    first.kill()

    stacks = second.run("%dist_stacks")
    following = login.start("attach")
    with ThreadPoolExecutor(1) as pool:
        attached = pool.submit(second.run, "%dist_attach")
        until(lambda: login.handle.run.state is RunState.RUNNING)
        login.finish(login.start("stop"))
        shown = attached.result(LIMIT)
    _, followed = login.finish(following)

    assert imported == "False\n"
    assert (login.handle.run.spec.engine, login.handle.run.spec.nodes) == ("ray", 2)
    assert "ranks 0, 1 are in time.sleep" in stacks
    assert "stopped by nbdist stop" in followed
    assert ["[0] ready" in shown, "[1] ready" in shown] == [True, True]
    # one SIGINT a rank, and none in the middle of what it does about that
    assert ["saved" in login.handle.logs(rank) for rank in range(2)] == [True, True]


def test_a_job_that_is_stopped_at_ray_says_so(login: RayLogin) -> None:
    login.script(SAVES)
    running = login.begin(*PLAIN, "train.py")
    login.until_ready()

    login.ray.ask(f"/api/jobs/{login.job}/stop", method="POST")
    output = login.finish(running)[1]

    assert login.handle.run.state is RunState.STOPPED
    assert f"Ray job {login.job} was stopped outside nbdist" in output


def test_a_run_that_waits_for_nodes_says_why_and_is_stopped(login: RayLogin) -> None:
    login.script(SAVES)
    running = login.begin("--nodes", "2", "-n", "5", "--framework", "none", "train.py")

    waits = "asks for 2 nodes with 5 CPUs each, and 0 of"
    until(lambda: waits in reason_text(login.handle.run.queued), LIMIT)
    running.send_signal(signal.SIGINT)
    code, output = login.finish(running)

    assert code == 130, output
    assert reason_text(login.handle.run.reason) == "interrupted"


def test_a_token_that_ray_does_not_know_leaves_no_run(login: RayLogin) -> None:
    login.script(SAVES)

    code, output = login.run(*PLAIN, "train.py", RAY_AUTH_TOKEN="x" * 48)

    assert code == 1
    assert "does not accept the token" in output
    assert not RunStore(login.home).directories()


def test_a_node_that_dies_ends_a_run_and_one_that_may_begins_again(login: RayLogin) -> None:
    """From here on Ray has lost a node."""
    login.script(SAVES)
    login.ray.start_node(2)
    login.ray.wait_for_nodes()
    starting = login.detach("--nodes", "3", "-n", "1", "--framework", "none")
    again = login.ready(login.detach(*PLAIN, "--retries", "1"))
    ended = login.ready(starting)
    (taken,) = re.findall("nbdist: starting on (.*)", again.directory.job_log.read_text())
    lost = int(re.findall(r"127\.0\.0\.([2-9])", taken)[-1]) - 1

    login.ray.kill(lost)
    assert ended.wait(LIMIT) == "failed"
    until(lambda: again.run.attempt > 1 and again.status == "running", LIMIT)
    login.finish(login.start("stop"))

    assert re.search(r"Ray lost the node \S+ of the run|node \d.* was lost", reason_text(ended.run.reason)), (
        reason_text(ended.run.reason)
    )
    assert {rank.state.terminal for rank in ended.run.ranks} == {True}
    assert again.status == "stopped"


def test_runs_whose_head_is_gone_for_good_end_and_leave_nothing(login: RayLogin) -> None:
    """The last one: Ray has no head afterwards."""
    login.script(SAVES)
    starting = login.detach("--nodes", "1", "-n", "3", "--framework", "none")  # too much for the head
    silent = login.ready(login.detach(*PLAIN, NBDIST_ENGINE_SILENCE="8"))
    ended = login.ready(starting)
    stopped = login.supervisors_of(silent)
    watchers = [handle.run.supervisor for handle in (ended, silent)]

    for process in stopped:
        processes.send(process, signal.SIGSTOP)  # they say nothing more
    login.ray.kill(0)
    states = [ended.wait(LIMIT), silent.wait(LIMIT)]
    for process in stopped:
        processes.send(process, signal.SIGCONT)

    assert states == ["failed", "lost"]
    gone = f"no Ray answers at {login.ray.address}"
    assert f"the job's process on this node ended ({gone}" in reason_text(ended.run.reason)
    assert reason_text(silent.run.reason).startswith(gone)
    assert "and its nodes sent nothing" in reason_text(silent.run.reason)
    until(lambda: not any(watcher and processes.alive(watcher) for watcher in watchers), LIMIT)
    until(
        lambda: not login.left() and not login.supervisors_of(ended) and not login.supervisors_of(silent),
        LIMIT,
    )
