"""End of a run on an engine: time and outcome, by its nodes, the engine and the requests.

The end is recorded once all output of the ranks is visible here, which a network file system may delay: so a
screen that follows the run shows its last lines. An engine may be unreachable for a while: the nodes write
into the run's directory. But a watcher must not wait forever.
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
"""Seconds after which no output arrives: NFS caches attributes for up to 60."""

_IN_A_HURRY = 5.0
_LOG_LOOK = 0.25


class LateLogs:
    """Logs of a run that are shorter here than their nodes reported. ``now`` is monotonic seconds."""

    def __init__(self, directory: RunDirectory) -> None:
        self._directory = directory
        self.forget()

    def forget(self) -> None:
        """Start again with the ranks."""
        self._since = self._looked = 0.0
        self._missing: dict[int, int] = {}

    def awaited(self, run: Run, now: float, *, hurry: bool) -> bool:
        """Return whether a log of the ended run may still grow. ``hurry``: a request ended it."""
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
        # open() fetches the length from the server; stat() need not
        with open(log, "rb") as file:
            return os.fstat(file.fileno()).st_size
    except OSError:
        return 0


_TAIL = 64_000
# the first line of ``slurm_batch`` in each life
_BEGINS = re.compile(r"nbdist: job \S+ on .*, life (\d+), meeting at ")


def last_words(directory: RunDirectory, life: int) -> str:
    """Return the job's last line in this life, which may explain its end."""
    try:
        text = directory.job_log.read_bytes()[-_TAIL:].decode("utf-8", errors="replace")
    except OSError:
        return (
            f"it left no {directory.job_log}: can the nodes see that directory? choose one that all machines "
            "share with  %env NBDIST_HOME=~/nbdist"
        )
    return last_line(text, life)


def last_line(text: str, life: int) -> str:
    """Return the last line of this life; lines before its first belong to earlier lives."""
    last = ""
    known = life == 0
    for line in map(str.strip, text.splitlines()):
        if (begins := _BEGINS.match(line)) is not None:
            last, known = "", int(begins[1]) == life
        elif line and known and not line.startswith(STEP_BEGINS):
            last = line
    return last


_SILENCE_LOOK = 2.0

_QUEUED = 6.0
"""Factor of the silence limit for a run that has not begun: a queue outlives a day of maintenance."""

_ASKED = 0.1
"""Factor of the silence limit for a run that was asked to end."""

GRACE = config.INTERRUPT_GRACE + config.TERMINATE_GRACE + 6.0
"""Seconds after which the engine kills a run that was asked to end, and whose ranks save nothing."""

_AGAIN = 3.0
"""Seconds after which the request is repeated: the supervisors may not have listened yet."""


class JobStop:
    """Request to end the job. ``reason`` is None without one; ``now`` is monotonic seconds."""

    def __init__(
        self, reason: Reason | None, poller: EnginePoller, nodes: NodeJournals, run: Callable[[], Run]
    ) -> None:
        self.reason, self.poller, self.nodes = reason, poller, nodes
        self._run = run
        self._hurried = False
        self._since = self._sent_at = self._refused_at = 0.0
        self._answers = 0

    def express(self, reason: Reason, now: float) -> bool:
        """Accept a request; return whether it is the first. A second one kills the job at once."""
        first = self.reason is None
        if first:
            self.reason, self._since = reason, now
        elif now - self._since >= config.AS_ONE:
            self._hurried = True
        return first

    def _is_late(self, now: float) -> bool:
        """Return whether the ranks have had their time, which those that save have longer."""
        longer = config.LONGEST_SAVE if self._run().saves else 0.0
        return self._hurried or now - self._since >= GRACE + longer

    def press(self, now: float) -> None:
        """Send the request to the nodes or the engine, again if need be."""
        if self.reason is None:
            return
        self._since = self._since or now
        self._answers = self._answers or self.poller.count
        phase = self.poller.status.phase
        if phase is Phase.OVER:
            return
        self.poller.hurry()
        if self._waits(phase) or self._is_late(now):
            if now - self._refused_at > GRACE or not self._refused_at:
                self._refused_at = now
                self.poller.stop(gently=False)
        elif not self._sent_at or (now - self._sent_at > _AGAIN and not self.nodes.stopping):
            if not self.poller.signals or (phase is Phase.UNKNOWN and self._sent_at):
                self.tell_nodes(self.reason)
            self._sent_at = now
            self.poller.stop(gently=True)

    def _waits(self, phase: Phase) -> bool:
        """Return whether the job has no ranks. Once nodes have begun, only the second answer after the
        request counts: the first may be older."""
        return phase is Phase.WAITING and (not self.nodes.numbers or self.poller.count > self._answers + 1)

    def tell_nodes(self, reason: Reason) -> None:
        """Write stop requests into the run's files, for an engine that is silent or has no signal."""
        for node in self.nodes.directories():
            with contextlib.suppress(OSError):
                request_stop(node, reason)


# signals that an engine sends to each process of a job
_FROM_OUTSIDE = frozenset({-signal.SIGTERM, -signal.SIGKILL, -signal.SIGINT})


def outcome_of_nodes(run: Run, ends: Mapping[int, RunEnded | RunLost]) -> Outcome | None:
    """Return the outcome by the nodes' journals, that of the first failure; None before any end."""
    if not ends:
        return None
    first = ends[_culprit(run, ends)]
    if isinstance(first, RunLost):
        return Outcome.failed(first.reason)
    return Outcome(state=first.state, reason=first.reason)


