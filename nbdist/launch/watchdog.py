"""Watch of the reaper over a supervisor that a signal stopped, a debugger holds, or that is frozen.

The ranks run without it, but it obeys no request. So the watchdog reads requests to end the run, wakes a
stopped supervisor (SIGCONT), and if that fails ends the run itself.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable

from nbdist import processes
from nbdist.launch.binding import REQUESTS_TO_END
from nbdist.launch.escalation import KILL, ON_STOP
from nbdist.launch.lifetime import collect_exited, end_descendants, end_groups_of, owner_ended
from nbdist.model import ProcessId, RankExited, RankState, Reason, Run, RunEnded, RunState, StopRequested
from nbdist.store.control import StopRequest, take_requests
from nbdist.store.journal import Journal
from nbdist.store.paths import RunDirectory
from nbdist.store.run_store import snapshot

_PATIENCE = 5.0
"""Seconds for a supervisor to obey; it reads requests every 65 ms."""

_GOES_ON = "RD"
"""States of a process that computes, or waits for a disk, where even SIGKILL does not reach it."""

_HOW = {"T": "reaper-ended-stopped", "t": "reaper-ended-traced"}
"""Codes of the reason by the state of the supervisor's process."""


class Watchdog:
    """The watch over a child. ``find`` returns its run's directory; ``parent`` is this process's parent."""

    def __init__(self, supervisor: int, find: Callable[[], RunDirectory | None], parent: int) -> None:
        self._supervisor = supervisor
        self._find = find
        self._parent = parent
        self._seen: processes.Activity | None = None
        self._since: float | None = None
        self._signalled: set[ProcessId] = set()
        self._exits: dict[int, int] = {}

    def look(self) -> Reason:
        """Return the reason for this process to end the run; none while there is no need."""
        before, self._seen = self._seen, processes.activity(self._supervisor)
        now = self._seen
        if now is None or before is None or now.turns != before.turns or now.state in _GOES_ON:
            self._since = None
            return Reason()
        if not (reason := self._wanted(now)):
            return Reason()
        if now.state == "T":
            os.kill(self._supervisor, signal.SIGCONT)
        if self._since is None:
            self._since = time.monotonic()
        return reason if time.monotonic() - self._since >= _PATIENCE else Reason()

    def end_run(self, reason: Reason) -> None:
        """End the ranks as the supervisor would have done, their children, and the supervisor."""
        how = _HOW.get(self._seen.state if self._seen else "", "reaper-ended-stuck")
        # it must not resume meanwhile
        os.kill(self._supervisor, signal.SIGSTOP)
        directory = self._find()
        run = snapshot(directory) if directory is not None else None
        ranks = [rank.process for rank in run.ranks if rank.process is not None] if run is not None else []
        for step in ON_STOP:
            left = [rank for rank in ranks if processes.alive(rank)]
            self._signalled.update(left)
            if step.signal is not None:
                processes.send_all(left, step.signal)
                # a stopped process handles it only after SIGCONT
                processes.send_all(left, signal.SIGCONT)
            self._wait(left, step.grace)
        supervisor = processes.identify(self._supervisor)
        os.kill(self._supervisor, signal.SIGKILL)
        self._wait(filter(None, [supervisor]), KILL.grace)
        self._reap()
        # a debugger may keep it as a zombie
        held = frozenset({self._supervisor} - self._exits.keys())
        leftover = end_descendants(self._reap, spared=held, patience=0.0) + end_groups_of(self._supervisor)
        if directory is not None and run is not None and not run.state.terminal:
            self._record(directory, run, Reason(how, why=reason, pid=self._supervisor), leftover)

    def _wanted(self, activity: processes.Activity) -> Reason:
        """Return the reason for the run to end; none without one."""
        directory = self._find()
        run = snapshot(directory) if directory is not None else None
        if directory is None or run is None:
            return Reason("starter-ended") if os.getppid() != self._parent else Reason()
        for number in REQUESTS_TO_END:
            if activity.awaits(number):
                return Reason("supervisor-got", signal=signal.Signals(number).name)
        for request in take_requests(directory, leave=True):
            if isinstance(request, StopRequest):
                return request.reason
        if run.state is RunState.STOPPING:
            return run.stop_reason or Reason("rank-failed")
        if not run.spec.detached and os.getppid() != self._parent:
            return owner_ended(directory, run.spec)
        return Reason()

    def _wait(self, ending: Iterable[ProcessId], limit: float) -> None:
        """Wait up to ``limit`` seconds for the ends of these processes."""
        left, deadline = list(ending), time.monotonic() + limit
        while any(map(processes.alive, left)) and time.monotonic() < deadline:
            time.sleep(0.02)

    def _reap(self) -> bool:
        """Reap exited children, once the supervisor has gone also ranks; return whether others are left."""
        return collect_exited(
            lambda pid, status, _: self._exits.update({pid: os.waitstatus_to_exitcode(status)})
        )

    def _record(self, directory: RunDirectory, run: Run, reason: Reason, leftover: int) -> None:
        try:
            journal = Journal(directory.journal)
        except OSError:
            return  # the directory is deleted, or another process found the run lost and records it
        now = time.time()
        if run.state is not RunState.STOPPING:
            journal.append(StopRequested(time=now, reason=reason, requested=False))
        for rank in run.ranks:
            if rank.state is RankState.RUNNING and rank.process is not None:
                code = self._exits.get(rank.process.pid, -signal.SIGKILL)
                ended = rank.process in self._signalled
                journal.append(RankExited(time=now, rank=rank.spec.rank, code=code, ended=ended))
        failed = any(rank.state is RankState.FAILED for rank in run.ranks)
        state = RunState.FAILED if failed else RunState.STOPPED
        journal.append(RunEnded(time=now, state=state, reason=reason, leftover=leftover))
        journal.close()
