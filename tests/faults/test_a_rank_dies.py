"""One rank fails, in whatever way: the others are ended, and each rank's record says what happened to it."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from nbdist.diagnosis import failure_headline, failure_report, first_failure
from nbdist.model import Escalated, RankExited, RankFreed
from nbdist.store import read_events
from nbdist.text import reason_text
from tests.programs import SLEEP, rank_states, ranks_of, until, until_ready

pytestmark = pytest.mark.usefixtures("leaves_nothing")

DEATHS = [
    pytest.param("os.kill(os.getpid(), signal.SIGKILL)", -9, id="SIGKILL"),
    pytest.param("os.kill(os.getpid(), signal.SIGTERM)", -15, id="SIGTERM from outside"),
    pytest.param("ctypes.string_at(0)", -11, id="a segmentation fault"),
    pytest.param("os.kill(os.getpid(), signal.SIGBUS)", -7, id="a full shared memory"),
    pytest.param("os.abort()", -6, id="abort"),
    pytest.param("os._exit(3)", 3, id="os._exit"),
    pytest.param("sys.exit('no data')", 1, id="sys.exit"),
    pytest.param("raise ValueError('no data')", 1, id="an exception"),
    pytest.param("os.kill(os.getpid(), signal.SIGINT)", -2, id="SIGINT from outside"),
]


@pytest.mark.parametrize(("how", "code"), DEATHS)
def test_the_rank_that_dies_has_failed_and_the_others_were_ended(run_cell, how: str, code: int) -> None:
    cell = f"import ctypes, os, signal, sys, time\nif os.environ['RANK'] == '1':\n    {how}\ntime.sleep(600)"

    handle = run_cell("-n 3", cell)

    run = handle.run
    assert (run.state.value, reason_text(run.reason)) == ("failed", "rank 1 failed")
    assert rank_states(handle) == ["stopped", "failed", "stopped"]
    assert [rank.code for rank in run.ranks] == [-signal.SIGTERM, code, -signal.SIGTERM]
    failed = run.ranks[1].errored or run.ranks[1].exited
    assert max(run.ranks[0].exited, run.ranks[2].exited) - failed < 10.0


def test_ranks_that_do_not_heed_sigterm_are_ended_within_a_second_too(run_cell) -> None:
    cell = """
import os, signal, time
if os.environ["RANK"] == "2":
    while not (os.path.exists("deaf-0") and os.path.exists("deaf-1")): time.sleep(0.01)
    os._exit(9)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
open("deaf-" + os.environ["RANK"], "w")
time.sleep(600)
"""

    handle = run_cell("-n 3", cell)

    run = handle.run
    assert rank_states(handle) == ["stopped", "stopped", "failed"]
    assert [rank.code for rank in run.ranks] == [-signal.SIGKILL, -signal.SIGKILL, 9]
    assert max(rank.exited for rank in run.ranks[:2]) - run.ranks[2].exited < 10.0
    steps = [event for event in read_events(handle.directory.journal) if isinstance(event, Escalated)]
    sent = [(step.signal, rank) for step in steps for rank in sorted(step.ranks)]
    assert sorted(sent, reverse=True) == [("SIGTERM", 1), ("SIGTERM", 0), ("SIGKILL", 1), ("SIGKILL", 0)]


def test_a_rank_that_is_killed_while_it_is_being_stopped_was_not_ended_by_us(start_cell) -> None:
    cell = SLEEP.replace("import time", "import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN)")
    handle = until_ready(start_cell("-n 2", cell))
    handle.stop("enough", timeout=0)
    until(lambda: handle.run.stop_reason)

    os.kill(ranks_of(handle)[0].pid, signal.SIGKILL)

    assert handle.wait(15) == "stopped"
    assert rank_states(handle) == ["failed", "stopped"]
    assert handle.run.ranks[0].code == -signal.SIGKILL


def test_a_rank_that_never_becomes_a_program_has_failed(start_cell, tmp_path: Path) -> None:
    from nbdist import runner
    from nbdist.options import Options

    folder = tmp_path / "gone"
    folder.mkdir()
    plan = runner.plan(Options(nproc=1, cwd=str(folder)), cell="print(1)", cwd=str(tmp_path), python_path=[])
    folder.rmdir()

    handle = runner.start(plan)

    assert handle.wait(15) == "failed"
    assert "rank 0 could not be started" in handle.logs(0)


MEMORY_GROUPS = Path("/sys/fs/cgroup/memory")


@pytest.fixture
def small_memory() -> Iterator[Path]:
    """Yield a control group whose processes have 384 MB, of which nbdist needs a quarter; cgroup v1, where a
    test may make one."""
    group = MEMORY_GROUPS / f"nbdist-test-{os.getpid()}"
    if os.geteuid() != 0 or not (MEMORY_GROUPS / "memory.limit_in_bytes").exists():
        pytest.skip("no memory control group can be made here: the out-of-memory killer is NOT tested")
    group.mkdir()
    (group / "memory.limit_in_bytes").write_text(str(384 << 20))
    yield group
    until(lambda: not (group / "cgroup.procs").read_text())
    group.rmdir()


def test_a_rank_that_the_out_of_memory_killer_ends_has_failed_and_it_is_said(
    start_owner, small_memory: Path
) -> None:
    cell = """
import os, time
print("ready")
if os.environ["RANK"] == "1":
    hoard = []
    while True:
        hoard.append(bytearray(os.urandom(1 << 20)))
