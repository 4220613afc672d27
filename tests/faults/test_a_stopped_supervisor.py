"""The supervisor is stopped or frozen, its reaper with it or not: each that wants the run to end ends it. The
same of a session, whose cells are interrupted, too, and of the process of a sweep."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nbdist import control_groups, processes, runner
from nbdist.model import Escalated, Reason, RunEnded
from nbdist.runner.sweeps import SweepHandle
from nbdist.store import read_events
from nbdist.text import reason_text
from tests.faults.test_live_ranks import handle_of
from tests.faults.test_the_owner_goes import the_run
from tests.faults.test_the_supervisor_goes import reaper_of
from tests.magics.conftest import Kernel, by_rank
from tests.magics.test_sweeps import SLEEPING, begun
from tests.programs import FAMILY, MEMBERS, SLEEP, family_of, left_of, rank_states, until, until_ready

FOREGROUND = f"%%distributed -n 2\n{FAMILY}\ntime.sleep(600)"
WAITS = f"{FAMILY}\ntime.sleep(600)"

LIMIT = 15.0
"""Seconds in which a run is over that somebody wants to end: its ranks may take six of them."""

FROZEN_LIMIT = LIMIT + 7.0
"""The same where the supervisor cannot be let go on: five are for it."""


def stop_supervisor(handle: runner.RunHandle) -> None:
    os.kill(handle.run.supervisor.pid, signal.SIGSTOP)
    until(lambda: is_stopped(handle.run.supervisor.pid))


def stop_both(handle: runner.RunHandle) -> None:
    """Stop the whole process group, as a shell's job control does."""
    reaper = reaper_of(handle)
    os.killpg(reaper, signal.SIGSTOP)
    until(lambda: is_stopped(handle.run.supervisor.pid) and is_stopped(reaper))


def is_stopped(pid: int) -> bool:
    return processes.activity(pid).state == "T"


def interrupt(kernel: Kernel, handle: runner.RunHandle) -> None:
    kernel.interrupt()


def ask(kernel: Kernel, handle: runner.RunHandle) -> None:
    type_in_a_terminal(kernel, "stop", handle.run_id)


def type_in_a_terminal(kernel: Kernel, *words: str) -> None:
    command = [sys.executable, "-m", "nbdist", *words]
    subprocess.run(command, env=os.environ | {"NBDIST_HOME": str(kernel.home)}, check=True, timeout=60)


def kill(kernel: Kernel, handle: runner.RunHandle) -> None:
    os.kill(kernel.manager.provisioner.pid, signal.SIGKILL)


ENDS = [
    pytest.param(interrupt, "the kernel was interrupted", id="kernel interrupted"),
    pytest.param(ask, "stopped by nbdist stop", id="nbdist stop"),
    pytest.param(kill, "the notebook's kernel ended", id="kernel killed"),
]


@pytest.mark.parametrize("fault", [stop_supervisor, stop_both])
@pytest.mark.parametrize(("end", "reason"), ENDS)
def test_a_run_whose_supervisor_is_stopped_ends_when_it_is_wanted_to(
    kernel: Kernel,
    fault: Callable[[runner.RunHandle], None],
    end: Callable[[Kernel, runner.RunHandle], None],
    reason: str,
) -> None:
    kernel.submit(FOREGROUND)
    handle = the_run(kernel.home)
    family, reaper = family_of(handle), processes.identify(reaper_of(handle))
    assert len(family) == 2 * (1 + MEMBERS)
    fault(handle)

    end(kernel, handle)

    assert handle.wait(LIMIT) == "stopped"
    assert reason_text(handle.run.reason) == reason
    assert left_of(handle, family) == []
    until(lambda: not processes.alive(reaper), limit=5)


@pytest.mark.parametrize("fault", [stop_supervisor, stop_both])
def test_a_run_whose_supervisor_is_stopped_is_left_alone_as_long_as_its_end_is_not_asked_for(
    start_cell, fault: Callable[[runner.RunHandle], None], tmp_path: Path, leaves_nothing
) -> None:
    handle = until_ready(
        start_cell(
            "-n 1", "import os, time\nprint('ready')\nwhile not os.path.exists('go'): time.sleep(0.01)"
        )
    )
    reaper = reaper_of(handle)
    fault(handle)

    # one that is let go on a little later, and two looks of its reaper lie between
    assert handle.wait(2.5) == "running"
    os.killpg(reaper, signal.SIGCONT)
    (tmp_path / "go").touch()

    assert handle.wait(LIMIT) == "finished"


