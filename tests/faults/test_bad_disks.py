"""The disk fills, the directory goes, files are damaged or of a newer version: no crash, no hang."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

import nbdist
from nbdist import options, processes, runner
from nbdist.diagnosis import diagnose, failure_report
from nbdist.errors import LaunchError, UnknownRun
from nbdist.launch.run_policy import RunPolicy
from nbdist.model import ProcessId, Reason, RunEnded
from nbdist.model.plan import Plan
from nbdist.runner.sweeps import SweepHandle, start_sweep
from nbdist.store import read_events, snapshot
from nbdist.text import reason_text
from tests.fakes.directories import WrittenRun
from tests.fakes.runs import CREATED, STARTED, a_spec, process_of, supervisor_started
from tests.programs import FAMILY, MEMBERS, SLEEP, STUBBORN, family_of, left_of, ranks_of, until, until_ready

pytestmark = pytest.mark.usefixtures("leaves_nothing")


PAGE = 4096


@pytest.fixture
def small_disk(home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """Yield a home on a disk of 80 MB of its own; ``home`` stays the place of the other runs."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=80m,mode=700", "nbdist-test", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, stderr=subprocess.DEVNULL, check=False).returncode != 0:
        pytest.skip("no disk can be mounted here: a full disk is NOT tested")
    with monkeypatch.context() as patch:
        patch.setenv("NBDIST_HOME", str(folder / "home"))
        yield folder
    # lazily: a process that the test has left would hold it, and is another fixture's to report
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(disk: Path) -> Path:
    """Take all the room that is left."""
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file:
        for size in (1 << 20, 4096, 1):
            try:
                while True:
                    file.write(b"x" * size)
            except OSError:
                continue
    return ballast


def test_a_run_on_a_full_disk_is_not_started_and_it_is_said(small_disk: Path, start_cell) -> None:
    fill(small_disk)

    with pytest.raises(LaunchError, match=r"only 0 MB are free on the disk of .*NBDIST_HOME="):
        start_cell("-n 2", SLEEP)


def report_of(handle: runner.RunHandle) -> str:
    """Wait until nothing else is left of a failed run, and return the report of its failure."""
    assert handle.wait(60) == "failed"
    for rank in handle.run.ranks:
        folder = handle.directory.rank(rank.rank).path
        assert [path.name for path in folder.glob("error.json*")] in ([], ["error.json"])
        assert all(path.stat().st_size for path in folder.glob("error.json"))
    failure = diagnose(handle.run, handle.directory)
    assert failure is not None
    return failure_report(failure)


FILL = """
import os
def fill(path):
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for size in (1 << 20, 4096, 1):
        try:
            while os.write(file, b"x" * size):
                pass
        except OSError:
            continue
"""


def test_a_rank_that_fills_the_disk_fails_and_says_so(small_disk: Path, start_cell) -> None:
    handle = start_cell("-n 2", "import os\nwhile True: print('x' * 1_000_000)")

    report = report_of(handle)

    assert "OSError at line 2 of the cell" in report
    assert "[Errno 28] No space left on device" in report
    assert f"is full: {small_disk} now has 0 MB of 80 MB free" in report
    assert "NBDIST_HOME=/another/disk" in report
    assert handle.logs(0)[:1_000_000] == "x" * 1_000_000
    assert left_of(handle, ranks_of(handle)) == []


def test_a_checkpoint_that_has_no_room_is_the_disk_s_fault(small_disk: Path, start_cell) -> None:
    cell = (
        "import torch\nweights = torch.zeros(5_000_000)\n"
        f"for step in range(9): torch.save(weights, f'{small_disk}/{{step}}.pt')"
    )
    handle = start_cell("-n 1", cell)

    report = report_of(handle)

    assert "at line 3 of the cell" in report
    assert f"is full: {small_disk} now has 0 MB of 80 MB free" in report


def test_an_exception_on_a_full_disk_is_still_the_reason(small_disk: Path, start_cell) -> None:
    handle = start_cell("-n 2", f"{FILL}\nfill({str(small_disk / 'x')!r})\nraise ValueError('too wide')")

    report = report_of(handle)

    assert "ValueError at line 13 of the cell" in report
    assert "ValueError: too wide" in report
    assert f"{small_disk} was full when rank" in report


def test_an_exception_that_no_room_was_kept_for_is_told_in_short(small_disk: Path, start_cell) -> None:
    """Keep the innermost frames and the begin of the message of a report longer than the room."""
    deep = "def deep(n): return deep(n - 1) if n else 1 / 0"
    cell = f"{FILL}\n{deep}\nfill({str(small_disk / 'x')!r})\ntry: deep(500)\n"
    handle = start_cell("-n 1", f"{cell}except ZeroDivisionError: raise ValueError('不' * 50_000)")

    report = report_of(handle)

    assert "ValueError at line 15 of the cell" in report
    assert "ValueError: 不不不" in report


