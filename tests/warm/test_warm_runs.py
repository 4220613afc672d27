"""A program cannot tell ranks that waited from ranks that were started for it."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from nbdist import processes, runner
from nbdist.errors import LaunchError
from nbdist.feed.view import view_of
from nbdist.model import Reason
from nbdist.text import reason_text
from nbdist.warm.pool import Standby, WarmPool
from tests.programs import FAMILY, MEMBERS, family_of, left_of, until, until_ready
from tests.warm.conftest import SLOW, processes_of

pytestmark = [
    pytest.mark.usefixtures("leaves_nothing"),
    pytest.mark.skipif(sys.platform != "linux", reason="ranks wait on Linux alone"),
]

# the program cannot tell, but the system can
WAITED = "'--wait' in open('/proc/self/cmdline').read()"
PROBE = (Path(__file__).parent / "probe.py").read_text()
RANDOM = """
import random, torch
print(random.random(), torch.rand(1).item())
"""

COMPILED = """
import torch, torch._inductor.config
from torch._dynamo.utils import counters

# to compile the headers ahead takes 10 s
torch._inductor.config.cpp_cache_precompile_headers = False

def double(value):
    return 2 * value + 1

print(torch.compile(double)(torch.ones(4)).tolist())
print("compiled before:", counters["inductor"]["fxgraph_cache_hit"])
"""

ENDS_IN_C = """
import ctypes, sys, torch
libc, streams = ctypes.CDLL(None), ctypes.CDLL("libstdc++.so.6")
libc.strdup.restype = ctypes.c_void_p
libc["__cxa_atexit"](libc.puts, ctypes.c_void_p(libc.strdup(b"by a handler")), None)
libc.puts(b"by C")
streams["_ZNSt8ios_base15sync_with_stdioEb"](False)
cout = ctypes.c_char.in_dll(streams, "_ZSt4cout")
streams["_ZNSo5writeEPKcl"](ctypes.byref(cout), b"by C++", 6)
sys.exit(9)
"""


def probed(handle: runner.RunHandle) -> dict:
    lines = [line for line in handle.logs(0).splitlines() if line.startswith("SEEN ")]
    assert lines, handle.logs(0)
    return json.loads(lines[0][5:])


def test_a_program_sees_the_same_warm_and_cold(make_plan, stand_by, run_on) -> None:
    # two threads, so that there are those of OpenBLAS
    line, threads = '-n 1 --args "--lr 0.1" --env LR=3', {"OMP_NUM_THREADS": "2"}
    plan = make_plan(line, PROBE, **threads)
    warm = run_on(stand_by(make_plan("-n 1", **threads)), plan)
    # given its run at once
    early = run_on(stand_by(make_plan("-n 1", **threads), ready=False), make_plan(line, PROBE, **threads))
    for handle in (warm, early):
        assert handle.wait(90) == "finished", handle.logs(0)
    cold = runner.start(make_plan(line, PROBE, **threads), warm=False)
    assert cold.wait(90) == "finished", cold.logs(0)

    assert early.run.importing == ()
    for handle in (warm, early):
        seen = probed(handle)
        # children are found by it; of a process that waited it is written there later
        assert seen["run"]
        assert seen == probed(cold)


@pytest.mark.timeout(700)
@pytest.mark.skipif(
    not (shutil.which("g++") or shutil.which("clang++")), reason="torch.compile needs a compiler"
)
def test_what_a_program_has_compiled_warm_is_there_for_a_cold_one(
    make_plan, stand_by, run_on, tmp_path
) -> None:
    # with more of them a pool of processes imports torch, too
    variables = {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "compiled"), "TORCHINDUCTOR_COMPILE_THREADS": "1"}
    # what else would be compiled to try the processor's instructions
    variables["TORCHINDUCTOR_VEC_ISA_OK"] = "1"
    plan = make_plan("-n 1", COMPILED, **variables)

    warm = run_on(stand_by(plan), plan)
    assert warm.wait(300) == "finished", warm.logs(0)
    cold = runner.start(make_plan("-n 1", COMPILED, **variables), warm=False)
    assert cold.wait(300) == "finished", cold.logs(0)

    # it would be compiled again if anything that it depends on was another
    assert warm.logs(0).splitlines() == ["[3.0, 3.0, 3.0, 3.0]", "compiled before: 0"]
    assert cold.logs(0).splitlines() == ["[3.0, 3.0, 3.0, 3.0]", "compiled before: 1"]


def test_no_two_ranks_draw_the_same_numbers(make_plan, stand_by, run_on) -> None:
    plan = make_plan("-n 2", RANDOM)

    handle = run_on(stand_by(plan), plan)

    assert handle.wait(60) == "finished"
    drawn = [number for rank in (0, 1) for number in handle.logs(rank).split()]
    assert len(set(drawn)) == len(drawn) == 4


def test_what_a_framework_says_while_it_is_imported_is_in_the_log(
    make_plan, stand_by, run_on, tmp_path
) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys\nprint('hello from the start', file=sys.stderr)\n")
    plan = make_plan("-n 1", "print('and then')", PYTHONPATH=str(tmp_path))

    handle = run_on(stand_by(plan), plan)

    assert handle.wait(60) == "finished"
    assert handle.logs(0).split("\n")[:2] == ["hello from the start", "and then"]


@pytest.mark.parametrize(
    ("cell", "code"),
    [
        pytest.param("import atexit, sys\natexit.register(print, 'flushed')\nsys.exit(7)", 7, id="exit"),
        pytest.param("import atexit\natexit.register(print, 'flushed')\n1/0", 1, id="exception"),
        pytest.param(
            "import torch\nclass A:\n    def __del__(self): print('flushed')\na = A(); a.me = a",
            0,
            id="cycle",
        ),
        pytest.param("import os\nprint('flushed')\nos.kill(os.getpid(), 9)", -9, id="signal"),
    ],
)
def test_the_end_of_a_rank_is_whole(make_plan, stand_by, run_on, cell: str, code: int) -> None:
    plan = make_plan("-n 1", cell)

    handle = run_on(stand_by(plan), plan)

    handle.wait(60)
    assert handle.run.ranks[0].code == code
    assert "flushed" in handle.logs(0)


def test_what_a_program_leaves_to_c_is_done_at_its_end(make_plan, stand_by, run_on) -> None:
    plan = make_plan("-n 1", ENDS_IN_C)

    handle = run_on(stand_by(plan), plan)

    assert handle.wait(60) == "failed"
    assert handle.logs(0) == "by C\nby a handler\nby C++"
    assert handle.run.ranks[0].code == 9


def test_a_retry_gets_new_processes(make_plan, stand_by, run_on) -> None:
    plan = make_plan("-n 2 --retries 1", "import os\nassert 'attempt-2' in os.environ['NBDIST_RANK_DIR']")
    standby = stand_by(plan)
    waited = {process.pid for process in processes_of(standby)}

    handle = run_on(standby, plan)

    assert handle.wait(60) == "finished"
    assert not waited & {rank.process.pid for rank in handle.run.ranks}


def test_a_run_whose_ranks_still_import_can_be_stopped_and_its_time_counts(
    make_plan, stand_by, run_on, tmp_path: Path
) -> None:
    (tmp_path / "sitecustomize.py").write_text(SLOW)
    plan = make_plan("-n 2", "import torch\nprint('begun')", PYTHONPATH=str(tmp_path))
    handle = run_on(stand_by(plan, ready=False), plan)
    until(lambda: handle.run.importing == (0, 1))
    view = view_of(handle.run, now=time.time())

    handle.request_stop(Reason.said("enough"))

    assert handle.wait(10) == "stopped"
    assert (view.state, view.elapsed > 0) == ("running", True)
    assert view.reason.startswith("waiting for ranks that are still importing torch")
    assert handle.run.elapsed(0) > 0
    assert (handle.logs(0), handle.run.leftover) == ("", 0)


@pytest.mark.parametrize("change", ["a variable", "a module", "nothing comes"])
def test_ranks_that_are_not_what_a_cold_start_would_make_when_they_are_ready_begin_again(
    make_plan, stand_by, run_on, tmp_path: Path, change: str
) -> None:
    cell = f"import torch\nprint({WAITED})"
    standby = stand_by(make_plan("-n 1", KINETO_LOG_LEVEL="4"), ready=False)
    plan = make_plan("-n 1", cell, KINETO_LOG_LEVEL="5" if change == "a variable" else "4")
    if change != "a variable":
        rank = rank_of(standby)
        if change == "nothing comes":
            processes.send(rank, signal.SIGSTOP)
            until(lambda: processes.activity(rank.pid).state == "T")
        else:
            (tmp_path / "numpy.pyi.py").write_text("")
            # the imports may not have begun
            os.utime(tmp_path / "numpy.pyi.py", (time.time() + 60, time.time() + 60))

    handle = run_on(standby, plan)

    assert handle.wait(60) == "finished"
    *before, last = handle.logs(0).splitlines()
    assert last == "False"
    assert [line.partition(": ")[2] for line in before] == {
        "a variable": ["KINETO_LOG_LEVEL changed while torch was imported, which may read it"],
        "a module": [f"new modules in {tmp_path}"],
        "nothing comes": [],
    }[change]


def test_a_standby_that_does_not_answer_gets_no_run(make_plan, stand_by) -> None:
    plan = make_plan("-n 1", "pass")
    standby = stand_by(plan)
    reaper, supervisor, _ = processes_of(standby)
    directory = runner.store().create(plan.spec, plan.cell)
    processes.send(supervisor, signal.SIGSTOP)
    until(lambda: processes.activity(supervisor.pid).state == "T")

    begun = time.monotonic()
    assert standby.go(directory, plan.environment) == "the warm ranks did not answer"
    assert time.monotonic() - begun < 5
    standby.leave()
    processes.send(supervisor, signal.SIGCONT)

    until(lambda: not processes.alive(reaper))
    assert runner.RunHandle(directory).status == "pending"
    assert directory.journal.read_bytes() == b""


def rank_of(standby: Standby) -> processes.ProcessId:
    until(lambda: len(processes_of(standby)) == 3)
    return processes_of(standby)[-1]


@pytest.mark.parametrize("stopped", [False, True], ids=["awake", "stopped"])
def test_a_kernel_that_is_killed_leaves_no_ranks_that_wait(home: Path, stopped: bool) -> None:
    program = """
