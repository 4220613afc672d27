"""Ranks that hang, each in its own way: their report meanwhile, and that asking does not disturb them.
NBDIST_DIAGNOSIS=all runs every recorded stall, NBDIST_DIAGNOSIS=record also records it."""

from __future__ import annotations

import os
import signal
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest

from nbdist import runner
from nbdist.diagnosis.stack_text import behind_text, sentence
from nbdist.diagnosis.stacks import StackReport, last_stacks, take_stacks
from nbdist.feed.view import RunView
from nbdist.panel import StatusReader, status_text
from nbdist.store import snapshot
from nbdist.store.control import request_interrupt
from nbdist.text import reason_text
from tests.conftest import RunCell
from tests.diagnosis.recordings import laid_out, program_of, record
from tests.programs import ranks_of, until, until_ready

pytestmark = [
    pytest.mark.usefixtures("leaves_nothing"),
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc"),
]

TORCH = """
import time, torch, torch.distributed as dist
dist.init_process_group()
rank, tensor = dist.get_rank(), torch.ones(4)
dist.all_reduce(tensor)
print("ready")
"""

NATIVE = """
import ctypes, threading
libc = ctypes.CDLL(None)
print("ready")
if __import__("os").environ["RANK"] == "1":
    print("slept", libc.sleep(600))
threading.Event().wait()
"""
OF_NATIVE = (
    "rank 0 is in wait at line 7; rank 1 is in libc.sleep at line 6",
    "cause: rank 0 at line 7: wait waits for something that no thread, process or rank provides,"
    " no other thread of the program is running",
)

STALLS = {
    "torch_sleeps": (
        "rank 1 is in time.sleep at line 9; rank 0 waits in all_reduce #2 at line 13",
        "rank 1 has begun 1 collective, rank 0 waits in number 2",
    ),
    "torch_lock_held_in_backward": (
        "rank 1 is in lock.acquire at line 14; rank 0 waits in all_reduce #5 in backward at line 15",
        "rank 1 has begun 4 collectives, rank 0 waits in number 5",
    ),
    "torch_loader_worker_sleeps": (
        "rank 0 waits for its DataLoader at line 18; rank 1 waits in all_reduce #5 at line 19",
        ": its DataLoader returns no batch, other threads or workers are at line 15\n",
    ),
    "torch_other_collective": (
        "rank 0 waits in barrier #2 at line 9; rank 1 waits in all_reduce #2 at line 11",
        "cause: rank 0 alone entered  if rank == 0:  (line 8) and called barrier",
    ),
    "torch_one_call_more": (
        "rank 0 waits in all_reduce #9 at line 9; rank 1 waits in barrier #9 at line 15",
        "cause: rank 0 alone entered  if rank == 0 and step == 1:  (line 12) and called all_reduce",
    ),
    "torch_exception_in_finally": (
        "rank 0 waits in all_reduce #2 at line 11; rank 1 waits in barrier #2 at line 13,"
        " handling KeyError: 'epoch' from line 10",
        "cause: rank 1 raised KeyError: 'epoch' and waits in barrier while handling it, which the"
        " other ranks do not call",
    ),
    "paddle_sleeps": (
        "rank 0 is in time.sleep at line 8; rank 1 waits in all_reduce at line 9",
        "cause: rank 0 at line 8: time.sleep has not returned, which blocks rank 1",
    ),
    "paddle_loader_worker_sleeps": (
        "rank 0 waits for its DataLoader at line 19; rank 1 waits in all_reduce at line 20",
        ": its DataLoader returns no batch, other threads or workers are at line 16\n",
    ),
}
"""Recorded runs that hang: who waits for whom, and a line that says why."""

RECORDED = Path(__file__).parent / "recorded_stalls"
ASKED = os.environ.get("NBDIST_DIAGNOSIS", "")
LIVE = list(STALLS) if ASKED else ["torch_loader_worker_sleeps", "torch_one_call_more", "paddle_sleeps"]
"""Those that always run: one with a worker, one by what the ranks have called, one of paddle."""


