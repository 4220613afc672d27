"""Runs on a real Slurm of two nodes: from the queue to the end, and all that may go wrong on the way."""

from __future__ import annotations

import os
import signal

import pytest

from nbdist import processes
from nbdist.model import RunState
from nbdist.store import RunStore
from nbdist.text import reason_text
from tests.engines.conftest import Login, until
from tests.engines.programs import FAILS_ON_RANK_1, SAVES

pytestmark = pytest.mark.cluster

TWO = ("--nodes", "2", "-n", "1")
PLAIN = (*TWO, "--framework", "none")

TORCH = """
import os, nbdist, torch, torch.distributed as dist
dist.init_process_group("gloo")
total = torch.tensor([dist.get_rank() + 1.0])
dist.all_reduce(total)
nbdist.log(step=1, mean=total.item())
nbdist.result(total=total, rank=dist.get_rank())
names = ["RANK", "LOCAL_RANK", "GROUP_RANK", "WORLD_SIZE"]
names += ["SLURMD_NODENAME", "SLURM_PROCID", "NBDIST_LINK_KEY"]
print("sum", total.item(), *[os.environ.get(name) for name in names], flush=True)
"""

SLEEP = """
import time
print("ready", flush=True)
time.sleep(600)
"""

WHERE = """
import os
print(os.environ["CUDA_VISIBLE_DEVICES"], os.environ["LOCAL_RANK"], os.environ["FLAGS_selected_gpus"])
"""


