"""The stacks of a rank's forked processes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from nbdist.store.reports import calls_of_worker

PROGRAM = """
import os, signal, subprocess, sys, time
from nbdist.worker import loader_workers

def asleep():
    os.write(1, b"ready\\n")
    time.sleep(60)

def draws():
    os.write(1, b"ready\\n")
    while True: pass

def _bootstrap():
    globals()[sys.argv[2]]()

loader_workers.prepare(sys.argv[1], signal.SIGRTMIN + 7)
own = signal.getsignal(loader_workers._BUSY)
waits = "import os, time; os.write(1, b'ready\\\\n'); time.sleep(60)"
other = subprocess.Popen([sys.executable, "-c", waits])
forked = os.fork()
if forked == 0:
    _bootstrap()
sys.stdin.readline()
while not loader_workers._listens(forked):
    pass
for text in loader_workers.stacks() + loader_workers.stacks():
    print(text)
# the signals are for those that were forked
print("ours:", signal.getsignal(loader_workers._BUSY) == own)
print("ends:", other.poll(), os.waitpid(forked, os.WNOHANG)[0])
for pid in (forked, other.pid):
    os.kill(pid, signal.SIGKILL)
"""

WORKER = """\
Current thread 0x00007f482dc0bb80 (most recent call first):
  File "/home/ada/train.py", line 32 in price
  File "/v/lib/python3.11/site-packages/torch/utils/data/_utils/worker.py", line 374 in _worker_loop
  File "/usr/lib/python3.11/multiprocessing/process.py", line 314 in _bootstrap
  File "/usr/lib/python3.11/multiprocessing/popen_fork.py", line 71 in _launch
  File "/home/ada/train.py", line 63 in main
  File "/v/lib/python3.11/site-packages/nbdist/worker/__main__.py", line 20 in <module>
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.parametrize("function", ["asleep", "draws"])
def test_a_forked_process_tells_where_it_is_and_one_that_executed_is_left_alone(
    function: str, tmp_path: Path
) -> None:
    command = [sys.executable, "-c", PROGRAM, str(tmp_path), function]
    with subprocess.Popen(command, stdin=-1, stdout=-1, text=True) as process:
        assert process.stdin is not None
        assert {process.stdout.readline(), process.stdout.readline()} == {"ready\n"}
        output, _ = process.communicate("now\n", timeout=60)

    both = [calls_of_worker(f"Current thread{text}") for text in output.split("Current thread")[1:]]
    assert [[call.function for call in calls] for calls in both] == [[function], [function]]
    assert "ours: True\nends: None 0" in output


def test_the_calls_of_a_worker_end_where_it_was_forked() -> None:
    assert [call.line for call in calls_of_worker(WORKER)] == [32, 374]
    assert calls_of_worker("") == ()