def until_stalled(handle: runner.RunHandle, limit: float = 100.0) -> StackReport:
    """Wait until the run has stalled; return the stacks."""
    until(lambda: handle.run.stalled is not None or handle.run.state.terminal, limit)
    report = last_stacks(handle.run, handle.directory)
    assert report is not None, handle.logs(0)
    return report


@pytest.mark.parametrize("name", STALLS)
def test_who_waits_for_whom_is_said_of_a_recorded_run(name: str, tmp_path: Path) -> None:
    directory = laid_out(name, tmp_path / "home" / "runs", RECORDED)
    run = snapshot(directory)
    assert run is not None

    report = last_stacks(run, directory)

    assert report is not None
    assert_says(report, STALLS[name])


def assert_says(report: StackReport, words: tuple[str, str]) -> None:
    who, why = words
    assert sentence(report) == who
    assert why in f"{behind_text(report)}\n"


@pytest.mark.parametrize("name", [*LIVE, "native code"])
def test_who_waits_for_whom_is_said_while_it_hangs(start_cell: RunCell, name: str) -> None:
    framework = name.partition("_")[0]
    if name in STALLS and find_spec(framework) is None:
        pytest.skip(f"{framework} is not installed")
    cell, words = (program_of(name, RECORDED), STALLS[name]) if name in STALLS else (NATIVE, OF_NATIVE)
    handle = start_cell("-n 2 --hang-after 2s", cell)
    report = until_stalled(handle)

    if ASKED == "record" and name in STALLS:
        record(name, handle.directory, RECORDED)
    assert_says(report, words)
    assert handle.status == "running"

    again = take_stacks(handle.directory)
    assert sentence(again) == words[0]
    assert handle.run.stalled is not None
    assert "slept" not in handle.logs(1)


def test_a_run_that_hangs_shows_it_and_can_go_on(start_cell: RunCell) -> None:
    cell = """
import sys, time
print("ready")
for step in range(3):
    time.sleep(9)
    print("step", step)
time.sleep(600)
"""
    handle = start_cell("-n 2 --hang-after 2s", cell)
    until_stalled(handle)
    (view,) = StatusReader([handle.directory]).look(handle.run.spec.created + 9)
    shown = status_text([view], "en")
    until(lambda: handle.run.stalled is None)

    assert "Stalled" in shown
    assert "ranks 0, 1 are in time.sleep at line 5" in shown


def test_a_rank_that_holds_the_others_up_can_be_interrupted(start_cell: RunCell) -> None:
    handle = until_ready(
        start_cell("-n 2 --hang-after 2s", "import os, time\nprint('ready')\ntime.sleep(600)")
    )

    request_interrupt(handle.directory, 1)

    assert handle.wait(15) == "failed"
    assert "KeyboardInterrupt" in handle.logs(1)
    assert "rank 1 failed" in reason_text(handle.run.reason)


@pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")
def test_the_rank_that_holds_the_others_up_at_each_step_is_named(start_cell: RunCell) -> None:
    waits = "dist.all_reduce(tensor)"
    # as on a GPU: the wait is not in the program, which looks busy
    goes_on_beside = "work = dist.all_reduce(tensor, async_op=True)\n    while not work.is_completed(): pass"
    cells = [
        TORCH
        + f"""
import nbdist
for step in range(100_000):
    if rank == 1:
        time.sleep(0.15)
    {exchange}
    nbdist.log(step=step, loss=1.0)
"""
        for exchange in (waits, goes_on_beside)
    ]
    handles = [start_cell("-n 2", cell) for cell in cells]
    seen: list[RunView] = []

    def named() -> bool:
        seen[:] = StatusReader([handle.directory for handle in handles]).look(time.time())
        return all(view.slow is not None for view in seen)

    until(named, 120)

    slow = [view.slow for view in seen]
    assert [(rank.rank, rank.factor > 1.2) for rank in slow if rank is not None] == [(1, True)] * 2
    assert status_text(seen, "en").count("rank 1 is the slowest") == 2


