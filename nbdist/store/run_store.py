"""All runs of this user: make one, list them, find one, and say how it stands."""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import time
from collections.abc import Callable
from pathlib import Path

from nbdist import processes
from nbdist.errors import IllegalTransition, LaunchError, UnknownRun
from nbdist.model import ProcessId, Run, RunLost, RunSpec
from nbdist.store.custody import in_custody
from nbdist.store.journal import read_events
from nbdist.store.paths import RunDirectory, make_private, write_private

RUN_ID = re.compile(r"\d{8}-\d{6}-[a-z0-9][a-z0-9_-]{0,63}-[a-z0-9]{4}")
_START_LIMIT = 30.0


class RunStore:
    """The runs under one home directory. Every name and path in it is private to the user."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.runs = home / "runs"

    def create(self, spec: RunSpec, cell: str | None) -> RunDirectory:
        """Make the directory of a run, with ``cell`` in it where the program is a cell.

        Raises LaunchError when it cannot be written.
        """
        run = RunDirectory(self.runs / spec.run_id)
        try:
            make_private(self.home)
            make_private(self.runs)
            run.path.mkdir(mode=0o700)
            for directory in (run.control, run.board):
                make_private(directory)
            for rank in spec.ranks:
                make_private(run.rank(rank.rank).path)
            if cell is not None:
                write_private(run.cell, cell)
            write_private(run.spec, json.dumps(spec.to_dict()))
        except OSError as error:
            raise LaunchError(
                f"the run directory {run.path} cannot be written ({error.strerror}): set NBDIST_HOME "
                "to a directory that can, for example  %env NBDIST_HOME=/tmp/nbdist"
            ) from error
        return run

    def directories(self) -> list[RunDirectory]:
        """Every run, the newest first."""
        try:
            names = os.listdir(self.runs)
        except OSError:
            return []
        runs = [RunDirectory(self.runs / name) for name in names if RUN_ID.fullmatch(name)]
        # the id says the second; within one, the spec is the older the earlier it was written
        return sorted(runs, key=lambda run: (run.run_id[:15], _written(run.spec)), reverse=True)

    def find(self, wanted: str) -> RunDirectory:
        """The newest run whose id, name, label or end of the id is ``wanted``. Raises UnknownRun."""
        for run in self.directories():
            label = run.run_id.split("-", 2)[2]
            if wanted in (run.run_id, label, label[:-5], label[-4:]):
                return run
        known = ", ".join(run.run_id.split("-", 2)[2] for run in self.directories()[:5])
        raise UnknownRun(
            f"no run {wanted}: " + (f"the latest are {known}" if known else "there are no runs yet")
        )


def snapshot(
    directory: RunDirectory,
    *,
    alive: Callable[[ProcessId], bool] = processes.alive,
    clock: Callable[[], float] = time.time,
) -> Run | None:
    """How a run stands; None when its directory holds no spec that can be read.

    A run whose supervisor has vanished reads LOST, but not while its keeper is at work: that knows why,
    and is about to write it down. Nothing is written here.
    """
    try:
        spec = RunSpec.from_dict(json.loads(directory.spec.read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError):
        return None
    run = _replayed(spec, directory)
    if run.state.terminal or (reason := _lost(run, alive, clock())) is None or in_custody(directory):
        return run
    # the supervisor may have written its last event between the two looks
    run = _replayed(spec, directory)
    return run if run.state.terminal else run.after(RunLost(time=clock(), reason=reason))


def _replayed(spec: RunSpec, directory: RunDirectory) -> Run:
    """The run after its journal, which another version may have written or a disk damaged: what can
    follow, follows."""
    run = Run.of(spec)
    for event in read_events(directory.journal):
        with contextlib.suppress(IllegalTransition):
            run = run.after(event)
    return run


def _written(spec: Path) -> float:
    try:
        return spec.stat().st_mtime_ns
    except OSError:
        return math.inf  # it is being made


def _lost(run: Run, alive: Callable[[ProcessId], bool], now: float) -> str | None:
    """Why a run that has not ended will never say so; None when it may still."""
    if run.spec.engine:
        return None  # it goes on elsewhere, watched or not
    if run.supervisor is None:
        late = now - run.spec.created > _START_LIMIT
        return "its supervisor never started" if late else None
    if run.supervisor_host != os.uname().nodename or alive(run.supervisor):
        return None
    return f"its supervisor (pid {run.supervisor.pid}) has gone without a word"
