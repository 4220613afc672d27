"""Real ranks that wait at full speed, as in NCCL, and others that compute while somebody waits for them."""

from __future__ import annotations

import sys

import pytest

from nbdist.diagnosis.stack_text import sentence
from nbdist.diagnosis.stacks import last_stacks
from nbdist.runner import RunHandle
from tests.conftest import RunCell
from tests.programs import until

pytestmark = [
    pytest.mark.usefixtures("leaves_nothing"),
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc"),
]

# a lock that is held makes who wants it spin in native code, without the interpreter
BEGIN = """
import ctypes, os, subprocess, sys, time
from types import SimpleNamespace
libc, rank = ctypes.CDLL(None), int(os.environ["RANK"])
held = ctypes.byref(ctypes.c_int(0))
libc.pthread_spin_init(held, 0)
libc.pthread_spin_lock(held)
stream = SimpleNamespace(synchronize=libc.pthread_spin_lock)
work = SimpleNamespace(wait=libc.sleep)
print("ready")
end = time.time() + 7
"""

HANGS = {
    "both wait, one at full speed": (
        "if rank == 1:\n    work.wait(600)\nstream.synchronize(held)\n",
        "rank 0 is in stream.synchronize at line 14; rank 1 waits in work.wait at line 13",
    ),
    "one never comes out of native code": (
        "if rank == 1:\n    libc.pthread_spin_lock(held)\nwork.wait(600)\n",
        "rank 1 is in libc.pthread_spin_lock at line 13; rank 0 waits in work.wait at line 14",
    ),
}

WORKS = {
    "comes back to one line": """
if rank == 1:
    while time.time() < end: sum(range(1_000))
else:
    work.wait(7)
""",
    "a compiler works for it": """
if rank == 1:
    subprocess.run([sys.executable, "-c", "import time; e = time.time() + 7\\nwhile time.time() < e: 0"])
else:
    work.wait(7)
""",
    "short waits at full speed": """
def a_tenth(until):
    while time.time() < until: pass
stream = SimpleNamespace(synchronize=a_tenth)
while time.time() < end: stream.synchronize(time.time() + 0.1)
""",
}


def test_ranks_that_spin_hang_and_ranks_that_compute_do_not(start_cell: RunCell) -> None:
    hang = {name: start_cell("-n 2 --hang-after 1s", BEGIN + cell) for name, (cell, _) in HANGS.items()}
    work = {name: start_cell("-n 2 --hang-after 2s", BEGIN + cell) for name, cell in WORKS.items()}

    until(lambda: all(handle.run.stalled is not None for handle in hang.values()), 120)
    ends = {name: run.wait(120) for name, run in work.items()}

    assert {name: sentence_of(handle) for name, handle in hang.items()} == {
        name: text for name, (_, text) in HANGS.items()
    }
    assert ends == dict.fromkeys(WORKS, "finished")
    assert [name for name, run in work.items() if "Stalled" in run.directory.journal.read_text()] == []


def sentence_of(handle: RunHandle) -> str:
    report = last_stacks(handle.run, handle.directory)
    assert report is not None, handle.logs(0)
    return sentence(report)
