"""The process that watches a run on Slurm is killed: the next one who waits for the run replaces it, and
shows how it really ended."""

from __future__ import annotations

import json
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest

from nbdist import processes
from nbdist.model import Run, RunState
from nbdist.store.control import request_interrupt
from nbdist.store.paths import write_private
from nbdist.store.run_store import snapshot
from nbdist.text import reason_text
from tests.engines.conftest import Login, until, watchers_of

pytestmark = pytest.mark.cluster

PLAIN = ("--nodes", "2", "-n", "1", "--framework", "none")

ENDS = """
import os, time
print("ready", flush=True)
while not os.path.exists("go"):
    time.sleep(0.02)
"""

FAILS = f"""{ENDS}
if os.environ["RANK"] == "1":
    raise ValueError("boom")
"""

EXITS = """
import sys, time
print("ready", flush=True)
try:
    time.sleep(600)
except KeyboardInterrupt:
    time.sleep(1)
    sys.exit(1)
"""


FOR_ONE_LIFE = """
import os, time
print("ready", flush=True)
if "attempt-" not in os.environ["NBDIST_RANK_DIR"]:
    time.sleep(600)
"""


def look(login: Login) -> Run:
    """Read how the only run stands, without replacing its watcher."""
    run = snapshot(login.handle.directory)
    assert run is not None
    return run


def reasons_of_failures(login: Login) -> list[str]:
    """Return the codes with which attempts of the only run have failed."""
    return [reason.code for reason in look(login).failures]


def until_ready(login: Login) -> None:
    directory = login.handle.directory
    logs = [directory.rank(rank).log for rank in range(2)]
    until(lambda: all(log.exists() and "ready" in log.read_text() for log in logs))
    until(lambda: all(rank.started for rank in look(login).ranks))


def kill_the_watcher(login: Login) -> None:
    watchers = watchers_of(look(login))
    processes.send_all(watchers, signal.SIGKILL)
    until(lambda: not any(map(processes.alive, watchers)))


@pytest.mark.parametrize(
    ("program", "code", "text"),
    [
        pytest.param(ENDS, 0, "Finished", id="succeeds"),
        pytest.param(FAILS, 1, "rank 1 failed first: ValueError at line 8", id="fails"),
    ],
)
def test_the_command_that_waits_shows_the_end(login: Login, program: str, code: int, text: str) -> None:
    login.script(program)
    running = login.begin(*PLAIN, "train.py")
    until_ready(login)

    kill_the_watcher(login)
    (login.folder / "go").touch()

    ended, shown = login.finish(running, 60)
    assert (ended, text in shown) == (code, True), shown


def test_the_cell_that_waits_shows_the_end(login: Login) -> None:
    notebook = login.notebook()
    pool = ThreadPoolExecutor(1)  # left alone: a cell that never ends does so with its kernel
    cell = f"%%distributed --on slurm {' '.join(PLAIN)} --no-panel\n{ENDS}\nprint('done')"
    shown = pool.submit(notebook.run, cell)
    until_ready(login)

    kill_the_watcher(login)
    (login.folder / "go").touch()

    assert "[1] done" in shown.result(60)
    assert look(login).state.value == "finished"


@pytest.mark.parametrize("collected", [True, False], ids=["gone", "zombie"])
def test_a_run_that_lost_its_owner_too_is_stopped_by_the_next_who_waits(
    login: Login, collected: bool
) -> None:
    login.script(EXITS)
    running = login.begin(*PLAIN, "train.py")
    until_ready(login)

    kill_the_watcher(login)
    running.kill()
    if collected:
        running.wait()
    login.finish(login.start("wait"))

    run = look(login)
    assert (run.state.value, reason_text(run.reason)) == ("stopped", "the process that started it ended")


def test_a_run_that_is_requeued_meanwhile_goes_on(login: Login) -> None:
    login.script(FOR_ONE_LIFE)
    running = login.begin(*PLAIN, "--retries", "1", "train.py")
    until_ready(login)
    job = look(login).job

    login.cluster.call("scontrol", "requeue", job)
    until(lambda: look(login).state is not RunState.RUNNING)
    kill_the_watcher(login)
    until(lambda: "PENDING" in login.jobs())
    login.cluster.call("scontrol", "update", f"jobid={job}", "StartTime=now+3seconds")

    code, shown = login.finish(running)
    assert code == 0, shown
    assert reasons_of_failures(login).count("requeued") == 1


def test_a_rank_is_interrupted_by_the_watcher_that_comes(login: Login) -> None:
    login.script(EXITS)
    running = login.begin(*PLAIN, "train.py")
    until_ready(login)

    kill_the_watcher(login)
    request_interrupt(login.handle.directory, 1)

    code, shown = login.finish(running, 60)
    assert (code, "rank 1 failed first" in shown) == (1, True), shown


def test_a_job_is_watched_from_its_own_cluster_alone(login: Login) -> None:
    login.script(ENDS)
    login.run(*PLAIN, "-d", "train.py")
    until_ready(login)
    job = login.handle.directory.job
    about = job.read_text()
    kill_the_watcher(login)

    write_private(job, json.dumps(json.loads(about) | {"cluster": "another"}))
    (login.folder / "go").touch()
    until(lambda: not login.jobs())
    login.finish(login.start("wait", "--timeout", "5s"))
    elsewhere = look(login).state
    write_private(job, about)
    login.finish(login.start("wait"))

    assert (elsewhere, look(login).state) == (RunState.RUNNING, RunState.FINISHED)


def test_a_watcher_outlives_the_process_above_it(login: Login) -> None:
    login.script(ENDS)
    running = login.begin(*PLAIN, "train.py")
    until_ready(login)
    above, watcher = watchers_of(look(login))

    processes.send(above, signal.SIGKILL)
    with pytest.raises(subprocess.TimeoutExpired):
        running.wait(1)  # it goes on
    (login.folder / "go").touch()

    assert login.finish(running, 60)[0] == 0
    assert look(login).supervisor == watcher