time.sleep(600)
"""
    # what the owner starts is of its group
    join = f"open({str(small_memory / 'cgroup.procs')!r}, 'w').write('0')"
    owner = start_owner("-n 2 -d", cell, before=join, after="", stderr=subprocess.DEVNULL)

    assert owner.handle.wait(60) == "failed", reason_text(owner.handle.run.reason)
    owner.kill()
    assert rank_states(owner.handle) == ["stopped", "failed"]
    assert owner.handle.run.ranks[1].code == -signal.SIGKILL
    assert owner.handle.run.ranks[1].oom


TORCH = pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")


@TORCH
def test_data_loader_workers_of_a_rank_that_is_killed_are_ended(start_cell) -> None:
    cell = """
import torch, torch.distributed as dist
from torch.utils.data import DataLoader, Dataset
class Numbers(Dataset):
    def __len__(self): return 1_000_000
    def __getitem__(self, index): return torch.tensor([index])
dist.init_process_group("gloo")
batches = iter(DataLoader(Numbers(), num_workers=2))
next(batches)
dist.barrier()
print("ready", flush=True)
for _ in batches:
    dist.all_reduce(torch.ones(1))
"""
    handle = until_ready(start_cell("-n 2", cell), limit=60)

    os.kill(ranks_of(handle)[1].pid, signal.SIGKILL)

    assert handle.wait(20) == "failed"
    assert handle.run.ranks[1].code == -signal.SIGKILL
    assert handle.run.ranks[1].state.value == "failed"
    assert 0 < handle.run.leftover <= 4


@TORCH
@pytest.mark.parametrize(
    "handler",
    [
        pytest.param("", id="torch gets the signal"),
        # as where the closed connection is seen before the end of the process
        pytest.param("signal.signal(signal.SIGCHLD, signal.SIG_DFL)", id="torch sees its connection closed"),
    ],
)
def test_a_data_loader_worker_that_is_killed_fails_its_rank_alone(start_cell, handler: str) -> None:
    cell = f"""
import os, signal, torch, torch.distributed as dist
from torch.utils.data import DataLoader, Dataset
class Numbers(Dataset):
    def __len__(self): return 1_000_000
    def __getitem__(self, index):
        if index == 40 and os.environ["RANK"] == "0":
            os.kill(os.getpid(), signal.SIGKILL)
        return torch.tensor([index])
dist.init_process_group("gloo")
batches = iter(DataLoader(Numbers(), num_workers=2))
{handler}
for _ in batches:
    dist.all_reduce(torch.ones(1))
"""

    handle = start_cell("-n 2", cell)

    assert handle.wait(60) == "failed"
    assert [rank.state.value for rank in handle.run.ranks] == ["failed", "stopped"]
    failure = first_failure(handle.run, handle.directory)
    assert failure is not None
    assert failure.hint is not None
    assert (failure.rank, failure.hint.signature) == (0, "loader-worker-killed")
    assert "a signal (Killed)" in failure.hint.cause.en
    # rank 1 would wait for half an hour: it is told to end when rank 0 has failed, and not when that is gone
    events = read_events(handle.directory.journal)
    ending = next(event for event in events if isinstance(event, (Escalated, RankFreed)))
    assert ending in (
        RankFreed(time=ending.time, rank=1),
        Escalated(time=ending.time, ranks=(1,), signal="SIGTERM"),
    )
    assert not any(isinstance(event, RankExited) for event in events[: events.index(ending)])


TAMPERING = [
    pytest.param("import os; os.closerange(3, 100)", id="closes every file"),
    pytest.param("import json; json.dumps = None", id="breaks json"),
    pytest.param("import traceback; traceback.TracebackException = None", id="breaks traceback"),
    pytest.param("import sys; sys.modules.clear()", id="forgets every module"),
    pytest.param("import sys; sys.path[:] = sys.meta_path[:] = []", id="imports nothing any more"),
    pytest.param("import sys; sys.setrecursionlimit(60)", id="calls no deeper"),
    pytest.param("import time; time.time = None", id="stops the clock"),
]


@pytest.mark.parametrize("tampering", TAMPERING)
def test_whatever_a_program_breaks_its_own_exception_is_the_reason(run_cell, tampering: str) -> None:
    handle = run_cell("-n 2", f"{tampering}\nraise ValueError('too wide')")

    failure = first_failure(handle.run, handle.directory)
    assert failure is not None
    assert failure_headline(failure).endswith("failed first: ValueError at line 2 of the cell")


def test_an_exception_of_which_nothing_could_be_written_is_known_to_have_been_one(run_cell) -> None:
    cell = """
import os
place = os.environ["NBDIST_RANK_DIR"]
os.rename(place, f"{place}-moved")
raise ValueError("too wide")
"""
    handle = run_cell("-n 1", cell)

    failure = first_failure(handle.run, handle.directory)
    assert failure is not None
    assert failure.hint is not None
    assert failure.hint.signature == "exit-report-lost"


def test_an_interpreter_that_cannot_begin_says_why(run_cell) -> None:
    handle = run_cell("-n 1 --env PYTHONHASHSEED=often", "print('hello')")

    failure = first_failure(handle.run, handle.directory)
    assert failure is not None
    assert "PYTHONHASHSEED must be" in failure_report(failure)
    assert failure.hint is None