def test_a_command_that_a_full_disk_ends_did_not_leave_by_itself(small_disk: Path, start_cell) -> None:
    command = "os.execvp('sh', ['sh', '-c', 'echo no room >&2; exit 3'])"
    handle = start_cell("-n 1", f"{FILL}\nfill({str(small_disk / 'x')!r})\n{command}")

    report = report_of(handle)

    assert "os._exit()" not in report
    assert f"{small_disk} was full when the rank failed, so it could not write its error" in report


def test_a_disk_that_can_hold_no_more_files_is_named(small_disk: Path, start_cell) -> None:
    subprocess.run(["mount", "-o", "remount,nr_inodes=200", str(small_disk)], check=True)
    handle = start_cell(
        "-n 1",
        f"import itertools\nfor number in itertools.count(): open(f'{small_disk}/{{number}}', 'w').close()",
    )

    report = report_of(handle)

    assert f"OSError: [Errno 28] No space left on device: '{small_disk}/" in report
    assert f"{small_disk} now has no inodes left, so no file can be made" in report


NO_INODES = "has no free inodes"


def leave_inodes(disk: Path, count: int) -> None:
    """Let ``count`` more files be made on the disk."""
    space = os.statvfs(disk)
    limit = f"remount,nr_inodes={space.f_files - space.f_ffree + count}"
    subprocess.run(["mount", "-o", limit, str(disk)], check=True)


def planned(line: str, cell: str) -> Plan:
    return runner.plan(options.parse(line), cell=cell, cwd="/tmp", python_path=["", *sys.path])


def start_session(line: str, cell: str) -> runner.RunHandle:
    return runner.start(runner.session_plan(planned(line, cell), 600.0))


def started_sweep(line: str, cell: str) -> SweepHandle:
    each = partial(runner.plan, cell=cell, cwd="/tmp", python_path=["", *sys.path])
    return start_sweep(runner.plan_sweep(options.parse(line), each))


@pytest.mark.parametrize("way", ["run", "detached", "session"])
def test_a_start_that_lacks_inodes_names_the_disk(small_disk: Path, start_cell, way: str) -> None:
    """Try each number of them, until there are enough."""
    start = start_session if way == "session" else start_cell
    line, refused, reasons = "-n 2 -d" if way == "detached" else "-n 2", [], []
    for count in range(30):
        leave_inodes(small_disk, count)
        try:
            handle = start(line, SLEEP)
        except LaunchError as error:
            refused.append(str(error))
            assert runner.runs() == []
            continue
        until(lambda handle=handle: has_begun(handle) or handle.run.state.terminal, limit=10)
        if not handle.run.state.terminal:
            break
        reasons.append(reason_text(handle.run.reason))
        shutil.rmtree(handle.directory.path)

    assert handle.stop() == "stopped"
    advice = f"{small_disk} {NO_INODES}: delete old runs in {small_disk}/home/runs, or choose another disk"
    assert len(refused) > 5
    assert all(text.startswith(advice) for text in refused)
    assert reasons
    assert all(f"{small_disk} {NO_INODES}, use another disk:" in text for text in reasons)


def has_begun(handle: runner.RunHandle) -> bool:
    is_served = handle.run.spec.session is None or handle.directory.socket.exists()
    return is_served and all(rank.process is not None for rank in handle.run.ranks)


@pytest.mark.parametrize("count", [2, 6, 9, 13, 17, 22])
def test_a_sweep_that_lacks_inodes_names_the_disk(small_disk: Path, count: int) -> None:
    leave_inodes(small_disk, count)

    try:
        sweep = started_sweep("-n 1 --sweep lr=1,2", "import nbdist\nnbdist.params")
    except LaunchError as error:
        why = str(error)
        assert list((small_disk / "home/sweeps").glob("*")) == []
    else:
        assert sweep.wait(20) == "failed"
        why = reason_text(sweep.look().reason)
        assert why.startswith("point ")

    assert f"{small_disk} {NO_INODES}: delete old runs in {small_disk}/home/runs, or choose" in why


@pytest.mark.parametrize(
    ("take_all", "words"),
    [(fill, "is full"), (lambda disk: leave_inodes(disk, 0), NO_INODES)],
    ids=["bytes", "inodes"],
)
def test_a_sweep_whose_disk_is_full_later_names_it(
    small_disk: Path, take_all: Callable[[Path], object], words: str
) -> None:
    go = small_disk.parent / "go"
    wait = f"while not os.path.exists('{go}'): time.sleep(0.01)"
    # a run that has ended gives back the room for its end, which is not enough for such a cell
    cell = f"import nbdist, os, time\nnbdist.params\nprint('ready')\n{wait}\n# {'x' * 500_000}"
    sweep = started_sweep("-n 1 --sweep lr=1,2", cell)
    until(lambda: sweep.runs and "ready" in sweep.runs[0].logs())
    take_all(small_disk)

    go.touch()

    assert sweep.wait(20) == "failed"
    assert [run.status for run in sweep.runs] == ["finished"]
    assert f"point 2 could not be started: {small_disk} {words}" in reason_text(sweep.look().reason)