def test_a_rank_that_cannot_be_asked_is_named_and_left_alone(start_cell: RunCell) -> None:
    cell = """
import os, signal, time
if os.environ["RANK"] == "1":
    signal.signal(signal.SIGRTMIN + 7, signal.SIG_IGN)
print("ready")
time.sleep(600)
"""
    handle = until_ready(start_cell("-n 3", cell))
    stopped = ranks_of(handle)[2]
    os.kill(stopped.pid, signal.SIGSTOP)

    report = take_stacks(handle.directory)

    os.kill(stopped.pid, signal.SIGCONT)
    assert {group.ranks: group.problem for group in report.groups} == {
        (0,): "",
        (1,): "replaced",
        (2,): "stopped",
    }
    assert handle.status == "running"


def test_a_run_that_was_ended_at_its_time_limit_says_where_it_hung(run_cell: RunCell) -> None:
    handle = run_cell("-n 2 --timeout 6s --hang-after off", "import time\nprint('ready')\ntime.sleep(600)")

    report = take_stacks(handle.directory)
    assert sentence(report) == "ranks 0, 1 are in time.sleep at line 3"


HEALTHY = {
    "computes without a word": """
import time
end = time.time() + 7
while time.time() < end:
    sum(range(10_000))
""",
    "a compiler works for it": """
import subprocess, sys
subprocess.run([sys.executable, "-c", '''
import time
end = time.time() + 7
while time.time() < end: pass
'''])
""",
    "writes a file slowly": """
import os, time
with open("data", "wb", buffering=0) as file:
    for _ in range(14):
        file.write(bytes(100_000))
        time.sleep(0.5)
""",
    "logs": """
import time, nbdist
for step in range(14):
    nbdist.log(step=step, loss=1.0)
    time.sleep(0.5)
""",
    "prints": """
import time
for step in range(14):
    print(step)
    time.sleep(0.5)
""",
}


def test_ranks_that_work_have_not_stalled(start_cell: RunCell) -> None:
    handles = {name: start_cell("-n 1 --hang-after 2s", cell) for name, cell in HEALTHY.items()}

    assert {name: handle.wait(60) for name, handle in handles.items()} == dict.fromkeys(HEALTHY, "finished")
    stalled = [name for name, handle in handles.items() if "Stalled" in handle.directory.journal.read_text()]
    assert stalled == []


def test_a_rank_that_is_asked_all_the_time_does_not_notice(start_cell: RunCell) -> None:
    cell = """
import ctypes, queue, select, socket, subprocess, threading, time
libc = ctypes.CDLL(None)
begin = time.monotonic()

def check(name, result, wanted):
    print("ok" if result == wanted else "DISTURBED", name, result)

check("sleep of libc", libc.sleep(1), 0)
check("poll of libc", libc.poll(None, 0, 700), 0)
check("usleep", libc.usleep(700_000), 0)
time.sleep(0.5)
here, there = socket.socketpair()
threading.Timer(0.5, lambda: there.send(b"x")).start()
check("recv", here.recv(1), b"x")
items = queue.Queue()
threading.Timer(0.5, lambda: items.put(1)).start()
check("queue", items.get(timeout=5), 1)
check("wait for a child", subprocess.run(["sleep", "0.5"]).returncode, 0)
end = time.monotonic() + 1
while time.monotonic() < end:
    sum(range(1000))
print("done")
"""
    handle = start_cell("-n 1", cell)
    requests = 0
    while not handle.run.state.terminal:
        requests += bool(take_stacks(handle.directory).groups)
    log = handle.logs(0)

    assert requests > 5
    assert "done" in log, log
    assert "DISTURBED" not in log, log
