"""When a run on an engine has ended, and how: by its nodes, by the engine, and by what was asked.

The end is written down when all that the ranks wrote is to be seen here, which a network file system may
show late: so a screen that shows the run to its end has its last lines. An engine that is away for a while
loses nothing: what the nodes do is seen in the run's directory. But a watcher must not wait for ever for one
that will never come again.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
from collections.abc import Callable, Mapping
from pathlib import Path

from nbdist import config
from nbdist.engines.engine import EnginePoller, JobStatus, Phase
from nbdist.engines.merged_journal import NodeJournals
from nbdist.engines.slurm_batch import STEP_BEGINS
from nbdist.launch.run_policy import Outcome
from nbdist.model import RankState, Reason, Run, RunEnded, RunLost, RunSpec, RunState
from nbdist.store.control import request_stop
from nbdist.store.logs import FileStat, is_listed
from nbdist.store.paths import RunDirectory

LATE = 70.0
"""Seconds after which nothing comes any more: NFS caches attributes for up to 60."""

_IN_A_HURRY = 5.0
_LOG_LOOK = 0.25


class LateLogs:
    """Keeps the end of a run back until its logs are as long here as their nodes have written. ``now`` is
    monotonic seconds."""

    def __init__(self, directory: RunDirectory) -> None:
        self._directory = directory
        self.forget()

    def forget(self) -> None:
        """Start anew: the ranks begin again."""
        self._since = self._looked = 0.0
        self._missing: dict[int, int] = {}

    def awaited(self, run: Run, now: float, *, hurry: bool) -> bool:
        """Return whether a log of the run, which is over, may yet grow. ``hurry``: its end was asked for."""
        if not self._since:
            self._since = now
            self._missing = {rank.rank: rank.log for rank in run.ranks if rank.log}
        elif now - self._looked < _LOG_LOOK:
            return bool(self._missing)
        self._looked = now
        late = now - self._since > (_IN_A_HURRY if hurry else LATE)
        self._missing = {
            rank: length
            for rank, length in self._missing.items()
            if not late and _length(self._directory.rank(rank, run.attempt).log) < length
        }
        return bool(self._missing)


def _length(log: Path) -> int:
    try:
        # to open a file asks the server how long it is; to look at its name need not
        with open(log, "rb") as file:
            return os.fstat(file.fileno()).st_size
    except OSError:
        return 0


_TAIL = 64_000
# what ``slurm_batch`` says first in each life
_BEGINS = re.compile(r"nbdist: job \S+ on .*, life (\d+), meeting at ")


def last_words(directory: RunDirectory, life: int) -> str:
    """The last line that the job wrote in this life, which may tell why it ended."""
    try:
        text = directory.job_log.read_bytes()[-_TAIL:].decode("utf-8", errors="replace")
    except OSError:
        return (
            f"it left no {directory.job_log}: can the nodes see that directory? choose one that all machines "
            "share with  %env NBDIST_HOME=~/nbdist"
        )
    return last_line(text, life)


def last_line(text: str, life: int) -> str:
    """The last line of this life; lines before its first one belong to earlier lives."""
    said: list[str] = []
    known = life == 0
    for line in map(str.strip, text.splitlines()):
        if (begins := _BEGINS.match(line)) is not None:
            said, known = [], int(begins[1]) == life
        elif line and known and not line.startswith(STEP_BEGINS):
            said.append(line)
    return said[-1] if said else ""


_SILENCE_LOOK = 2.0

_QUEUED = 6.0
"""So much longer it may take for a run that has not begun: a queue outlives a day of maintenance."""

_ASKED = 0.1
"""Of a run that is to end it takes this part of the time."""

GRACE = config.INTERRUPT_GRACE + config.TERMINATE_GRACE + 6.0
"""Seconds after which a run that was asked to end is ended by the engine."""

_AGAIN = 3.0
"""Seconds after which the supervisors are told again to end the run: they may not have listened yet."""


class JobStop:
    """Ends the job. ``reason`` is why the run is to end; None while it is not. ``now`` is monotonic."""

    def __init__(self, reason: Reason | None, poller: EnginePoller, nodes: NodeJournals) -> None:
        self.reason = reason
        self._poller = poller
        self._nodes = nodes
        self._since = self._told_at = self._refused_at = 0.0
        self._answers = 0

    def express(self, reason: Reason, now: float) -> bool:
        """Take the request to end the run; return whether it is the first. A second one hastens the end."""
        first = self.reason is None
        if first:
            self.reason, self._since = reason, now
        else:
            self._since = now - GRACE
        return first

    def press(self, now: float) -> None:
        """See to it that the engine ends the job, once it was asked for."""
        if self.reason is None:
            return
        self._since = self._since or now
        self._answers = self._answers or self._poller.count
        phase = self._poller.status.phase
        if phase is Phase.OVER:
            return
        self._poller.hurry()
        if self._waits(phase) or now - self._since >= GRACE:
            if now - self._refused_at > GRACE or not self._refused_at:
                self._refused_at = now
                self._poller.stop(gently=False)
        elif not self._told_at or (now - self._told_at > _AGAIN and not self._nodes.stopping):
            if not self._poller.signals or (phase is Phase.UNKNOWN and self._told_at):
                self.tell_nodes(self.reason)
            self._told_at = now
            self._poller.stop(gently=True)

    def _waits(self, phase: Phase) -> bool:
        """Return whether the job has no ranks to be asked. Where nodes have begun since the engine answered,
        the second answer after the request is believed: the first may have been on its way."""
        return phase is Phase.WAITING and (not self._nodes.numbers or self._poller.count > self._answers + 1)

    def tell_nodes(self, reason: Reason) -> None:
        """Write stop requests into the run's files: the engine does not answer, or has no signal."""
        for node in self._nodes.directories():
            with contextlib.suppress(OSError):
                request_stop(node, reason)


