"""Programs that misbehave, as cells, and functions that wait for them and count their remains."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable

from nbdist import processes, runner
from nbdist.model import ProcessId

SLEEP = "import time\nprint('ready')\ntime.sleep(600)"

STUBBORN = """
import signal, time
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
print("ready")
time.sleep(600)
"""

FAMILY = """
import os, signal, sys, time
here, there = os.pipe()

def member(*steps):
    \"\"\"A process that does the steps, says who it is, and stays.\"\"\"
    if os.fork() == 0:
        for step in steps[:-1]:
            step()
        os.write(1, b"pid %d\\n" % os.getpid())
        os.write(there, b".")
        if steps:
            steps[-1]()
        while True:
            time.sleep(600)
    os.read(here, 1)

def leave_the_parent():
    if os.fork():
        os._exit(0)

def deaf():
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)

def suspended():
    os.kill(os.getpid(), signal.SIGSTOP)

def without_an_environment():
    os.execve("/bin/sleep", ["sleep", "600"], {})

def without_files():
    os.closerange(0, 64)

member()
member(os.setsid, time.tzset)
member(leave_the_parent, os.setsid, leave_the_parent, time.tzset)
member(deaf, time.tzset)
member(suspended)
member(without_files)
member(leave_the_parent, os.setsid, leave_the_parent, without_an_environment)
print("ready")
"""
"""A rank that makes seven processes, each harder to find or to end than the other, and goes on."""

MEMBERS = 7

_PID = re.compile(r"^pid (\d+)$", re.MULTILINE)


def until(condition: Callable[[], object], limit: float = 20.0) -> None:
    """Wait for a condition; fail the test when it does not come."""
    deadline = time.monotonic() + limit
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


def until_ready(handle: runner.RunHandle, limit: float = 30.0) -> runner.RunHandle:
    """Wait until each rank has printed "ready"; return the run."""
    world_size = handle.run.spec.world_size
    with contextlib.suppress(AssertionError):
        until(lambda: all("ready" in handle.logs(rank) for rank in range(world_size)), limit)
        return handle
    raise AssertionError("\n".join(handle.logs(rank) for rank in range(world_size)))


def rank_states(handle: runner.RunHandle) -> list[str]:
    return [rank.state.value for rank in handle.run.ranks]


def ranks_of(handle: runner.RunHandle) -> list[ProcessId]:
    return [rank.process for rank in handle.run.ranks if rank.process is not None]


def family_of(handle: runner.RunHandle) -> list[ProcessId]:
    """Return every process of a run of FAMILY: its ranks, and those that they made, by their output."""
    text = "\n".join(handle.logs(rank) for rank in range(handle.run.spec.world_size))
    made = [processes.identify(int(pid)) for pid in _PID.findall(text)]
    return [*ranks_of(handle), *(process for process in made if process is not None)]


def left_of(handle: runner.RunHandle, known: list[ProcessId]) -> list[ProcessId]:
    """Return running processes: known ones, and those that carry the run's mark."""
    alive = [process for process in known if processes.alive(process)]
    marked = processes.marked("NBDIST_RUN_DIR", str(handle.directory.path))
    return list(dict.fromkeys([*alive, *marked]))
