"""The supervisor is killed, or its reaper, or both: the run reads LOST and nothing of it is left."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import nbdist
from nbdist import control_groups, options, processes, runner
from nbdist.launch import local
from nbdist.model import ProcessId, RankStarted
from nbdist.store import RunDirectory
from nbdist.text import reason_text
from nbdist.warm.pool import Standby
from tests.fakes.directories import WrittenRun
from tests.fakes.runs import a_spec, attempt_started, supervisor_started
from tests.programs import (
    FAMILY,
    MEMBERS,
    SLEEP,
    STUBBORN,
    family_of,
    left_of,
    rank_states,
    ranks_of,
    until,
    until_ready,
)

pytestmark = pytest.mark.usefixtures("leaves_nothing")

WAITS = f"{FAMILY}\ntime.sleep(600)"

Kill = Callable[[local.SupervisorProcess], None]


@pytest.fixture
def make_plan(home: Path, tmp_path: Path) -> Callable[[str], runner.Plan]:
    """Return a function that plans a cell without an end."""
    return lambda line: runner.plan(options.parse(line), cell=SLEEP, cwd=str(tmp_path), python_path=sys.path)


def reaper_of(handle: runner.RunHandle) -> int:
    stat = processes.read_stat(handle.run.supervisor.pid)
    assert stat is not None
    return stat.parent


def kill_the_supervisor(handle: runner.RunHandle) -> None:
    os.kill(handle.run.supervisor.pid, signal.SIGKILL)


def kill_both(handle: runner.RunHandle) -> None:
    """Kill both at one moment, as a person who kills everything with nbdist in its name."""
    supervisor, reaper = handle.run.supervisor.pid, reaper_of(handle)
    # what is suspended cannot act between the two
    os.kill(supervisor, signal.SIGSTOP)
    os.kill(reaper, signal.SIGSTOP)
    os.kill(reaper, signal.SIGKILL)
    os.kill(supervisor, signal.SIGKILL)


def test_a_killed_supervisor_leaves_nothing_and_the_run_says_so(start_cell) -> None:
    handle = until_ready(start_cell("-n 2", WAITS))
    family = family_of(handle)
    supervisor = handle.run.supervisor.pid
    assert len(family) == 2 * (1 + MEMBERS)

    kill_the_supervisor(handle)

    # by the reaper, and not by this test's own look at the run
    until(lambda: left_of(handle, family) == [], limit=10)
    until(lambda: b"RunLost" in handle.directory.journal.read_bytes(), limit=10)
    run = handle.run
    assert (run.state.value, reason_text(run.reason)) == (
        "lost",
        f"its supervisor (pid {supervisor}) was killed by SIGKILL",
    )
    assert rank_states(handle) == ["lost", "lost"]
    assert run.leftover >= 2 * MEMBERS


def test_a_supervisor_that_is_killed_while_it_starts_its_ranks_leaves_nothing(start_cell) -> None:
    handle = start_cell("-n 8", SLEEP)
    until(lambda: handle.run.supervisor)

    kill_the_supervisor(handle)

    assert handle.wait(10) == "lost"
    until(lambda: left_of(handle, []) == [], limit=10)


def test_ranks_die_with_their_supervisor_within_a_second(start_cell) -> None:
    handle = until_ready(start_cell("-n 4", STUBBORN))
    ranks = ranks_of(handle)

    kill_the_supervisor(handle)

    until(lambda: not any(processes.alive(rank) for rank in ranks), limit=5)
    assert handle.wait(5) == "lost"


def test_a_run_whose_reaper_is_killed_is_stopped_by_its_supervisor(start_cell) -> None:
    handle = until_ready(start_cell("-n 2", WAITS))
    family = family_of(handle)

    os.kill(reaper_of(handle), signal.SIGKILL)

    assert handle.wait(15) == "stopped"
    assert left_of(handle, family) == []
    assert handle.run.leftover == 2 * MEMBERS


@pytest.mark.parametrize(
    ("word", "reason"),
    [("kill -9 $$", "was killed by SIGKILL"), ("exit 3", "failed (3)")],
    ids=["killed", "failed"],
)
def test_a_reaper_that_ends_before_its_first_line_is_known_at_once(
    make_plan, tmp_path: Path, word: str, reason: str
) -> None:
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\n{word}\n")
    python.chmod(0o755)
    plan = make_plan("-n 2")

    handle = runner.start(dataclasses.replace(plan, spec=dataclasses.replace(plan.spec, python=str(python))))

    assert handle.wait(10) == "lost"
    assert re.fullmatch(rf"its supervisor \(pid \d+\) {re.escape(reason)}", reason_text(handle.run.reason))
    # it is written down for whoever reads the files
    assert handle.directory.journal.read_bytes().count(b"RunLost") == 1


def start_cold(plan: runner.Plan, kill: Kill) -> RunDirectory:
    directory = runner.store().create(plan.spec, plan.cell)
    kill(local.submit(directory, plan.environment, plan.spec.python, detached=False))
    return directory


def start_ahead(plan: runner.Plan, kill: Kill) -> RunDirectory:
    directory = runner.store().create(plan.spec, plan.cell)
    with contextlib.ExitStack() as opened:
        ahead = local.hand_over(opened, directory, plan.spec, plan.environment)
        kill(local.submit(directory, plan.environment, plan.spec.python, detached=False, ahead=ahead))
    return directory


def start_warm(plan: runner.Plan, kill: Kill) -> RunDirectory | None:
    """Start a run by waiting ranks; return None where they end before they get it."""
    standby = Standby(plan, idle=60)
    assert standby.wait_until_ready(30)
    directory = runner.store().create(plan.spec, plan.cell)
    kill(standby.supervisor)
    if standby.go(directory, plan.environment):
        standby.close()
        return None
    local.look_after(standby.supervisor, directory)
    return directory


@pytest.mark.parametrize("start", [start_cold, start_ahead, start_warm])
def test_a_reaper_that_is_killed_at_an_early_moment_leaves_neither_ranks_nor_a_run_that_never_ends(
    make_plan, start: Callable[[runner.Plan, Kill], RunDirectory | None]
) -> None:
    for _ in range(8):
        after = random.random() * (0.03 if start is start_warm else 0.15)

        def kill(submitted: local.SupervisorProcess, after: float = after) -> None:
            threading.Timer(after, submitted.process.kill).start()

        directory = start(make_plan("-n 2"), kill)

        if directory is not None:
            handle = runner.RunHandle(directory)
            assert handle.wait(15) in ("lost", "stopped"), after
            until(lambda handle=handle: left_of(handle, []) == [], limit=10)


def test_whoever_looks_next_ends_what_is_left_when_reaper_and_supervisor_are_killed(start_owner) -> None:
    owner = start_owner("-n 2 -d", WAITS)
    handle = owner.handle
    until_ready(handle)
    # the process that started it would know at once
    owner.kill()
    ranks = ranks_of(handle)
    family = [process for process in family_of(handle) if process not in ranks and can_be_found(process)]
    assert len(family) == 2 * (MEMBERS if in_group() else MEMBERS - 1)

    kill_both(handle)
    until(lambda: not any(processes.alive(rank) for rank in ranks), limit=10)
    run = nbdist.attach(handle.run_id).run

    assert run.state.value == "lost"
    assert "disappeared" in reason_text(run.reason)
    assert left_of(handle, family) == []
    assert run.leftover == len(family)
    # what was done is written down, and is not done again
    assert handle.directory.journal.read_bytes().count(b"RunLost") == 1
    assert nbdist.attach(handle.run_id).run.leftover == run.leftover
    end_those_without_a_mark(handle)


def can_be_found(process: ProcessId) -> bool:
    """Return whether an orphan can still be traced to its run, by its environment or its control group."""
    return in_group() or bool(Path(f"/proc/{process.pid}/environ").read_bytes())


def in_group() -> bool:
    """Return whether this machine lets a run have a control group."""
    return control_groups.problem() == ""


def end_those_without_a_mark(handle: runner.RunHandle) -> None:
    processes.send_all(family_of(handle), signal.SIGKILL)


def test_many_who_look_at_once_write_the_end_down_once(start_cell) -> None:
    handle = until_ready(start_cell("-n 2", SLEEP))
    kill_both(handle)
    until(lambda: not any(processes.alive(rank) for rank in ranks_of(handle)), limit=10)

    script = "import nbdist, sys; print(nbdist.attach(sys.argv[1]).run.state.value)"
    lookers = [
        subprocess.Popen([sys.executable, "-c", script, handle.run_id], stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]

    assert [looker.communicate(timeout=30)[0].strip() for looker in lookers] == ["lost"] * 4
    assert handle.directory.journal.read_bytes().count(b"RunLost") == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
@pytest.mark.parametrize("whom", ["supervisor", "reaper"])
def test_a_supervisor_that_is_told_to_end_stops_its_run(
    start_cell, whom: str, number: signal.Signals
) -> None:
    handle = until_ready(start_cell("-n 1", SLEEP))

    os.kill(handle.run.supervisor.pid if whom == "supervisor" else reaper_of(handle), number)

    assert handle.wait(15) == "stopped"
    assert reason_text(handle.run.reason) == f"the supervisor got {number.name}"


@pytest.fixture
def stranger() -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Start a process that has nothing to do with a run, whatever it looks like."""
    started: list[subprocess.Popen[bytes]] = []

    def start(*words: str) -> subprocess.Popen[bytes]:
        started.append(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", *words]))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()


def test_a_process_that_merely_has_the_pid_of_a_rank_is_left_alone(home: Path, stranger) -> None:
    now = time.time()
    looks_like_a_rank = stranger("nbdist/worker/__main__.py", "20261120-141503-lenet-k3f9", "0")
    known = processes.identify(looks_like_a_rank.pid)
    earlier = ProcessId(pid=known.pid, start_time=known.start_time - 1, boot_id=known.boot_id)
    written = WrittenRun(home, a_spec(ranks=1, created=now)).happened(
        supervisor_started(earlier, host=os.uname().nodename, time=now),
        attempt_started(time=now),
        RankStarted(
            time=now, rank=0, pid=earlier.pid, start_time=earlier.start_time, boot_id=earlier.boot_id
        ),
    )

    run = nbdist.attach(written.directory.run_id).run

    assert (run.state.value, run.leftover) == ("lost", 0)
    assert processes.alive(known)


def test_a_killed_supervisor_of_one_run_harms_no_other(start_cell) -> None:
    other = start_cell("-n 2", WAITS)
    handle = start_cell("-n 2", WAITS)
    until_ready(other)
    until_ready(handle)
    family = family_of(other)

    kill_the_supervisor(handle)

    assert handle.wait(10) == "lost"
    assert all(processes.alive(process) for process in family)
    assert other.status == "running"