def is_doubtful(run: Run, outcome: Outcome) -> bool:
    """Return whether the engine may know better: it, or the machine, may have ended the ranks."""
    if outcome.state is RunState.FINISHED or outcome.reason.code == "time-limit":
        return False
    if outcome.state is RunState.STOPPED:
        # the exit of ranks that were asked to end is irrelevant
        return True
    failed = [rank for rank in run.ranks if rank.state is RankState.FAILED]
    return all(rank.errored is None and rank.code in _FROM_OUTSIDE for rank in failed)


def conclude(
    run: Run,
    ends: Mapping[int, RunEnded | RunLost],
    job: JobStatus,
    *,
    stop: Reason | None,
    last_words: str = "",
) -> Outcome:
    """Return the outcome, without further messages. ``stop`` is the reason of a request to end,
    ``last_words`` is the job's last line."""
    known = outcome_of_nodes(run, ends)
    if known is not None and not is_doubtful(run, known):
        return known
    if stop is not None:
        return Outcome.stopped(stop)
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
    """Return the outcome of a run that somebody else ended: most often its engine failed or forgot it."""
    if known.state is not RunState.STOPPED:
        return known
    if known.reason.origin == Reason("supervisor-got", signal="SIGURG"):
        return Outcome.stopped(Reason("starter-gone"))
    of_engine = {Phase.UNKNOWN: job.reason, Phase.FORGOTTEN: _forgotten(run)}.get(job.phase, Reason())
    more = {"engine": of_engine} if of_engine else {}
    return Outcome.failed(Reason("from-outside", why=known.reason, **more))


def _culprit(run: Run, ends: Mapping[int, RunEnded | RunLost]) -> int:
    failed = [
        (rank.errored or rank.exited or 0.0, rank.spec.node_rank)
        for rank in run.ranks
        if rank.state is RankState.FAILED and rank.spec.node_rank in ends
    ]
    if failed:
        return min(failed)[1]
    # a failure explains more than a request to end
    order = {RunState.FAILED: 0, RunState.STOPPED: 1, RunState.FINISHED: 2}
    states = {node: end.state if isinstance(end, RunEnded) else RunState.FAILED for node, end in ends.items()}
    return min(ends, key=lambda node: (order.get(states[node], 0), node))


_OTHERS = 3.0
"""Seconds for the other nodes, once one has reported the end."""

_ENGINE = 6.0
"""Seconds for the engine to explain an end from outside."""

_COMPLETING = 300.0
"""Seconds for an engine that calls the job running: Slurm reports its requeue or end only after the epilogs
of its nodes."""

_FORGOTTEN = 20.0
_HOPELESS = 3.0


class Ending:
    """Decision when and how a run has ended; ``run`` returns its state."""

    def __init__(
        self, directory: RunDirectory, spec: RunSpec, *, run: Callable[[], Run], stop: JobStop
    ) -> None:
        self._directory, self._spec, self._run = directory, spec, run
        self._stop_job, self._poller, self._nodes = stop, stop.poller, stop.nodes
        self._silence = config.engine_silence()
        self._traces: frozenset[tuple[str, int, int]] = frozenset()
        self._logs = LateLogs(directory)
        self._since: dict[str, float] = {}

    def forget(self) -> None:
        """Start again with the job."""
        self._since.clear()
        self._logs.forget()

    def decide(self, now: float) -> Outcome | None:
        """Return the outcome, or None while more may follow."""
        outcome = self._decide(now)
        if outcome is None or self._logs.awaited(self._run(), now, hurry=self._is_stopping):
            return None
        if outcome.state is RunState.LOST:
            self._stop_job.tell_nodes(outcome.reason)  # stop any node that still shows up
        return outcome

    @property
    def _is_stopping(self) -> bool:
        return self._stop_job.reason is not None

    def _decide(self, now: float) -> Outcome | None:
        job, ends = self._poller.status, self._nodes.ends
        every = len(ends) == self._spec.nodes
        known = outcome_of_nodes(self._run(), ends)
        # the engine may know more about an end without a request
        if every and known is not None and (self._is_stopping or not is_doubtful(self._run(), known)):
            return known
        if job.phase is not Phase.UNKNOWN:
            self._since.pop("silent", None)
        if job.phase is Phase.WAITING:
            return self._of_waiting(now)
        # journals of the nodes may be late
        if job.gone and (every or self._lasts("over", now) > self._patience()):
            return self._conclude()
        if ends:
            self._poller.hurry()
            completing = job.phase is Phase.RUNNING and not self._is_stopping
            patience = _COMPLETING if completing else _ENGINE
            if self._lasts("ended", now) > (patience if every else _OTHERS + _ENGINE):
                return self._conclude()
        return self._of_silence(now) if job.phase is Phase.UNKNOWN else None

    def _patience(self) -> float:
        """Return the seconds for the nodes, once the job is over."""
        if self._poller.status.phase is Phase.FORGOTTEN:
            return _FORGOTTEN
        if self._poller.status.completed:
            return LATE  # the first node reported it, and the others' reports are late
        return self._poller.linger if self._nodes.numbers else 1.0

    def _of_waiting(self, now: float) -> Outcome | None:
        job = self._poller.status
        if not job.hopeless or self._lasts("hopeless", now) <= _HOPELESS or self._is_stopping:
            return None
        self._poller.stop(gently=False)
        return Outcome.failed(Reason("engine-cannot-run", engine=self._spec.engine, why=job.reason))

    def _of_silence(self, now: float) -> Outcome | None:
        """Give up a run whose engine and nodes are silent."""
        run, limit = self._run(), self._silence
        if self._is_stopping:
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
        """Return sizes and times of the files that live supervisors and ranks change."""
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
            self._run(), self._nodes.ends, self._poller.status, stop=self._stop_job.reason, last_words=words
        )

    def _lasts(self, what: str, now: float) -> float:
        """Return the seconds since the first call for ``what``."""
        return now - self._since.setdefault(what, now)