def test_a_disk_that_is_read_only_is_named(small_disk: Path, start_cell) -> None:
    plan = planned("-n 2", "pass")
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)

    for start in (lambda: start_cell("-n 2", "pass"), lambda: runner.start(plan)):
        with pytest.raises(LaunchError, match=f"{small_disk} is mounted read-only: choose another disk with"):
            start()


@pytest.mark.parametrize("cell", [SLEEP, STUBBORN], ids=["willing", "unwilling"])
def test_a_run_whose_disk_is_full_can_be_stopped(small_disk: Path, start_cell, cell: str) -> None:
    handle = until_ready(start_cell("-n 2", cell))
    ranks = ranks_of(handle)
    fill(small_disk)

    handle.request_stop(Reason.said("enough"))

    until(lambda: not any(processes.alive(rank) for rank in ranks), limit=30)
    assert handle.wait(10) == "stopped"
    assert left_of(handle, ranks) == []


def test_a_run_whose_disk_is_full_ends_and_its_end_is_recorded(small_disk: Path, start_cell) -> None:
    cell = f"{FAMILY}\nwhile not os.path.exists('go'): time.sleep(0.01)"
    handle = until_ready(start_cell("-n 2", cell))
    family = family_of(handle)
    fill(small_disk)
    # what the journal's last page had room for would hide that there is no room
    with handle.directory.journal.open("ab", buffering=0) as journal:
        journal.write(b"\n" * (-journal.tell() % PAGE))

    (small_disk.parent / "go").touch()

    assert handle.wait(15) == "finished"
    assert left_of(handle, family) == []
    assert handle.run.leftover == 2 * MEMBERS


def test_a_disk_that_was_full_for_a_while_costs_no_event(small_disk: Path, start_cell) -> None:
    cell = "import os, time\nprint('ready')\nwhile not os.path.exists('go'): time.sleep(0.01)"
    handle = until_ready(start_cell("-n 2", cell))
    ballast = fill(small_disk)
    os.kill(ranks_of(handle)[0].pid, signal.SIGKILL)
    until(lambda: not processes.alive(ranks_of(handle)[0]))

    ballast.unlink()

    assert handle.wait(15) == "failed"
    assert reason_text(handle.run.reason) == "rank 0 failed"
    assert [rank.code for rank in handle.run.ranks] == [-signal.SIGKILL, -signal.SIGTERM]


def test_runs_on_another_disk_do_not_notice(small_disk: Path, start_cell, home: Path, monkeypatch) -> None:
    handle = until_ready(start_cell("-n 1", SLEEP))
    fill(small_disk)

    monkeypatch.setenv("NBDIST_HOME", str(home))
    other = start_cell("-n 1", "print('fine')")

    assert other.wait(20) == "finished"
    assert other.logs() == "fine\n"
    handle.stop()


def test_files_that_may_not_grow_end_no_supervisor(start_owner) -> None:
    """Limit every file of the run to 16 KB, as a user's quota does."""
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 14, 1 << 14))"
    owner = start_owner("-n 2", "while True: print('x' * 100)", before=limit)

    assert owner.handle.wait(30) == "failed"

    failed = next(rank.rank for rank in owner.handle.run.ranks if rank.state.value == "failed")
    assert owner.handle.logs(failed)[:100] == "x" * 100
    assert left_of(owner.handle, []) == []


def until_over(handle: runner.RunHandle, family: list[ProcessId], supervisor: ProcessId) -> None:
    """Wait until nothing of a run is left, whatever its directory says."""
    until(lambda: left_of(handle, family) == [], limit=30)
    until(lambda: not processes.alive(supervisor), limit=10)


def test_a_run_whose_directory_is_deleted_ends_and_harms_no_other(start_cell) -> None:
    other = start_cell("-n 1", SLEEP)
    handle = start_cell("-n 2", f"{FAMILY}\ntime.sleep(600)")
    until_ready(other)
    until_ready(handle)
    family = family_of(handle)
    supervisor = handle.run.supervisor

    # the supervisor may write a file just then: as rm, this leaves the directory
    shutil.rmtree(handle.directory.path, ignore_errors=True)

    until_over(handle, family, supervisor)
    shutil.rmtree(handle.directory.path, ignore_errors=True)
    with pytest.raises(UnknownRun, match=f"the directory of run {handle.run_id} is gone or cannot be read"):
        _ = handle.run
    assert [run.run_id for run in nbdist.runs()] == [other.run_id]
    assert other.status == "running"


