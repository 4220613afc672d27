"""The process of a sweep, which starts a run for each point, as many at a time as there is room for.

It owns the runs: when it ends, however it ends, their supervisors end them. Unless the sweep is detached, it
stops them and ends when the process that started it does.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import asdict
from math import inf
from pathlib import Path

from nbdist import processes
from nbdist.errors import NbdistError, UnknownRun
from nbdist.launch.binding import wake_with_parent
from nbdist.launch.lifetime import Lifeline, Wakeup, complain
from nbdist.model import AT_LIMIT, Reason, Run
from nbdist.model.plan import Plan, Program
from nbdist.model.sweep import Sweep
from nbdist.runner.handle import RunHandle
from nbdist.runner.launching import start
from nbdist.store.control import StopRequest, take_requests
from nbdist.store.journal import write_reserved
from nbdist.store.paths import SweepDirectory, write_private
from nbdist.store.run_store import read_sweep
from nbdist.warm.pool import WarmPool

_TICK = 0.02  # seconds between two looks at the runs
_FIRST_STEPS = 120.0  # seconds that a program has for its first steps, at least


class Place:
    """A place for one run at a time, which meanwhile makes ranks ready for the next one."""

    def __init__(self, warm: bool | None, span: float | None = None) -> None:
        """Store the seconds ``span`` after which runs of a scale are ended."""
        self._warm = warm
        self._span = span
        self._pool = WarmPool()
        self._handle: RunHandle | None = None
        # of the running run, until ranks are made ready beside it
        self._plan: Plan | None = None

    def start(self, plan: Plan, *, more: bool) -> None:
        """Start a run; ``more``: others will follow. Raises NbdistError, with nothing running."""
        self._handle = handle = start(plan, warm=self._warm, pool=self._pool)
        self._trains, self._end = False, inf
        if self._span is not None:
            self._end = time.monotonic() + max(self._span, _FIRST_STEPS)
        for note in handle.notes:
            complain(f"{plan.spec.name}: {note}")
        self._plan = plan if more else None

    def busy(self) -> bool:
        """Return whether its run goes on."""
        if self._handle is not None:
            try:
                run = self._handle.run
                if not run.state.terminal:
                    self._make_ready(self._handle, run)
                    self._end_in_time(self._handle, run)
                    return True
            except UnknownRun:
                pass  # it was deleted, and its supervisor ends it
            self._handle = None
        return False

    def _make_ready(self, handle: RunHandle, run: Run) -> None:
        """Begin the ranks of the next run, unless those of this one still import ahead."""
        if self._plan is not None and run.started is not None and not run.importing:
            directory = handle.directory
            self._pool.after(self._plan, warm=self._warm, directory=directory, goes_on=True, hurry=True)
            self._plan = None

    def _end_in_time(self, handle: RunHandle, run: Run) -> None:
        """Request the end of a scale's run, whose span begins with its first record of steps."""
        now, steps = time.monotonic(), handle.directory.rank(0, run.attempt).steps
        if self._span is not None and not self._trains and steps.exists():
            self._trains, self._end = True, now + self._span
        if now >= self._end:
            self._end = inf
            handle.request_stop(Reason(AT_LIMIT))

    def stop(self, reason: Reason) -> None:
        """Request the end of its run, if one goes on."""
        if self._handle is not None:
            with contextlib.suppress(UnknownRun):
                self._handle.request_stop(reason)

    def leave(self) -> None:
        """Release the ranks that wait: no other run comes."""
        self._pool.release()