import os, sys
from nbdist import options, runner
from nbdist.warm.pool import Standby
standby = Standby(runner.plan(options.parse("-n 2"), cell="pass", cwd=".", python_path=sys.path), idle=900.0)
print(standby.supervisor.process.pid, standby.wait_until_ready(90), flush=True)
os.fork() or os.setsid()  # what holds its sockets open
sys.stdin.read()
"""
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    owner = subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )
    pid, ready = owner.stdout.readline().split()
    started = [processes.identify(int(pid)), *processes.descendants(int(pid))]
    assert (ready, len(started)) == ("True", 4)
    if stopped:
        os.killpg(int(pid), signal.SIGSTOP)
        until(lambda: processes.activity(int(pid)).state == "T")

    owner.kill()
    owner.wait()

    until(lambda: not [process for process in started if process is not None and processes.alive(process)])
    owner.stdin.close()
    owner.stdout.close()


@pytest.mark.parametrize("victim", [0, 1, 2], ids=["reaper", "supervisor", "rank"])
def test_a_standby_that_dies_is_no_standby(make_plan, stand_by, victim: int) -> None:
    standby = stand_by(make_plan("-n 2", "pass"))
    started = processes_of(standby)

    processes.send(started[victim], signal.SIGKILL)
    until(lambda: not processes.alive(started[victim]) and (standby.look() or standby.gone))

    plan = make_plan("-n 2", "pass")
    assert standby.go(runner.store().create(plan.spec, plan.cell), plan.environment) != ""
    standby.supervisor.process.wait(20)
    until(lambda: not [process for process in started if processes.alive(process)])


@pytest.mark.usefixtures("light_torch")
def test_ranks_that_wait_are_kept_where_a_disk_refuses_the_run(make_plan) -> None:
    def refuse(path: Path) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    pool = WarmPool()
    pool.keep(lambda: make_plan("-n 1"))
    assert pool.wait_until_ready(90.0)

    with pytest.raises(LaunchError, match="is full: delete old runs"):
        runner.start(replace(make_plan("-n 1"), write_inputs=refuse), pool=pool)

    assert pool.state().ranks == 1
    pool.release()


def test_a_warm_run_whose_supervisor_is_killed_leaves_nothing(make_plan, stand_by, run_on) -> None:
    plan = make_plan("-n 2", FAMILY)
    standby = stand_by(plan)
    handle = run_on(standby, plan)
    until_ready(handle)
    known = family_of(handle)
    assert len(known) == 2 + 2 * MEMBERS

    supervisor = handle.run.supervisor
    assert supervisor is not None
    processes.send(supervisor, signal.SIGKILL)

    assert handle.wait(20) == "lost"
    until(lambda: not left_of(handle, known))


def test_a_warm_run_whose_supervisor_and_reaper_are_stopped_ends_when_it_is_told_to(
    make_plan, stand_by, run_on
) -> None:
    plan = make_plan("-n 2", f"{FAMILY}\ntime.sleep(600)")
    standby = stand_by(plan)
    handle = run_on(standby, plan)
    until_ready(handle)
    known, reaper = family_of(handle), standby.supervisor.process.pid
    os.killpg(reaper, signal.SIGSTOP)
    until(lambda: processes.activity(reaper).state == "T")

    handle.request_stop(Reason.said("enough"))

    assert (handle.wait(15), reason_text(handle.run.reason)) == ("stopped", "enough")
    assert left_of(handle, known) == []


def test_a_warm_run_that_lost_everybody_is_mended(make_plan, stand_by, run_on) -> None:
    plan = make_plan(
        "-n 1", "import os, time\nif os.fork() == 0:\n    os.setsid()\nprint('ready')\ntime.sleep(600)"
    )
    standby = stand_by(plan)
    handle = run_on(standby, plan)
    until_ready(handle)

    reaper, *_ = started = processes_of(standby)
    supervisor = handle.run.supervisor
    assert supervisor is not None
    processes.send(reaper, signal.SIGSTOP)
    processes.send(supervisor, signal.SIGKILL)
    processes.send(reaper, signal.SIGKILL)

    until(lambda: handle.status == "lost")
    until(lambda: not [process for process in started if processes.alive(process)])
    assert processes.marked("NBDIST_RUN_DIR", str(handle.directory.path)) == []