def test_a_run_whose_directory_is_emptied_ends(start_cell) -> None:
    handle = until_ready(start_cell("-n 2", SLEEP))
    family, supervisor = ranks_of(handle), handle.run.supervisor

    handle.directory.path.joinpath(".nfs0001").touch()
    for entry in handle.directory.path.iterdir():
        if entry.is_dir():
            shutil.rmtree(entry, ignore_errors=True)
        elif not entry.name.startswith(".nfs"):
            entry.unlink()

    until_over(handle, family, supervisor)


@pytest.mark.parametrize("what", ["control", "ranks", "spec.json"])
def test_a_run_that_loses_a_part_of_its_directory_ends_all_the_same(start_cell, what: str) -> None:
    handle = until_ready(start_cell("-n 2", SLEEP))
    family, supervisor = ranks_of(handle), handle.run.supervisor
    path = handle.directory.path / what

    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()
    os.kill(supervisor.pid, signal.SIGTERM)

    until_over(handle, family, supervisor)
    ends = [event for event in read_events(handle.directory.journal) if isinstance(event, RunEnded)]
    assert [end.state.value for end in ends] == ["stopped"]


@pytest.mark.parametrize(
    "noise",
    [b'{"kind": "RankExited", "ra', b"\x00" * 512],
    ids=["a torn line", "zeros"],
)
def test_garbage_in_the_journal_of_a_live_run_hides_at_most_a_line(start_cell, noise: bytes) -> None:
    handle = until_ready(start_cell("-n 2", SLEEP))
    with handle.directory.journal.open("ab") as journal:
        journal.write(noise)

    assert handle.status == "running"
    assert handle.stop("enough") == "stopped"
    assert left_of(handle, []) == []


def test_a_run_of_a_newer_version_hinders_no_other(home: Path, start_cell) -> None:
    newer = WrittenRun(home, a_spec(created=time.time()))
    spec = json.loads(newer.directory.spec.read_text())
    newer.directory.spec.write_text(json.dumps(spec | {"format": 99, "quantum": True}))
    with newer.directory.journal.open("w") as journal:
        journal.write('{"kind": "QubitStarted", "time": 1.0, "spin": 0.5}\n')
    unreadable = WrittenRun(home, a_spec(run_id="20261120-141504-lenet-k3fa"))
    unreadable.directory.spec.write_text('{"format": 100}')

    handle = start_cell("-n 1", "print('fine')")

    assert handle.wait(20) == "finished"
    assert nbdist.attach().run_id == handle.run_id
    assert snapshot(newer.directory) is not None


def test_a_list_of_runs_can_be_shown_where_one_cannot_be_read(home: Path) -> None:
    WrittenRun(home, a_spec()).directory.spec.write_text('{"format": 100}')

    assert a_spec().run_id in repr(nbdist.runs())


@pytest.mark.parametrize("jump", [-86_400.0, 86_400.0], ids=["back a day", "ahead a day"])
def test_a_clock_that_jumps_ends_no_run_and_hastens_no_step(jump: float) -> None:
    clock = [CREATED]
    sent = []
    policy = RunPolicy(
        a_spec(timeout=60.0),
        record=lambda _: None,
        send=lambda rank, number: sent.append((rank, number.name)),
        wall_clock=lambda: clock[0],
    )
    policy.record(supervisor_started())
    policy.attempt_started(1, "127.0.0.1", 20_001, 0.0)
    for rank in (0, 1):
        policy.rank_started(rank, process_of(rank))

    clock[0] += jump
    policy.tick(1.0)
    assert (sent, policy.over(1.0)) == ([], False)
    policy.stop(Reason.said("enough"), 2.0)
    policy.rank_exited(0, -2, 2.1)
    policy.rank_exited(1, -2, 2.1)

    assert sent == [(0, "SIGINT"), (1, "SIGINT")]
    assert (policy.over(2.1), reason_text(policy.outcome().reason)) == (True, "enough")
    assert policy.run.elapsed(clock[0]) >= 0.0


@pytest.mark.parametrize("jump", [-86_400.0, 86_400.0], ids=["back a day", "ahead a day"])
def test_a_reader_whose_clock_jumps_does_not_lose_a_run(home: Path, jump: float) -> None:
    myself = processes.identify(os.getpid())
    written = WrittenRun(home, a_spec()).happened(
        supervisor_started(myself, host=os.uname().nodename), *STARTED[1:]
    )

    run = snapshot(written.directory, clock=lambda: CREATED + jump)

    assert run.state.value == "running"
    assert run.elapsed(CREATED + jump) >= 0.0
