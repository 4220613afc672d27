"""``nbdist alloc``: nodes that are kept, asked for in a terminal."""

from __future__ import annotations

import json
import os
import signal
import time
from dataclasses import replace
from pathlib import Path

import pytest

from nbdist import processes
from nbdist.store.allocations import Allocation, make_allocation
from tests.cli.conftest import Shell
from tests.fakes.slurm_commands import SlurmCommands

TWO = ("alloc", "--nodes", "2", "-n", "1")
WAITS = "allocation 7: 2 nodes of 1 CPU rank, waits in the queue: jobs of higher priority come first"


@pytest.fixture
def slurm(shell: Shell, tmp_path: Path) -> SlurmCommands:
    commands = SlurmCommands(tmp_path / "slurm")
    path = os.pathsep.join([str(commands.folder), os.environ.get("PATH", os.defpath)])
    shell.environment = dict(shell.environment) | {"PATH": path}
    return commands


def of_a_notebook(shell: Shell, job: str = "9") -> None:
    """An allocation that belongs to another process."""
    about = Allocation(
        engine="slurm", nodes=1, per_node=2, gpus=True, idle=60.0, python="python3", created=time.time()
    )
    owner = processes.identify(os.getpid())
    make_allocation(shell.home, "theirs", replace(about, owner=owner)).put_job(job, {})


def test_without_slurm_it_is_said_where_that_is(shell: Shell) -> None:
    shell.environment = dict(shell.environment) | {"PATH": str(shell.folder)}

    done = shell.run(*TWO)

    assert done.returncode == 1
    assert "no sbatch here: Slurm's commands belong into PATH" in done.stderr
    assert json.loads(shell.run("alloc", "--json").stdout) == []


def test_where_nothing_is_kept_it_is_said_how_to_ask(shell: Shell) -> None:
    there, off = shell.run("alloc"), shell.run("alloc", "off")

    assert (there.returncode, there.stdout, off.returncode) == (0, "", 0)
    assert "no nodes are kept: nbdist alloc --nodes 2 -n 1" in there.stderr
    assert "there is no allocation to release" in off.stderr


def test_nodes_outlive_the_terminal_until_they_are_given_back(shell: Shell, slurm: SlurmCommands) -> None:
    asked = shell.run(*TWO, "--keep", "--wait", "1s")
    again = shell.run(*TWO)
    there = shell.run("alloc")
    status = shell.run("status")
    (view,) = json.loads(shell.run("alloc", "--json").stdout)
    runs = json.loads(shell.run("status", "--json").stdout)
    off = shell.run("alloc", "off")

    assert asked.returncode == 0, asked.stderr
    assert "allocation 7 is still in the queue: nbdist alloc shows it" in asked.stderr
    assert there.stdout == f"{WAITS}; released after 15 min without a run\n"
    assert there.stdout in asked.stdout
    assert status.stdout.endswith(there.stdout)
    assert (again.returncode, "give it back with  nbdist alloc off" in again.stderr) == (2, True)
    assert (view["allocation"], view["state"], view["kept"], view["nodes"]) == ("7", "waiting", True, 2)
    assert runs == []
    assert off.stdout == "allocation 7 is released: 2 nodes given back\n"
    assert not slurm.has_job
    assert "no nodes are kept" in shell.run("alloc").stderr


def test_nodes_that_slurm_has_given_are_shown_with_their_time(shell: Shell, slurm: SlurmCommands) -> None:
    shell.run(*TWO, "--wait", "1s")

    slurm.let("RUNNING|None|n[1-2]|0:00|main|2")
    (view,) = json.loads(shell.run("alloc", "--json").stdout)

    assert (view["state"], view["hosts"], view["left"]) == ("starting", "n[1-2]", "1:00:00")
    assert "(n[1-2]) since 2026-01-02 03:04:05, time left 1:00:00; its nodes are getting" in view["text"]


def test_ctrl_c_ends_the_wait_and_not_the_allocation(shell: Shell, slurm: SlurmCommands) -> None:
    waiting = shell.start(*TWO, "--wait", "10m")
    assert waiting.stderr is not None
    while "waits in the queue" not in waiting.stderr.readline():
        assert waiting.poll() is None

    waiting.send_signal(signal.SIGINT)
    done = shell.finish(waiting)

    assert done.returncode == 130
    assert "nbdist alloc off gives it up" in done.stderr
    assert "%" not in done.stderr
    assert slurm.has_job


def test_those_of_a_notebook_are_shown_and_end_by_their_number_alone(
    shell: Shell, slurm: SlurmCommands
) -> None:
    of_a_notebook(shell)
    slurm.let("PENDING|Priority||0:00|main|1")

    there = shell.run("alloc")
    off = shell.run("alloc", "off")
    kept = slurm.has_job
    by_number = shell.run("alloc", "off", "9")

    assert there.stdout.rstrip().endswith("released after 60 s without a run, of a notebook")
    assert (off.stdout, kept) == ("", True)
    assert "allocation 9 is another notebook's, and ends with it: nbdist alloc off 9  ends it" in off.stderr
    assert by_number.stdout == "allocation 9 is released: 1 node given back\n"
    assert not slurm.has_job