def test_torch_trains_on_two_nodes_and_all_logs_are_here(login: Login) -> None:
    login.script(TORCH)

    code, output = login.run("--nodes", "2", "-n", "2", "train.py")

    assert code == 0, output
    assert "[nbdist] queued: " in output
    handle = login.handle
    # gloo may abort when it is torn down, and says much then
    lines = [handle.logs(rank).splitlines()[0].split() for rank in range(4)]
    assert [line[:2] for line in lines] == [["sum", "10.0"]] * 4
    assert [line[2:6] for line in lines] == [[str(r), str(r % 2), str(r // 2), "4"] for r in range(4)]
    assert [line[6] for line in lines] == ["n1", "n1", "n2", "n2"]
    # Slurm is not to be taken for the launcher, and the key of the supervisors is nobody's business
    assert [line[7:] for line in lines] == [["None", "None"]] * 4
    assert handle.metrics() == {"mean": 10.0}
    assert handle.results.gather("rank") == [0, 1, 2, 3]
    assert handle.results["total"].item() == 10.0
    assert {rank.state.value for rank in handle.run.ranks} == {"finished"}


def test_each_rank_has_a_gpu_of_those_that_slurm_gave(login: Login) -> None:
    login.script(WHERE)

    code, output = login.run("--gpus", "2", "--framework", "none", "train.py")

    assert code == 0, output
    assert [login.handle.logs(rank).split() for rank in range(2)] == [["0,1", "0", "0"], ["0,1", "1", "1"]]


def test_a_job_of_its_own_starts_from_within_a_job(login: Login) -> None:
    login.script("import os; print(os.environ['SLURM_JOB_ID'], os.environ['SLURM_JOB_NUM_NODES'])")
    inside = ("srun", "-N1", "-n1", "--job-name=outer")

    outer = login.start("run", "--slurm", "comment=inner", *PLAIN, "train.py", before=inside)
    code, output = login.finish(outer)

    assert code == 0, output
    job, nodes = login.handle.logs(1).split()
    assert (job, nodes) == (login.job, "2")


def test_a_rank_that_fails_ends_the_others_on_all_nodes(login: Login) -> None:
    login.script(FAILS_ON_RANK_1)

    code, output = login.run(*PLAIN, "train.py")

    assert code == 1
    assert "rank 1 failed first: ValueError at line 5 of train.py" in output
    assert [rank.state.value for rank in login.handle.run.ranks] == ["stopped", "failed"]


def test_a_run_that_is_stopped_may_save_its_work(login: Login) -> None:
    login.script(SAVES)
    running = login.begin(*PLAIN, "train.py")
    login.until_ready()

    running.send_signal(signal.SIGINT)
    code, output = login.finish(running)

    assert code == 130
    assert "interrupted" in output
    assert login.handle.run.state is RunState.STOPPED
    # one SIGINT a rank, and none in the middle of what it does about that
    assert ["saved" in login.handle.logs(rank) for rank in range(2)] == [True, True]


def test_a_run_waits_for_what_another_one_has_and_says_so(login: Login) -> None:
    login.script("print('done')")
    login.cluster.call("sbatch", "--exclusive", "-N2", "--output=/dev/null", "--wrap", "sleep 600")
    until(lambda: "RUNNING" in login.jobs())
    running = login.begin(*PLAIN, "train.py")

    until(
        lambda: reason_text(login.handle.run.queued).startswith("next in the queue, waiting for free nodes")
    )
    assert login.handle.status == "pending"
    login.cluster.call("scancel", "--state=RUNNING", "--user", str(os.getuid()))
    code, output = login.finish(running)

    assert code == 0, output
    assert "queued: next in the queue" in output


def test_a_run_that_waits_in_the_queue_is_stopped(login: Login) -> None:
    login.script(SLEEP)
    running = login.begin(*PLAIN, "--slurm", "partition=closed", "train.py")
    until(lambda: "partition closed is down" in reason_text(login.handle.run.queued))

    running.send_signal(signal.SIGINT)
    code, output = login.finish(running)

    assert code == 130, output
    assert reason_text(login.handle.run.reason) == "interrupted"


def test_a_run_that_slurm_can_never_start_ends_and_says_why(login: Login) -> None:
    login.script(SLEEP)

    code, output = login.run("--nodes", "3", "-n", "1", "--framework", "none", "train.py")

    assert code == 1
    assert "slurm cannot run it: it asks for 3 nodes, and partition main has 2" in output


def test_a_job_that_is_refused_leaves_no_run(login: Login) -> None:
    login.script(SLEEP)

    code, output = login.run(*PLAIN, "--slurm", "partition=nope", "train.py")

    assert code == 1
    assert "Slurm refused the job: invalid partition specified: nope" in output
    assert "there are closed, main" in output
    assert not RunStore(login.home).directories()


def test_a_job_that_the_administrator_cancels_says_so(login: Login) -> None:
    login.script(SLEEP)
    running = login.begin(*PLAIN, "train.py")
    login.until_ready()

    login.cluster.call("scancel", login.job)
    output = login.finish(running)[1]

    assert login.handle.run.state is RunState.STOPPED
    assert f"Slurm job {login.job} was stopped outside nbdist" in output


def test_a_job_that_is_put_into_the_queue_again_begins_another_attempt(login: Login) -> None:
    login.script(SLEEP)
    login.run(*PLAIN, "-d", "--retries", "1", "train.py")
    login.until_ready()
    job = login.job

    login.cluster.call("scontrol", "requeue", job)
    until(lambda: login.handle.status == "pending")
    # Slurm lets it wait for two minutes; begun anew within the second of its end it is refused by its nodes
    until(lambda: "PENDING" in login.jobs())
    login.cluster.call("scontrol", "update", f"jobid={job}", "StartTime=now+3seconds")
    until(lambda: login.handle.status == "running")

    run = login.handle.run
    assert run.attempt > 1
    assert "ready" in (login.handle.directory.rank(1, 1).log).read_text()
    login.finish(login.start("stop"))
    assert login.handle.status == "stopped"


def test_a_node_that_dies_ends_the_run_on_the_others(breakable: Login) -> None:
    breakable.script(SLEEP)
    running = breakable.begin(*PLAIN, "train.py")
    breakable.until_ready()
    child, parent = sorted(breakable.supervisors(1), key=lambda process: -process.pid)

    # it says nothing more, as a machine without power
    processes.send(parent, signal.SIGSTOP)
    breakable.cluster.kill("n2")
    processes.send(child, signal.SIGKILL)
    processes.send(parent, signal.SIGKILL)
    code, output = breakable.finish(running)

    assert code == 1
    assert "node 1 (127.0.0.1) was lost" in output


def test_a_run_outlives_the_controller(breakable: Login) -> None:
    breakable.script("import time; print('ready', flush=True); time.sleep(3)")
    running = breakable.begin(*PLAIN, "train.py")
    breakable.until_ready()

    breakable.cluster.kill("slurmctld")
    code, output = breakable.finish(running)

    assert code == 0, output


def test_a_run_whose_slurm_is_gone_for_good_is_given_up(breakable: Login) -> None:
    breakable.script(SLEEP)
    breakable.run(*PLAIN, "-d", "train.py", NBDIST_ENGINE_SILENCE="3")
    breakable.until_ready()
    watcher = breakable.handle.run.supervisor
    assert watcher is not None
    nodes = [process for node in range(2) for process in breakable.supervisors(node)]
    with open(breakable.cluster.configuration, "a") as file:
        file.write("MessageTimeout=3\n")  # how long a command tries to reach the controller

    # all at once, as when the power goes
    for process in nodes:
        processes.send(process, signal.SIGSTOP)
    for name in ("slurmctld", "n1", "n2"):
        breakable.cluster.kill(name)
    for process in nodes:
        processes.send(process, signal.SIGKILL)
    until(lambda: breakable.handle.run.state is RunState.LOST, limit=90)

    assert "does not answer, and its nodes sent nothing" in reason_text(breakable.handle.run.reason)
    until(lambda: not processes.alive(watcher), limit=90)


def test_a_run_ends_with_the_process_that_waits_for_it(login: Login) -> None:
    login.script(SLEEP)
    running = login.begin(*PLAIN, "train.py")
    login.until_ready()

    running.kill()
    running.wait()

    assert login.handle.wait(90) == "stopped"
    assert reason_text(login.handle.run.reason) == "the process that started it ended"


def test_no_value_reaches_a_shell(login: Login) -> None:
    login.script("print('done')", "a $(touch evil); b.py")
    evil = "comment=$(touch evil);touch evil `touch evil` 'a' \"b\""

    code, output = login.run(*PLAIN, "--slurm", evil, "a $(touch evil); b.py")

    assert code == 0, output
    assert [path.name for path in login.folder.rglob("evil*")] == []


def test_the_nodes_get_the_names_of_the_notebook(login: Login) -> None:
    notebook = login.notebook()
    notebook.run("import numpy as np\na = np.arange(10_000)\ndef double(x): return 2 * x")

    line = f"%%distributed --on slurm {' '.join(PLAIN)} --no-panel --retries 1 --push a,double"
    second = "import os; assert 'attempt-2' in os.environ['NBDIST_RANK_DIR']"
    output = notebook.run(f"{line}\n{second}\nprint('got', double(a).sum())")

    assert "[0] got 99990000" in output, output
    assert "[1] got 99990000" in output
    assert login.handle.run.attempt == 2
    assert not login.handle.directory.inputs.exists()
