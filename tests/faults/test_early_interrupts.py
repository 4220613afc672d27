"""The kernel is interrupted at any moment of a cell's first second: nothing of its run is left behind.

A round are 24 interrupts; NBDIST_FAULT_ROUNDS=42 makes a thousand.
"""

from __future__ import annotations

import contextlib
import os
import queue
import random
import signal
import threading
from pathlib import Path

import pytest

from nbdist import processes
from nbdist.model import RunState
from nbdist.store import RunDirectory, RunStore, snapshot
from tests.fakes.directories import WrittenRun
from tests.fakes.runs import STARTED, a_spec, exited, run_ended
from tests.magics.conftest import Kernel, Reply
from tests.programs import until

LONG = "%%distributed -n 2\nimport time\ntime.sleep(600)"
SHORT = "%%distributed -n 2\npass"
PAGES = [{}, {"cellId": "a1"}]
"""Metadata of a cell that gets text, and of one that gets a panel."""

TIMES = 6
DEAF = 6.0
"""Seconds after which a cell is interrupted again: between two cells a kernel ignores it."""


def interrupted(kernel: Kernel, after: float, *cells: str) -> Reply:
    """Run the cells in turn and interrupt ``after`` seconds behind the begin of the first; return the reply
    of the last that ran."""
    # as kernel.interrupt() does it, which makes an event loop in each thread
    group = os.getpgid(kernel.manager.provisioner.pid)
    timer = threading.Timer(after, os.killpg, (group, signal.SIGINT))
    for cell in cells:
        message = kernel.submit(cell, random.choice(PAGES))
        kernel.collect(message, until=lambda reply: reply.begun)
        if cell is cells[0]:
            timer.start()
        reply = until_the_end(kernel, message)
        if reply.status == "error":
            break
    timer.join()
    return reply


def until_the_end(kernel: Kernel, message: str) -> Reply:
    """Return a cell's reply; an empty one when the interrupt caught ipykernel on its way to the answer."""
    for limit in (DEAF, 20):
        with contextlib.suppress(queue.Empty):
            return kernel.collect(message, limit=limit)
        kernel.interrupt()
    return Reply()


def not_over(home: Path) -> list[RunDirectory]:
    runs = RunStore(home).directories()
    return [run for run in runs if (now := snapshot(run)) is not None and not now.state.terminal]


def write_old_runs(home: Path, count: int = 320) -> None:
    """Write more runs than are kept: cells remove the oldest while they start their own."""
    ended = (*STARTED, exited(0), exited(1), run_ended(RunState.FINISHED))
    for number in range(count):
        run_id = f"20260101-{number // 60:02d}{number % 60:02d}00-old-{number:04d}"
        WrittenRun(home, a_spec(run_id=run_id)).happened(*ended)


def reapers(home: Path) -> list[str]:
    """Return the command lines of the processes that keep runs: none has the mark of its ranks."""
    lines = []
    for process in processes.process_table():
        command = processes.read_at_once(f"/proc/{process.process.pid}/cmdline")
        if b"nbdist/launch" in command and bytes(home) in command:
            lines.append(command.decode(errors="replace"))
    return lines


@pytest.mark.parametrize("kind", ["cold", "warm", "again", "among old runs"])
@pytest.mark.timeout(600)
def test_an_interrupt_in_the_first_second_leaves_nothing(
    kernel: Kernel, leaves_nothing_in, kind: str
) -> None:
    if kind == "warm":
        kernel.run("from nbdist import runner\nrunner.warm_ranks.choose('always')")
    if kind == "among old runs":
        write_old_runs(kernel.home)
    cells = (SHORT, LONG) if kind == "again" else (LONG,)

    for _ in range(TIMES):
        after = random.random()
        reply = interrupted(kernel, after, *cells)

        if reply.status:
            assert reply.error.startswith(("RunStopped: ", "KeyboardInterrupt: ")), (after, reply)
            assert not_over(kernel.home) == [], (after, reply)
        until(lambda: not_over(kernel.home) == [])

    leaves_nothing_in(kernel.home)
    until(lambda: not reapers(kernel.home))
