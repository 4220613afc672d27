"""Process that watches a run on an engine, where the run was submitted.

It replaces the supervisor of a run on this machine: it writes the run's journal, from the nodes' journals and
the engine's answers, obeys the requests in ``control/``, and ends a run whose owner has gone. The run does
not need it: the process above it, or the next that opens the run, replaces a killed one.
"""

from __future__ import annotations

import contextlib
import functools
import os
import selectors
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from nbdist.engines import engine_of
from nbdist.engines.ending import Ending, JobStop
from nbdist.engines.engine import Engine, EnginePoller, Phase, is_step
from nbdist.engines.merged_journal import NodeJournals, NodeRequests
from nbdist.errors import IllegalTransition, LaunchError, UnknownRun
from nbdist.launch.lifetime import Lifeline, Wakeup, complain, owner_ended, supervisor_started
from nbdist.launch.notices import Notices
from nbdist.launch.reaper import pass_on
from nbdist.launch.run_policy import Outcome
from nbdist.model import (
    AttemptFailed,
    Event,
    Queued,
    RankState,
    Reason,
    RemoteRank,
    RunEnded,
    RunLost,
    RunSpec,
    RunState,
    StopRequested,
)
from nbdist.store.control import RanksRequest, StacksRequest, StopRequest, take_requests
from nbdist.store.journal import Journal, load_object, read_events
from nbdist.store.paths import RunDirectory
from nbdist.store.run_store import read_spec, replayed, take_run_lock

_TICK = 0.05
_PULSE = 10.0
_LAST_ORDERS = 40.0
"""Seconds for the engine's last order: longer than a refusal may take."""

_LIVES = 5
"""Watchers that replace a killed one, before the next look at the run has to."""


class RunWatcher:
    """Watcher of one run."""

    def __init__(self, directory: RunDirectory, spec: RunSpec, lifeline: Lifeline, engine: Engine) -> None:
        self._directory = directory
        self._spec = spec
        self._lifeline = lifeline
        about = load_object(directory.job)
        self._job = str(about["job"])
        # a step waits in no queue
        self._submitted = Reason() if is_step(spec, self._job) else Reason("submitted", job=self._job)
        os.environ.update(about.get("environment", {}))
        self._journal = Journal(directory.journal, report=complain)
        known = read_events(directory.journal)
        self._run = replayed(spec, known)
        self._nodes = NodeJournals(directory, run=lambda: self._run, record=self._record, known=known)
        self._poller = EnginePoller(engine, self._job, spec)
        stop = self._run.stop_reason if self._run.stop_requested else None
        self._stop_job = JobStop(stop, self._poller, self._nodes, run=lambda: self._run)
        self._requests = NodeRequests(directory, spec, self._nodes)
        self._ending = Ending(directory, spec, run=lambda: self._run, stop=self._stop_job)
        self._selector = selectors.DefaultSelector()
        self._notices = Notices(directory)
        self._pulsed = 0.0
        self._answers = 0

    def watch(self) -> None:
        """Watch until the run has ended."""
        if self._run.state.terminal:
            return
        self._introduce()
        self._poller.start()
        while (outcome := self._look()) is None:
            pass
        self._end(outcome)

    def _introduce(self) -> None:
        wakeup = Wakeup()
        self._selector.register(wakeup.socket, selectors.EVENT_READ, lambda: self._take_signals(wakeup))
        fresh = self._run.supervisor is None
        self._record(supervisor_started())
        if fresh:
            self._record(Queued(time=time.time(), job=self._job, reason=self._submitted))
        if self._lifeline.gone:
            self._stop_for_owner()
            return  # the pidfd of a zombie is readable: a second request would hasten the end
        for descriptor in self._lifeline.descriptors():
            self._selector.register(descriptor, selectors.EVENT_READ, self._owner_gone)

    def _look(self) -> Outcome | None:
        """Wait a moment; handle requests, journals and answers. Return the outcome once the run is over."""
        for key, _ in self._selector.select(_TICK):
            key.data()
        now = time.monotonic()
        if self._directory.deleted:
            self._poller.stop(gently=False)
            return Outcome.stopped(Reason("directory-deleted"))
        self._requests.tick(now)
        if self._nodes.find():
            self._requeued()
        self._nodes.poll()
        self._serve(now)  # a rank is interrupted by its node, which has to be known
        self._beat(now)
        self._follow()
        self._stop_job.press(now)
        self._journal.flush()
        return self._ending.decide(now)

    # requests

    def _serve(self, now: float) -> None:
        for request in take_requests(self._directory):
            match request:
                case StopRequest(reason=reason):
                    self._stop(reason, now)
                case RanksRequest() if request.interrupt or request.seconds:
                    self._requests.pass_on(request)
                case StacksRequest(name=name):
                    self._requests.stacks(name, now)

    def _stop(self, reason: Reason, now: float) -> None:
        if self._stop_job.express(reason, now):
            self._record(StopRequested(time=time.time(), reason=reason))

    def _take_signals(self, wakeup: Wakeup) -> None:
        for number in wakeup.requests_to_end():
            if self._spec.detached:
                sys.exit(0)  # the run goes on, and the next process that looks at it will watch it
            self._stop(Reason("watcher-got", signal=number.name), time.monotonic())

    def _owner_gone(self) -> None:
        for descriptor in self._lifeline.descriptors():
            self._selector.unregister(descriptor)
        self._stop_for_owner()

    def _stop_for_owner(self) -> None:
        self._stop(owner_ended(self._directory, self._spec), time.monotonic())

    # states of the job

    def _follow(self) -> None:
        """Record the engine's answer about the queue."""
        job = self._poller.status
        if self._poller.count == self._answers:
            return
        self._answers = self._poller.count
        if job.phase is Phase.WAITING:
            # without a request, only the engine can have stopped the nodes
            waits = self._run.state is RunState.PENDING
            if not waits and self._stop_job.reason is None and self._nodes.numbers:
                self._nodes.forget_life()
                self._requeued()
            self._queued(job.reason)
        elif job.phase is Phase.RUNNING and not self._nodes.numbers:
            self._queued(Reason("starting-on", nodes=job.nodes) if job.nodes else Reason("starting"))
        elif job.phase is Phase.UNKNOWN and self._run.state is RunState.PENDING:
            self._queued(job.reason)

    def _queued(self, reason: Reason) -> None:
        if (
            reason
            and self._stop_job.reason is None
            and (self._run.state is not RunState.PENDING or self._run.queued != reason)
        ):
            self._record(Queued(time=time.time(), job=self._job, reason=reason))

    def _requeued(self) -> None:
        """Record that the job begins again, from the queue."""
        self._ending.forget()
        self._poller.relax()
        if self._run.started is not None:
            reason = Reason("requeued", engine=self._spec.engine)
            attempt = self._run.attempt
            self._record(AttemptFailed(time=time.time(), attempt=attempt, reason=reason))

    # end of the run

    def _end(self, outcome: Outcome) -> None:
        if outcome.state is RunState.STOPPED and self._stop_job.reason is not None:
            outcome = Outcome(state=outcome.state, reason=self._stop_job.reason)
        if len(self._nodes.ends) < self._spec.nodes and self._poller.status.phase is not Phase.OVER:
            self._poller.stop(gently=False)  # nodes that did not end by themselves
        for rank in self._run.ranks:
            if rank.state is RankState.RUNNING:
                self._record(RemoteRank(time=time.time(), rank=rank.rank, state=RankState.LOST))
        if self._spec.inputs and not self._spec.keep_inputs:
            self._directory.delete_inputs()
        self._directory.delete_environment()
        leftover = sum(end.leftover for end in self._nodes.ends.values())
        if outcome.state is RunState.LOST:
            self._record(RunLost(time=time.time(), reason=outcome.reason, leftover=leftover))
        else:
            self._record(
                RunEnded(time=time.time(), state=outcome.state, reason=outcome.reason, leftover=leftover)
            )
        self._poller.close(_LAST_ORDERS)
        self._journal.flush()
        self._journal.close()
        self._notices.finish()

    def _record(self, event: Event) -> None:
        with contextlib.suppress(IllegalTransition):
            self._run = self._run.after(event)
            self._journal.append(event)
            self._journal.flush()
            self._notices.recorded(event)

    def _beat(self, now: float) -> None:
        if now >= self._pulsed:
            self._pulsed = now + _PULSE
            with contextlib.suppress(OSError):
                self._directory.pulse.touch(mode=0o600)


