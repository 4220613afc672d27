"""The runs and the sweeps of this user: makes, lists and finds them, and returns their states."""

from __future__ import annotations

import contextlib
import fcntl
import json
import math
import os
import re
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from nbdist import processes
from nbdist.errors import IllegalTransition, NotPrivate, UnknownRun
from nbdist.model import Event, ProcessId, Reason, Run, RunLost, RunSpec, RunState
from nbdist.model.decoding import MALFORMED
from nbdist.model.sweep import Sweep
from nbdist.store.journal import load_object, read_events, reserve
from nbdist.store.logs import FileStat
from nbdist.store.paths import (
    RunDirectory,
    SweepDirectory,
    check_home,
    check_private,
    make_private,
    open_to_append,
    write_private,
)

RUN_ID = re.compile(r"\d{8}-\d{6}-[a-z0-9][a-z0-9._-]{0,63}-[a-z0-9]{4}")
_START_LIMIT = 30.0
_SHOWN = 80  # characters of an unknown name

Inputs = Callable[[Path], object]
Spec = TypeVar("Spec")


class RunStore:
    """The runs under one home directory. It reads nothing that another user could have filled."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.runs = home / "runs"
        # for ``runner.pruning``: runs being deleted, sizes of ended ones, and the lock of its process
        self.removed = home / "removed"
        self.sizes = home / "sizes.json"
        self.pruning = home / "pruning.lock"

    def create(self, spec: RunSpec, cell: str | None, inputs: Inputs | None = None) -> RunDirectory:
        """Make the directory of a run; ``cell`` is the program if that is a cell, ``inputs`` writes the
        notebook's values. Raises OSError, and NotPrivate when others could write it."""
        run = RunDirectory(self.runs / spec.run_id)
        folders = (run.control, run.board, *(run.rank(rank.rank).path for rank in spec.ranks))
        self._make(run, spec.to_dict(), cell, inputs, folders=folders, reserved=run.journal)
        return run

    def _make(
        self,
        made: RunDirectory,
        spec: dict[str, object],
        cell: str | None,
        inputs: Inputs | None,
        *,
        folders: Iterable[Path],
        reserved: Path,
    ) -> None:
        self.check()
        make_private(self.runs)
        made.path.mkdir(mode=0o700)
        for folder in folders:
            make_private(folder)
        if cell is not None:
            write_private(made.cell, cell)
        if inputs is not None:
            inputs(made.inputs)
        reserve(reserved)
        os.close(open_to_append(made.supervisor_log))
        write_private(made.spec, json.dumps(spec))

    def check(self) -> None:
        """Raise NotPrivate when another user filled this home or could have filled it."""
        check_home(self.home)
        check_home(self.runs)

    def directories(self) -> list[RunDirectory]:
        """Return every run of this user, the newest first. Raises NotPrivate."""
        return [run for run in self._listed() if _refusal(run) is None]

    def refused(self) -> list[RunDirectory]:
        """Return the runs that nbdist refuses to read, the newest first. Raises NotPrivate."""
        return [run for run in self._listed() if _refusal(run) is not None]

    def directory(self, run_id: str) -> RunDirectory | None:
        """Return the run with this id; None when there is none of this user. Raises NotPrivate."""
        self.check()
        run = RunDirectory(self.runs / run_id) if RUN_ID.fullmatch(run_id) else None
        return run if run is not None and os.path.lexists(run.path) and _refusal(run) is None else None

    def find(self, wanted: str) -> RunDirectory:
        """Return the newest run whose id, name, label or end of the id is ``wanted``. Raises UnknownRun."""
        mine = self.directories()
        for run in (*mine, *self.refused()):
            label = run.run_id.split("-", 2)[2]
            if wanted in (run.run_id, label, label[:-5], label[-4:]):
                if (refusal := _refusal(run)) is not None:
                    raise refusal
                return run
        known = ", ".join(run.run_id.split("-", 2)[2] for run in mine[:5])
        name = wanted if len(wanted) <= _SHOWN and wanted.isprintable() else f"{wanted[:_SHOWN]!r} ..."
        raise UnknownRun(
            f"no run {name}: " + (f"the latest are {known}" if known else "there are no runs yet")
        )

    def _listed(self) -> list[RunDirectory]:
        self.check()
        try:
            names = os.listdir(self.runs)
        except OSError:
            return []
        runs = [RunDirectory(self.runs / name) for name in names if RUN_ID.fullmatch(name)]
        # the id has the second of the start, the spec's time orders the runs of one second
        return sorted(runs, key=lambda run: (run.run_id[:15], _written(run.spec)), reverse=True)


class SweepStore(RunStore):
    """The sweeps under one home directory, found as runs are."""

    def __init__(self, home: Path) -> None:
        super().__init__(home)
        self.runs = home / "sweeps"

    def begin(self, sweep: Sweep, cell: str | None, inputs: Inputs | None) -> SweepDirectory:
        """Make the directory of a sweep, with the files that its runs share. Raises as ``create``."""
        made = SweepDirectory(self.runs / sweep.sweep_id)
        self._make(made, sweep.to_dict(), cell, inputs, folders=[made.control], reserved=made.ended)
        return made

    def sweeps(self) -> list[SweepDirectory]:
        """Return every sweep of this user, the newest first. Raises NotPrivate."""
        return [SweepDirectory(directory.path) for directory in self.directories()]

    def named(self, wanted: str) -> SweepDirectory:
        """Return the newest sweep of this name or id. Raises UnknownRun and NotPrivate."""
        return SweepDirectory(self.find(wanted).path)


def read_spec(directory: RunDirectory) -> RunSpec:
    """Return the spec of a run, which is read here alone. Raises UnknownRun or NotPrivate."""
    spec = _read(directory, "run", RunSpec.from_dict)
    # the directory's name holds, whatever the file has
    return spec if spec.run_id == directory.run_id else replace(spec, run_id=directory.run_id)