# what an engine sends to each process of a job that it ends
_FROM_OUTSIDE = frozenset({-signal.SIGTERM, -signal.SIGKILL, -signal.SIGINT})


def outcome_of_nodes(run: Run, ends: Mapping[int, RunEnded | RunLost]) -> Outcome | None:
    """The outcome by the nodes' journals: that of the first failure. None when no node has ended."""
    if not ends:
        return None
    first = ends[_culprit(run, ends)]
    if isinstance(first, RunLost):
        return Outcome.failed(first.reason)
    return Outcome(state=first.state, reason=first.reason)


def is_doubtful(run: Run, outcome: Outcome) -> bool:
    """Whether the engine may know better, because it or the machine has ended the ranks."""
    if outcome.state is RunState.SUCCEEDED or outcome.reason.code == "time-limit":
        return False
    if outcome.state is RunState.CANCELLED:
        # whatever the ranks did when they were told to end
        return True
    failed = [rank for rank in run.ranks if rank.state is RankState.FAILED]
    return all(rank.errored is None and rank.code in _FROM_OUTSIDE for rank in failed)


def conclude(
    run: Run,
    ends: Mapping[int, RunEnded | RunLost],
    job: JobStatus,
    *,
    asked: Reason | None,
    last_words: str = "",
) -> Outcome:
    """How the run ended; the caller waits for no more messages.

    ``asked`` is why it was asked to end, ``last_words`` what the job itself has said.
    """
    known = outcome_of_nodes(run, ends)
    if known is not None and not is_doubtful(run, known):
        return known
    if asked is not None:
        return Outcome.cancelled(asked)
    if job.phase is Phase.OVER and job.outcome is not None:
        return Outcome(state=job.outcome, reason=job.reason)
    if known is not None:
        return _from_outside(run, known, job)
    if job.phase is Phase.OVER:
        code = "job-ended-early" if run.started is None else "job-ended-silent"
        reason = Reason(code, last=last_words) if last_words else Reason(code, why=job.reason)
        return Outcome.failed(reason)
    return Outcome(state=RunState.LOST, reason=_forgotten(run))


def _forgotten(run: Run) -> Reason:
    return Reason("engine-forgot", engine=run.spec.engine, job=run.job)


def _from_outside(run: Run, known: Outcome, job: JobStatus) -> Outcome:
    """Of a run that was told to end, and not by its watcher: most often its engine has gone,
    or come back without it."""
    if known.state is not RunState.CANCELLED:
        return known
    if known.reason.origin == Reason("supervisor-got", signal="SIGURG"):
        return Outcome.cancelled(Reason("starter-gone"))
    of_engine = {Phase.UNKNOWN: job.reason, Phase.FORGOTTEN: _forgotten(run)}.get(job.phase, Reason())
    more = {"engine": of_engine} if of_engine else {}
    reason = Reason("from-outside", why=known.reason, **more)
    return Outcome.failed(reason)


def _culprit(run: Run, ends: Mapping[int, RunEnded | RunLost]) -> int:
    failed = [
        (rank.errored or rank.exited or 0.0, rank.spec.node_rank)
        for rank in run.ranks
        if rank.state is RankState.FAILED and rank.spec.node_rank in ends
    ]
    if failed:
        return min(failed)[1]
    # a node that reports a failure knows more than one that was asked to end
    order = {RunState.FAILED: 0, RunState.CANCELLED: 1, RunState.SUCCEEDED: 2}
    states = {node: end.state if isinstance(end, RunEnded) else RunState.FAILED for node, end in ends.items()}
    return min(ends, key=lambda node: (order.get(states[node], 0), node))


_OTHERS = 3.0
"""Seconds that the other nodes have, once one has said how the run ended."""

_ENGINE = 6.0
"""Seconds that the engine has, to say what it knows of an end that came from outside."""

_COMPLETING = 300.0
"""Seconds that it has while it answers that the job is not over: Slurm says that a job was put into the queue
again, or why it ended, when the epilogs of its nodes have ended."""

_FORGOTTEN = 20.0
_HOPELESS = 3.0