def main(arguments: Sequence[str]) -> int:
    """Run the process ``RUN_DIR [LIFELINE_FD]``; return 0 once the end is recorded, 2 for no run of ours."""
    directory = RunDirectory(Path(arguments[0]).absolute())
    try:
        spec = read_spec(directory)
    except UnknownRun as error:
        complain(str(error))
        return 2
    descriptor = int(arguments[1]) if len(arguments) > 1 else None
    return watch(directory, spec, Lifeline(None if spec.detached else spec.owner, descriptor))


def watch(directory: RunDirectory, spec: RunSpec, lifeline: Lifeline) -> int:
    """Watch the run in a child, and in another when that is killed; return 0 once the end is recorded. A
    child whose parent is killed continues, and holds the lock."""
    try:
        take_run_lock(directory)
    except BlockingIOError:
        return 0  # it is watched
    except OSError:
        pass  # no locks there
    if _is_elsewhere(directory, spec):
        return 0
    for _ in range(_LIVES):
        child = os.fork()
        if child == 0:
            RunWatcher(directory, spec, lifeline, _engine(directory, spec)).watch()
            return 0
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, functools.partial(pass_on, child))
        if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0:
            return 0
    return 1


def _is_elsewhere(directory: RunDirectory, spec: RunSpec) -> bool:
    """Return whether the job is on another cluster: several may share a home, and number their jobs alike.
    The first watcher starts where the job was submitted."""
    about = load_object(directory.job)
    if not about.get("cluster") or not read_events(directory.journal):
        return False
    os.environ.update(about.get("environment", {}))
    with contextlib.suppress(LaunchError):
        here = _engine(directory, spec).cluster()
        return bool(here) and here != about["cluster"]
    return True  # a machine without Slurm's commands


def _engine(directory: RunDirectory, spec: RunSpec) -> Engine:
    """Return the run's engine, for its queue or as a step of a job."""
    return engine_of(spec, as_step=is_step(spec, str(load_object(directory.job)["job"])))
