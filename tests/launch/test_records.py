"""Records that a real supervisor leaves beside the logs of real ranks, without harm to a run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import nbdist
from nbdist import processes
from nbdist.store import LogTimes, MetricsReader
from nbdist.store.logs import RECORD
from nbdist.text import reason_text
from tests.programs import SLEEP, until, until_ready

pytestmark = pytest.mark.usefixtures("leaves_nothing")

PRINTS = """
import json, os, time
place = os.environ["NBDIST_RANK_DIR"]
index, spans = f"{place}/log.times", []
for number in range(5):
    begin = time.time()
    print("line", number)
    spans.append((begin, time.time()))
    while not os.path.exists(index) or os.path.getsize(index) < 16 * (number + 1):
        time.sleep(0.01)
with open(f"{place}/spans", "w") as file:
    json.dump(spans, file)
"""
"""Writes a line when the one before it is in the index, and when that was: from when to when."""

TICK = 0.01
"""Seconds between two ticks of the clock by which a file system says when a file was written to."""


def test_every_line_of_a_log_has_the_time_at_which_it_was_written(run_cell) -> None:
    handle = run_cell("-n 2", PRINTS)

    for rank in (0, 1):
        files = handle.directory.rank(rank)
        times, offset = LogTimes(files.log_times), 0
        spans = json.loads((files.path / "spans").read_text())
        for line, (begin, end) in zip(files.log.read_bytes().splitlines(keepends=True), spans, strict=True):
            offset += len(line)
            assert begin - TICK <= times.at(offset) <= end
        assert times.at(offset + 1) is None


def test_each_attempt_has_an_index_of_its_own(run_cell) -> None:
    handle = run_cell("-n 1 --retries 1", "print('tried')\nraise SystemExit(1)")

    for attempt in (1, 2):
        files = handle.directory.rank(0, attempt)
        assert RECORD.unpack(files.log_times.read_bytes()[-RECORD.size :])[1] == files.log.stat().st_size


def test_a_rank_is_seen_to_compute_by_its_children(start_cell) -> None:
    cell = """
import os, time
child = os.fork()
while not os.path.exists("go"):
    if child == 0: sum(range(100_000))
    else: time.sleep(0.1)
if child == 0: os._exit(0)
os.waitpid(child, 0)
"""
    handle = start_cell("-n 1", cell)
    reader, points = MetricsReader(handle.directory.rank(0).system), []
    until(lambda: points.extend(reader.read()) or len(points) >= 2)
    Path(handle.run.spec.cwd, "go").touch()

    assert handle.wait(20) == "finished"
    # other tests may want the processor, too
    assert all(10 < point.values["cpu"] < 150 for point in points), points
    assert all(4 << 20 < point.values["memory"] < point.values["memory_total"] for point in points), points


SPARES = """
import os, time
from nbdist.launch.binding import become_subreaper
from nbdist.launch.lifetime import end_descendants
become_subreaper()
spared = os.fork()
if spared == 0:
    os.close(1)
    time.sleep(600)
other = os.fork()
if other == 0:
    time.sleep(600)

def reap():
    try:
        while os.waitpid(-1, os.WNOHANG)[0]: pass
    except ChildProcessError:
        return False
    return True

begun = time.monotonic()
leftover = end_descendants(reap, spared=frozenset({spared}))
print(spared, leftover, time.monotonic() - begun < 2.0)
"""


def test_what_cannot_be_ended_does_not_hold_up_the_end() -> None:
    output = subprocess.run(
        [sys.executable, "-c", SPARES], stdout=subprocess.PIPE, text=True, check=True
    ).stdout
    spared, leftover, quickly = output.split()
    try:
        assert (leftover, quickly) == ("1", "True")
        assert processes.identify(int(spared)) is not None
    finally:
        os.kill(int(spared), signal.SIGKILL)


WATCHES = """
import sys
from nbdist import runner
from nbdist.text import reason_text
handle = runner.attach(sys.argv[1])
print(handle.status, flush=True)
while not (run := handle.run).state.terminal:
    pass
print(run.state.value, "|", reason_text(run.reason), flush=True)
"""


def test_whoever_watches_hears_why_the_supervisor_has_gone(start_cell) -> None:
    handle = start_cell("-n 2", SLEEP)
    until_ready(handle)
    supervisor = handle.run.supervisor.pid
    watchers = [
        subprocess.Popen([sys.executable, "-c", WATCHES, handle.run_id], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    for watcher in watchers:
        assert watcher.stdout.readline() == "running\n"

    os.kill(supervisor, signal.SIGKILL)

    killed = f"lost | its supervisor (pid {supervisor}) was killed by SIGKILL\n"
    assert [watcher.communicate(timeout=20)[0] for watcher in watchers] == [killed, killed]
    assert reason_text(nbdist.attach(handle.run_id).run.reason) in killed