def test_a_detached_run_with_a_stopped_reaper_and_supervisor_goes_on_without_its_owner(
    start_owner, leaves_nothing
) -> None:
    owner = start_owner("-n 1 -d", SLEEP)
    until_ready(owner.handle)
    reaper = reaper_of(owner.handle)
    stop_both(owner.handle)

    owner.kill()
    until(lambda: not is_stopped(reaper))

    assert owner.handle.wait(2.5) == "running"
    owner.handle.stop("the test is over")
    assert owner.handle.status == "stopped"


TRACER = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
SEIZE, INTERRUPT = 0x4206, 0x4207
pid = int(sys.argv[1])
for request in (SEIZE, INTERRUPT):
    if libc.ptrace(request, pid, None, None) != 0:
        sys.exit(f"ptrace: {os.strerror(ctypes.get_errno())}")
os.waitpid(pid, 0)
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def hold() -> Iterator[Callable[[int], None]]:
    """Hold a process as a debugger does, where the machine lets one."""
    tracers: list[subprocess.Popen[str]] = []

    def start(pid: int) -> None:
        tracers.append(
            subprocess.Popen(
                [sys.executable, "-c", TRACER, str(pid)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
        if tracers[-1].stdout.readline() != "held\n":
            pytest.skip(f"this machine lets no debugger in: {tracers[-1].stderr.read()}")

    yield start
    for tracer in tracers:
        tracer.kill()
        tracer.communicate()


def stopped_by_its_reaper(
    handle: runner.RunHandle, fault: Callable[[int], None], why: str
) -> processes.ProcessId:
    """Stop a run whose supervisor cannot answer; return that."""
    family, supervisor = family_of(handle), handle.run.supervisor
    fault(supervisor.pid)
    handle.request_stop(Reason.said("enough"))
    assert handle.wait(FROZEN_LIMIT) == "stopped"
    assert reason_text(handle.run.reason) == f"enough (its supervisor, pid {supervisor.pid}, {why})"
    assert left_of(handle, family) == []
    return supervisor


@pytest.mark.parametrize(
    "cell",
    [pytest.param(WAITS, id="willing"), pytest.param(f"{FAMILY}\ndeaf()\ntime.sleep(600)", id="unwilling")],
)
def test_a_supervisor_that_cannot_be_let_go_on_is_replaced_by_its_reaper(
    start_cell, hold, cell: str, leaves_nothing
) -> None:
    handle = until_ready(start_cell("-n 2", cell))

    supervisor = stopped_by_its_reaper(handle, hold, "was held by a debugger")

    assert not processes.alive(supervisor)
    assert rank_states(handle) == ["stopped", "stopped"]
    assert isinstance(read_events(handle.directory.journal)[-1], RunEnded)
    assert handle.run.leftover >= 2 * MEMBERS - 2


needs_groups = pytest.mark.skipif(
    control_groups.problem() != "", reason=f"no control group can be made here: {control_groups.problem()}"
)


@pytest.fixture
def freeze() -> Iterator[Callable[[int], None]]:
    """Freeze a process, as an agent of the machine does it: no signal lets it go on."""
    group = Path(control_groups.own_group()) / f"frozen-{os.getpid()}"
    group.mkdir()

    def start(pid: int) -> None:
        (group / "cgroup.procs").write_text(str(pid))
        (group / "cgroup.freeze").write_text("1")
        until(lambda: "frozen 1" in (group / "cgroup.events").read_text())

    yield start
    (group / "cgroup.freeze").write_text("0")
    until(lambda: "populated 0" in (group / "cgroup.events").read_text())
    group.rmdir()


@needs_groups
def test_a_frozen_supervisor_is_replaced_by_its_reaper(start_cell, freeze, leaves_nothing) -> None:
    handle = until_ready(start_cell("-n 2", WAITS))

    stopped_by_its_reaper(handle, freeze, "did not respond")

    assert group_of(handle) is None


@needs_groups
def test_a_run_whose_ranks_are_frozen_ends_when_it_is_stopped(start_cell, leaves_nothing) -> None:
    handle = until_ready(start_cell("-n 2", WAITS))
    family, group = family_of(handle), Path(group_of(handle).path)
    (group / "cgroup.freeze").write_text("1")
    until(lambda: "frozen 1" in (group / "cgroup.events").read_text())

    handle.request_stop(Reason.said("enough"))

    assert handle.wait(LIMIT) == "stopped"
    assert left_of(handle, family) == []
    assert not group.exists()


def group_of(handle: runner.RunHandle) -> control_groups.ControlGroup | None:
    supervisor = handle.run.supervisor
    return control_groups.find_group(supervisor.pid, supervisor.start_time)


def test_a_supervisor_that_is_stopped_while_it_ends_its_ranks_ends_them_all_the_same(
    start_cell, leaves_nothing
) -> None:
    handle = until_ready(start_cell("-n 2", f"{FAMILY}\ndeaf()\ntime.sleep(600)"))
    family = family_of(handle)
    handle.request_stop(Reason.said("enough"))
    until(lambda: any(isinstance(event, Escalated) for event in read_events(handle.directory.journal)))

    stop_supervisor(handle)

    assert handle.wait(LIMIT) == "stopped"
    assert left_of(handle, family) == []


def stop_the_sweep(kernel: Kernel, sweep: SweepHandle) -> None:
    type_in_a_terminal(kernel, "stop", sweep.sweep_id)


@pytest.mark.parametrize(
    "end",
    [
        pytest.param(lambda kernel, _: kernel.interrupt(), id="kernel interrupted"),
        pytest.param(stop_the_sweep, id="nbdist stop"),
        pytest.param(kill, id="kernel killed"),
    ],
)
def test_a_sweep_whose_process_is_stopped_ends_when_it_is_wanted_to(
    kernel: Kernel, end: Callable[[Kernel, SweepHandle], None]
) -> None:
    kernel.submit(SLEEPING)
    sweep = begun(kernel.home)
    owner = sweep.runs[0].run.spec.owner
    os.kill(owner.pid, signal.SIGSTOP)
    until(lambda: is_stopped(owner.pid))

    end(kernel, sweep)

    assert sweep.wait(LIMIT) == "stopped"
    assert [run.state.value for run, _ in sweep.look().runs] == ["stopped"] * 4
    until(lambda: not processes.alive(owner), limit=5)


SESSION = "%%ranks -n 2 --framework none\nimport time\nkept = 41\nprint('ready')\nwhile True: time.sleep(0.1)"
DEAF = (
    "%%ranks -n 2 --framework none\nimport time\nwhile True:\n    try:\n        time.sleep(0.1)\n"
    "    except BaseException:\n        pass"
)


def interrupt_the_session(kernel: Kernel, handle: runner.RunHandle) -> None:
    type_in_a_terminal(kernel, "session", "interrupt")


@pytest.mark.parametrize("fault", [stop_supervisor, stop_both])
@pytest.mark.parametrize(
    "end",
    [
        pytest.param(interrupt, id="kernel interrupted"),
        pytest.param(interrupt_the_session, id="nbdist session"),
    ],
)
def test_a_cell_of_a_session_whose_supervisor_is_stopped_is_interrupted(
    kernel: Kernel, fault: Callable[[runner.RunHandle], None], end: Callable[[Kernel, runner.RunHandle], None]
) -> None:
    cell = kernel.submit(SESSION)
    handle = until_ready(handle_of(kernel))
    fault(handle)

    end(kernel, handle)

    kernel.collect(cell, limit=LIMIT)
    kept = kernel.run("%%ranks\nkept", limit=LIMIT)
    assert by_rank(kept.stdout) == {0: ["41"], 1: ["41"]}, kept.error
    kernel.run("%dist_session end")


@pytest.mark.parametrize("fault", [stop_supervisor, stop_both])
def test_a_session_whose_supervisor_is_stopped_ends_when_it_is_told_to(
    kernel: Kernel, fault: Callable[[runner.RunHandle], None]
) -> None:
    cell = kernel.submit(SESSION)
    handle = until_ready(handle_of(kernel))
    fault(handle)

    type_in_a_terminal(kernel, "session", "end")

    assert handle.wait(LIMIT) == "finished"
    kernel.collect(cell, limit=LIMIT)


def test_a_stopped_supervisor_takes_the_next_cell(kernel: Kernel) -> None:
    kernel.run("%%ranks -n 2 --framework none\nkept = 41")
    stop_both(handle_of(kernel))

    kept = kernel.run("%%ranks\nkept", limit=LIMIT)

    assert by_rank(kept.stdout) == {0: ["41"], 1: ["41"]}, kept.error
    kernel.run("%dist_session end")


def test_ranks_that_an_interrupt_has_ended_keep_nothing(kernel: Kernel) -> None:
    cell = kernel.submit(DEAF)
    handle_of(kernel)
    kernel.interrupt()
    kernel.collect(cell, until=lambda reply: "interrupt again" in reply.stdout + reply.stderr)

    kernel.interrupt()

    reply = kernel.collect(cell, limit=LIMIT)
    assert "cell 1 of " in reply.error
    assert "keep" not in reply.error
    assert "rank 0 ended, SIGKILL" in reply.error