class Sweeper:
    """The runs of one sweep. ``plan`` plans a point in a slot; ``listen`` waits for requests to stop."""

    def __init__(
        self,
        sweep: Sweep,
        places: Sequence[Place],
        *,
        plan: Callable[[int, int], Plan],
        listen: Callable[[], Sequence[Reason]],
    ) -> None:
        self._waiting = deque(range(len(sweep.points)))
        self._places = places
        self._plan = plan
        self._listen = listen
        self._reason = Reason()

    def run(self) -> Reason:
        """Start runs until every one has ended; return why the sweep ended early, if it did."""
        while True:
            free = [slot for slot, place in enumerate(self._places) if not place.busy()]
            for slot in free:
                self._fill(slot)
            if len(free) == len(self._places) and not any(place.busy() for place in self._places):
                return self._reason
            for reason in self._listen():
                self._stop(reason)

    def _fill(self, slot: int) -> None:
        place = self._places[slot]
        if not self._waiting:
            place.leave()
            return
        number = self._waiting.popleft()
        try:
            # the points that wait are for all places
            place.start(self._plan(number, slot), more=len(self._waiting) > slot)
        except (NbdistError, OSError) as error:
            # the next point would fail, too
            complain(f"point {number + 1}: {error}")
            self._reason = self._reason or Reason("sweep-stuck", point=number + 1, problem=str(error))
            self._waiting.clear()

    def _stop(self, reason: Reason) -> None:
        self._reason = self._reason or reason
        self._waiting.clear()
        for place in self._places:
            place.stop(reason)


class Listener:
    """A wait for a reason to end a sweep: a request, a signal, the end of its owner, a deleted directory."""

    def __init__(self, directory: SweepDirectory, owner_ended: Reason, lifeline: Lifeline) -> None:
        self._directory = directory
        self._owner_ended = owner_ended
        self._wakeup = Wakeup()
        self._owner = lifeline.descriptors()
        self._gone = lifeline.gone
        self._deleted = False

    def __call__(self) -> list[Reason]:
        ready, _, _ = select.select([self._wakeup.socket.fileno(), *self._owner], [], [], _TICK)
        reasons: list[Reason] = []
        if self._wakeup.socket.fileno() in ready:
            reasons += [Reason("sweep-got", signal=number.name) for number in self._wakeup.requests_to_end()]
        if self._gone or any(descriptor in ready for descriptor in self._owner):
            self._gone, self._owner = False, []
            reasons.append(self._owner_ended)
        if self._directory.deleted and not self._deleted:
            self._deleted = True
            reasons.append(Reason("directory-deleted"))
        requests = take_requests(self._directory)
        return reasons + [request.reason for request in requests if isinstance(request, StopRequest)]


def main(arguments: Sequence[str]) -> int:
    """Run the process: ``SWEEP_DIR LOCK_FD [LIFELINE_FD]``. Exits 0 when the sweep's end is recorded."""
    directory = SweepDirectory(Path(arguments[0]).absolute())
    for descriptor in map(int, arguments[1:]):
        os.set_inheritable(descriptor, False)
    # so that this process, if a signal stopped it, notices the end of the kernel
    wake_with_parent()
    environment, myself = dict(os.environ), processes.identify(os.getpid())
    assert myself is not None, "a running process is in the process table"
    with contextlib.suppress(OSError):
        write_private(directory.process, json.dumps(asdict(myself)))
    sweep = read_sweep(directory)
    spec, scale = sweep.spec, sweep.span is not None
    line = int(arguments[2]) if len(arguments) > 2 else None
    listener = Listener(
        directory,
        Reason("kernel-ended" if sweep.is_cell else "starter-ended"),
        Lifeline(None if spec.detached else spec.owner, line),
    )
    program = Program.parse(directory.cell.read_text(encoding="utf-8", errors="surrogatepass"), spec.program)

    def plan(number: int, slot: int) -> Plan:
        return Plan(
            spec=sweep.run_of(number, slot=slot, created=time.time(), owner=myself),
            program=program,
            is_cell=sweep.is_cell,
            environment=environment,
            notes=(),
            write_inputs=(lambda path: os.link(directory.inputs, path)) if spec.inputs else None,
        )

    places = [Place(sweep.warm, sweep.span) for _ in range(1 if scale else len(sweep.slots))]
    reason = Sweeper(sweep, places, plan=plan, listen=listener).run()
    if scale:
        shutil.rmtree(spec.checkpoints, ignore_errors=True)
    if not spec.keep_inputs:
        directory.delete_inputs()
    with contextlib.suppress(OSError):
        write_reserved(directory.ended, json.dumps({"reason": reason.encode()}))
    return 0