class Ending:
    """Decides when and how a run has ended. ``run`` returns how it stands; ``silence`` are the seconds after
    which an engine that does not answer is given up."""

    def __init__(
        self,
        directory: RunDirectory,
        spec: RunSpec,
        *,
        run: Callable[[], Run],
        poller: EnginePoller,
        nodes: NodeJournals,
        stop: JobStop,
    ) -> None:
        self._directory = directory
        self._spec = spec
        self._run = run
        self._poller = poller
        self._nodes = nodes
        self._stop_job = stop
        self._silence = config.engine_silence()
        self._traces: frozenset[tuple[str, int, int]] = frozenset()
        self._logs = LateLogs(directory)
        self._since: dict[str, float] = {}

    def forget(self) -> None:
        """Start anew: the job begins again."""
        self._since.clear()
        self._logs.forget()

    def decide(self, now: float) -> Outcome | None:
        """Return the outcome, once there is nothing left to wait for."""
        outcome = self._decide(now)
        if outcome is None or self._logs.awaited(self._run(), now, hurry=self._is_asked):
            return None
        if outcome.state is RunState.LOST:
            self._stop_job.tell_nodes(outcome.reason)  # stop any node that still shows up
        return outcome

    @property
    def _is_asked(self) -> bool:
        """Whether the run was asked to end."""
        return self._stop_job.reason is not None

    def _decide(self, now: float) -> Outcome | None:
        job, ends = self._poller.status, self._nodes.ends
        every = len(ends) == self._spec.nodes
        known = outcome_of_nodes(self._run(), ends)
        # the engine may know more about an end that nobody here asked for
        if every and known is not None and (self._is_asked or not is_doubtful(self._run(), known)):
            return known
        if job.phase is not Phase.UNKNOWN:
            self._since.pop("silent", None)
        if job.phase is Phase.WAITING:
            return self._of_waiting(now)
        # what the nodes have written may be on its way
        if job.gone and (every or self._lasts("over", now) > self._patience()):
            return self._conclude()
        if ends:
            self._poller.hurry()
            if self._lasts("ended", now) > self._engine_patience(every=every):
                return self._conclude()
        return self._of_silence(now) if job.phase is Phase.UNKNOWN else None

    def _engine_patience(self, *, every: bool) -> float:
        """Return the seconds that the engine has, once the nodes have ended, or some of them."""
        if not every:
            return _OTHERS + _ENGINE
        completing = self._poller.status.phase is Phase.RUNNING
        return _COMPLETING if completing and not self._is_asked else _ENGINE

    def _patience(self) -> float:
        """Return the seconds that the nodes have, once the job is over."""
        if self._poller.status.phase is Phase.FORGOTTEN:
            return _FORGOTTEN
        if self._poller.status.completed:
            return LATE  # the first node has said so, and what the others have said is late
        return self._poller.linger if self._nodes.numbers else 1.0

    def _of_waiting(self, now: float) -> Outcome | None:
        job = self._poller.status
        if not job.hopeless or self._lasts("hopeless", now) <= _HOPELESS or self._is_asked:
            return None
        self._poller.stop(gently=False)
        return Outcome.failed(Reason("engine-cannot-run", engine=self._spec.engine, why=job.reason))

    def _of_silence(self, now: float) -> Outcome | None:
        """Give a run up whose engine does not answer, and of whose nodes nothing is seen."""
        run, limit = self._run(), self._silence
        if self._is_asked:
            limit *= _ASKED
        elif not self._nodes.numbers:
            limit *= _QUEUED
        if self._lasts("not looked", now) >= _SILENCE_LOOK or "silent" not in self._since:
            self._since["not looked"] = now
            if (traces := self._look(run)) != self._traces:
                self._traces = traces
                self._since.pop("silent", None)
        if self._lasts("silent", now) < limit:
            return None
        why = self._poller.status.reason or Reason("engine-silent", engine=run.spec.engine)
        code = "nodes-silent" if run.started is not None else "never-begun"
        return Outcome(state=RunState.LOST, reason=Reason(code, why=why, job=run.job))

    def _look(self, run: Run) -> frozenset[tuple[str, int, int]]:
        """Return the files that change while supervisors and ranks live: sizes and times, by any machine's
        clock."""
        files = [self._directory.rank(rank.rank, run.attempt) for rank in run.spec.ranks]
        paths = [node.journal for node in self._nodes.directories()]
        paths += [path for each in files for path in (each.log, each.system)]
        traces = set()
        for path in filter(is_listed, paths):
            with contextlib.suppress(OSError):
                status = FileStat(path).look()
                traces.add((str(path), status.st_size, status.st_mtime_ns))
        return frozenset(traces)

    def _conclude(self) -> Outcome:
        words = last_words(self._directory, self._nodes.life)
        return conclude(
            self._run(), self._nodes.ends, self._poller.status, asked=self._stop_job.reason, last_words=words
        )

    def _lasts(self, what: str, now: float) -> float:
        """Return the seconds since this was first so."""
        return now - self._since.setdefault(what, now)
