"""The process that looks after a run which an engine has placed, where the run was submitted.

It stands where the supervisor of a run on this machine stands: it writes the run's journal, from those of the
nodes and from what the engine says; it takes the requests in ``control/``, and it ends a run whose owner has
gone. The run itself does not need it: one that is killed is replaced, by the process above it or by whoever
looks at the run next.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import selectors
import signal
import sys
import time

from nbdist import config, processes
from nbdist.errors import IllegalTransition
from nbdist.launch.clerk import Clerk
from nbdist.launch.course import Outcome
from nbdist.launch.lifetime import Lifeline, die_with_parent
from nbdist.launch.merging import NodeJournals
from nbdist.launch.verdict import conclude, is_doubtful, outcome_of_nodes
from nbdist.launch.wakeup import Wakeup
from nbdist.model import (
    AttemptFailed,
    Event,
    Queued,
    RankState,
    RemoteRank,
    Run,
    RunEnded,
    RunLost,
    RunSpec,
    RunState,
    StopRequested,
    SupervisorStarted,
)
from nbdist.schedulers.engine import Engine, Phase, engine_by_name
from nbdist.store.control import (
    InterruptRequest,
    StacksRequest,
    StopRequest,
    request_interrupt,
    request_stop,
    take_requests,
)
from nbdist.store.custody import take_custody
from nbdist.store.journal import Journal, read_events
from nbdist.store.paths import RunDirectory

_TICK = 0.05
_PULSE = 10.0
_LIVES = 5
"""How often a watcher that was killed is replaced before somebody has to look at the run."""

_AGAIN = 3.0
"""Seconds after which the supervisors are told again to end the run: they may not have listened yet."""

_KINDNESS = config.INTERRUPT_GRACE + config.TERMINATE_GRACE + 6.0
"""Seconds after which a run that was asked to end is ended by the engine."""

_OTHERS = 3.0
"""Seconds that the other nodes have, once one has said how the run ended."""

_ENGINE = 6.0
"""Seconds that the engine has, to say what it knows of an end that came from outside."""

_FORGOTTEN = 20.0
_HOPELESS = 3.0
_TAIL = 2000


class Watch:
    """Watches one run to its end."""

    def __init__(self, directory: RunDirectory, spec: RunSpec, lifeline: Lifeline, engine: Engine) -> None:
        self._directory = directory
        self._spec = spec
        self._lifeline = lifeline
        about = json.loads(directory.job.read_text(encoding="utf-8"))
        self._job = str(about["job"])
        os.environ.update(about.get("environment", {}))
        self._journal = Journal(directory.journal, report=_complain)
        known = read_events(directory.journal)
        self._run = _replay(spec, known)
        self._nodes = NodeJournals(directory, run=lambda: self._run, record=self._record, known=known)
        self._clerk = Clerk(engine, self._job, spec)
        self._selector = selectors.DefaultSelector()
        self._asked = self._run.stop_reason or None
        self._asked_at = self._told_at = self._refused_at = 0.0
        self._pulsed = 0.0
        self._since: dict[str, float] = {}
        self._answers = 0

    def watch(self) -> None:
        """Until the run has ended."""
        if self._run.state.terminal:
            return
        self._introduce()
        self._clerk.start()
        while (outcome := self._look()) is None:
            pass
        self._end(outcome)

    def _introduce(self) -> None:
        wakeup = Wakeup()
        self._selector.register(wakeup.socket, selectors.EVENT_READ, lambda: self._take_signals(wakeup))
        for descriptor in self._lifeline.descriptors():
            self._selector.register(descriptor, selectors.EVENT_READ, self._owner_gone)
        myself = processes.identify(os.getpid())
        assert myself is not None, "a running process is in the process table"
        host = os.uname().nodename
        fresh = self._run.supervisor is None
        self._record(
            SupervisorStarted(
                time=time.time(),
                pid=myself.pid,
                start_time=myself.start_time,
                boot_id=myself.boot_id,
                host=host,
            )
        )
        if fresh:
            self._queued(f"submitted as job {self._job}")
        if self._lifeline.gone:
            self._stop_for_owner()

    def _look(self) -> Outcome | None:
        """Wait a moment and take what has come. The outcome, once there is nothing left to wait for."""
        for key, _ in self._selector.select(_TICK):
            key.data()
        now = time.monotonic()
        self._serve(now)
        if not self._directory.path.is_dir():
            self._clerk.stop(kindly=False)
            return Outcome(state=RunState.CANCELLED, reason="the directory of the run was deleted")
        if self._nodes.poll():
            self._requeued()
        self._beat(now)
        self._follow()
        if self._asked is not None:
            self._press(now)
        self._journal.flush()
        return self._decide(now)

    # what is asked for

    def _serve(self, now: float) -> None:
        for request in take_requests(self._directory):
            match request:
                case StopRequest(reason=reason):
                    self._stop(reason, now)
                case InterruptRequest(rank=rank):
                    self._pass_on_interrupt(rank)
                case StacksRequest():
                    pass

    def _pass_on_interrupt(self, rank: int) -> None:
        if 0 <= rank < self._spec.world_size:
            name = f"{self._nodes.life}-{self._spec.ranks[rank].node_rank}"
            for node in self._nodes.directories():
                if node.name == name:
                    with contextlib.suppress(OSError):
                        request_interrupt(node, rank)

    def _stop(self, reason: str, now: float) -> None:
        if self._asked is None:
            self._asked, self._asked_at = reason, now
            self._record(StopRequested(time=time.time(), reason=reason))
        else:
            self._asked_at = now - _KINDNESS  # somebody is in a hurry

    def _press(self, now: float) -> None:
        """See to it that the engine ends the job."""
        job = self._clerk.status
        if not self._asked_at:
            self._asked_at = now
        if job.phase is Phase.OVER:
            return
        self._clerk.hurry()
        late = now - self._asked_at >= _KINDNESS
        if job.phase is Phase.WAITING or late:
            if now - self._refused_at > _KINDNESS or not self._refused_at:
                self._refused_at = now
                self._clerk.stop(kindly=False)
        elif not self._told_at or (now - self._told_at > _AGAIN and not self._nodes.stopping):
            if job.phase is Phase.UNKNOWN and self._told_at:
                self._tell_nodes()
            self._told_at = now
            self._clerk.stop(kindly=True)

    def _tell_nodes(self) -> None:
        """By the file system: the engine does not answer."""
        for node in self._nodes.directories():
            with contextlib.suppress(OSError):
                request_stop(node, self._asked or "")

    def _take_signals(self, wakeup: Wakeup) -> None:
        for number in wakeup.requests_to_end():
            if self._spec.detached:
                sys.exit(0)  # the run goes on, and whoever looks next will watch it
            self._stop(f"the process that watches it got {number.name}", time.monotonic())

    def _owner_gone(self) -> None:
        for descriptor in self._lifeline.descriptors():
            self._selector.unregister(descriptor)
        self._stop_for_owner()

    def _stop_for_owner(self) -> None:
        of_a_cell = self._directory.is_cell(self._spec.program)
        owner = "the notebook's kernel" if of_a_cell else "the process that started it"
        self._stop(f"{owner} ended", time.monotonic())

    # how the job stands

    def _follow(self) -> None:
        """Write down what the engine says about the queue."""
        job = self._clerk.status
        if self._clerk.count == self._answers:
            return
        self._answers = self._clerk.count
        if job.phase is Phase.WAITING:
            # a run that nobody asked to end is stopping because the engine has told its nodes so
            waits = self._run.state is RunState.PENDING
            if not waits and self._asked is None and self._nodes.numbers:
                self._nodes.forget_life()
                self._requeued()
            self._queued(job.reason)
        elif job.phase is Phase.RUNNING and not self._nodes.numbers:
            self._queued(f"starting on {job.nodes}" if job.nodes else "starting")
        elif job.phase is Phase.UNKNOWN and self._run.state is RunState.PENDING:
            self._queued(job.reason)

    def _queued(self, reason: str) -> None:
        if (
            reason
            and self._asked is None
            and (self._run.state is not RunState.PENDING or self._run.queued != reason)
        ):
            self._record(Queued(time=time.time(), job=self._job, reason=reason))

    def _requeued(self) -> None:
        """The job begins again, from the queue."""
        self._since.clear()
        self._clerk.relax()
        if self._run.started is not None:
            reason = f"{self._spec.engine} put the job into its queue again"
            attempt = self._run.attempt
            self._record(AttemptFailed(time=time.time(), attempt=attempt, reason=reason))

    # how the run ends

    def _decide(self, now: float) -> Outcome | None:
        """The outcome, once there is nothing left to wait for."""
        job, ends = self._clerk.status, self._nodes.ends
        every = len(ends) == self._spec.nodes
        known = outcome_of_nodes(self._run, ends)
        if every and known is not None and not self._is_open(known):
            return known
        if job.phase is Phase.WAITING:
            if job.hopeless and self._lasts("hopeless", now) > _HOPELESS and self._asked is None:
                self._clerk.stop(kindly=False)
                return Outcome(
                    state=RunState.FAILED, reason=f"{self._spec.engine} cannot run it: {job.reason}"
                )
            return None
        over = job.phase in (Phase.OVER, Phase.FORGOTTEN)
        if over:
            # what the nodes have written may be on its way
            patience = 1.0 if job.phase is Phase.OVER else _FORGOTTEN
            if every or self._lasts("over", now) > patience:
                return self._conclude()
        if ends:
            self._clerk.hurry()
            if self._lasts("ended", now) > (_ENGINE if every else _OTHERS + _ENGINE):
                return self._conclude()
        return None

    def _is_open(self, known: Outcome) -> bool:
        """Whether the engine may have to say something about this end. What was asked for is known."""
        return self._asked is None and is_doubtful(self._run, known)

    def _conclude(self) -> Outcome:
        words = _last_line(self._directory)
        return conclude(self._run, self._nodes.ends, self._clerk.status, asked=self._asked, last_words=words)

    def _lasts(self, what: str, now: float) -> float:
        """Seconds since this was first so."""
        return now - self._since.setdefault(what, now)

    def _end(self, outcome: Outcome) -> None:
        if outcome.state is RunState.CANCELLED and self._asked is not None:
            outcome = Outcome(state=outcome.state, reason=self._asked)
        if len(self._nodes.ends) < self._spec.nodes and self._clerk.status.phase is not Phase.OVER:
            self._clerk.stop(kindly=False)  # what has not ended by itself
        for rank in self._run.ranks:
            if rank.state is RankState.RUNNING:
                self._record(RemoteRank(time=time.time(), rank=rank.rank, state=RankState.LOST))
        leftover = sum(end.leftover for end in self._nodes.ends.values())
        if outcome.state is RunState.LOST:
            self._record(RunLost(time=time.time(), reason=outcome.reason, leftover=leftover))
        else:
            self._record(
                RunEnded(time=time.time(), state=outcome.state, reason=outcome.reason, leftover=leftover)
            )
        self._clerk.close(30.0)
        self._journal.flush()
        self._journal.close()

    def _record(self, event: Event) -> None:
        with contextlib.suppress(IllegalTransition):
            self._run = self._run.after(event)
            self._journal.append(event)

    def _beat(self, now: float) -> None:
        if now >= self._pulsed:
            self._pulsed = now + _PULSE
            with contextlib.suppress(OSError):
                self._directory.pulse.touch(mode=0o600)


def watch(directory: RunDirectory, spec: RunSpec, lifeline: Lifeline) -> int:
    """Watch the run in a child, and in another one when that is killed. 0 when the end is recorded."""
    try:
        take_custody(directory)
    except BlockingIOError:
        return 0  # it is watched
    except OSError:
        pass  # no locks there
    keeper = os.getpid()
    for _ in range(_LIVES):
        child = os.fork()
        if child == 0:
            die_with_parent(keeper, signal.SIGTERM)
            Watch(directory, spec, lifeline, engine_by_name(spec.engine)).watch()
            return 0
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, functools.partial(_pass_on, child))
        if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0:
            return 0
    return 1


def _pass_on(child: int, number: int, _: object) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(child, number)


def _replay(spec: RunSpec, events: list[Event]) -> Run:
    run = Run.of(spec)
    for event in events:
        with contextlib.suppress(IllegalTransition):
            run = run.after(event)
    return run


def _last_line(directory: RunDirectory) -> str:
    """What the job said last about itself, where that tells why it ended."""
    try:
        text = directory.job_log.read_bytes()[-_TAIL:].decode("utf-8", errors="replace")
    except OSError:
        return (
            f"it left no {directory.job_log}: can the nodes see that directory? choose one that all machines "
            "share with  %env NBDIST_HOME=~/nbdist"
        )
    lines = [
        line.strip() for line in text.splitlines() if line.strip() and not line.startswith("nbdist: job")
    ]
    return lines[-1] if lines else ""


def _complain(message: str) -> None:
    print(f"nbdist: {message}", file=sys.stderr)