def read_sweep(directory: SweepDirectory) -> Sweep:
    """Return the spec of a sweep. Raises as ``read_spec``."""
    return _read(directory, "sweep", Sweep.from_dict)


def _read(directory: RunDirectory, kind: str, decode: Callable[[dict[str, Any]], Spec]) -> Spec:
    name = f"{kind} {directory.run_id}"
    try:
        check_private(directory.path)
        return decode(load_object(directory.spec, exact=True))
    except (FileNotFoundError, NotADirectoryError):
        raise UnknownRun(f"the directory of {name} is gone or cannot be read") from None
    except OSError as error:
        raise UnknownRun(f"{name} cannot be read: spec.json: {error.strerror}") from None
    except MALFORMED:
        raise UnknownRun(f"{name} cannot be read: spec.json is damaged") from None


def unreadable(directory: RunDirectory) -> Run | None:
    """Return an unreadable run as LOST, with the reason; None for any other run."""
    try:
        read_spec(directory)
        return None
    except NotPrivate as refusal:
        reason = Reason("not-private", problem=refusal.problem)
    except UnknownRun as problem:
        if directory.deleted:
            return None
        reason = Reason.said(str(problem).removeprefix(f"run {directory.run_id} "))
    created = 0.0
    with contextlib.suppress(ValueError, OverflowError):
        created = time.mktime(time.strptime(directory.run_id[:15], "%Y%m%d-%H%M%S"))
    spec = RunSpec(
        run_id=directory.run_id,
        name=directory.run_id[16:-5],
        created=created,
        program="",
        python="",
        cwd="",
        ranks=(),
        framework="none",
        backend="auto",
    )
    return Run(spec=spec, state=RunState.LOST, reason=reason)


def _refusal(run: RunDirectory) -> NotPrivate | None:
    """Return the reason not to read a run."""
    try:
        check_private(run.path)
    except NotPrivate as refusal:
        return refusal
    except OSError:
        pass  # it is being removed
    return None


def snapshot(
    directory: RunDirectory,
    *,
    alive: Callable[[ProcessId], bool] = processes.alive,
    clock: Callable[[], float] = time.time,
) -> Run | None:
    """Return a run's state, and write nothing; None without a readable spec. A run whose supervisor has
    vanished is LOST, but not while its reaper is about to record the reason."""
    try:
        spec = read_spec(directory)
    except UnknownRun:
        return None
    run = replayed(spec, read_events(directory.journal))
    if run.state.terminal or (reason := why_lost(run, alive, clock())) is None or is_run_locked(directory):
        return run
    # the supervisor may have written its last event between the two looks
    run = replayed(spec, read_events(directory.journal))
    return run if run.state.terminal else run.after(RunLost(time=clock(), reason=reason))


def replayed(spec: RunSpec, events: Iterable[Event]) -> Run:
    """Return the run after its events; skip those that cannot follow (of another version, or damaged)."""
    run = Run.of(spec)
    for event in events:
        with contextlib.suppress(IllegalTransition):
            run = run.after(event)
    return run


def _written(spec: Path) -> float:
    try:
        return spec.stat().st_mtime_ns
    except OSError:
        return math.inf  # it is being made


def why_lost(run: Run, alive: Callable[[ProcessId], bool], now: float) -> Reason | None:
    """Return the reason why a run will never record its end; None while it may."""
    if run.spec.engine:
        return None  # it goes on elsewhere, watched or not
    if run.supervisor is None:
        late = now - run.spec.created > _START_LIMIT
        return Reason("supervisor-never-started") if late else None
    if run.supervisor_host != os.uname().nodename or alive(run.supervisor):
        return None
    return Reason("supervisor-gone", pid=run.supervisor.pid)


# The reaper of a run holds a lock as long as it lives, since the journal does not name it: before its first
# event it names no process, and after a supervisor was killed the reaper still has to record the reason.


def take_run_lock(directory: RunDirectory) -> int:
    """Hold the lock until this process and its forks have ended, however they end. Return the descriptor,
    which shares the lock with a process that inherits it. Raises OSError without a spec, or without locks."""
    handle = os.open(directory.spec, os.O_RDONLY | os.O_CLOEXEC)
    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return handle


def wait_for_release(directory: RunDirectory, *, mode: int = fcntl.LOCK_SH) -> None:
    """Wait until no process of this machine holds the lock. Raises as ``take_run_lock``."""
    handle = os.open(directory.spec, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, mode)
    finally:
        os.close(handle)


def is_run_locked(directory: RunDirectory) -> bool:
    """Return whether a process of this machine holds the lock. Runs of older versions have no lock."""
    try:
        # shared: two such checks at once do not mistake each other for the reaper
        wait_for_release(directory, mode=fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        pass
    return False


HEARTBEAT_TIMEOUT = 180.0  # seconds without a touch after which the owner of the file counts as gone
_GAP = 30.0


class Heartbeat:
    """A watch on a file that a process of another machine touches again and again."""

    def __init__(self, path: Path, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._stat = FileStat(path, clock=clock)
        self._clock = clock
        self._touched = self._look()
        self._since = self._looked = clock()

    def has_stopped(self) -> bool:
        """Return whether the touches have stopped. A long time between two looks does not count: then the
        file system did not answer, and the owner of the file waited for it, too."""
        touched, now = self._look(), self._clock()
        if touched != self._touched or now - self._looked > _GAP:
            self._touched, self._since = touched, now
        self._looked = now
        return now - self._since > HEARTBEAT_TIMEOUT

    def _look(self) -> int:
        try:
            return self._stat.look().st_mtime_ns
        except OSError:
            return 0
