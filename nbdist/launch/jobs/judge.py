"""When a run on an engine has ended, and how: who is waited for, how long. The words are in ``verdict``."""

from __future__ import annotations

from collections.abc import Callable

from nbdist.launch.course import Outcome
from nbdist.launch.jobs.clerk import Clerk
from nbdist.launch.jobs.last_words import last_words
from nbdist.launch.jobs.late_logs import LATE, LateLogs
from nbdist.launch.jobs.merging import NodeJournals
from nbdist.launch.jobs.silence import Silence
from nbdist.launch.jobs.verdict import conclude, given_up, is_doubtful, outcome_of_nodes
from nbdist.launch.jobs.wish import Wish
from nbdist.model import Reason, Run, RunSpec, RunState
from nbdist.schedulers.engine import Phase
from nbdist.store.paths import RunDirectory

_OTHERS = 3.0
"""Seconds that the other nodes have, once one has said how the run ended."""

_ENGINE = 6.0
"""Seconds that the engine has, to say what it knows of an end that came from outside."""

_FORGOTTEN = 20.0
_HOPELESS = 3.0


class Judge:
    """``run`` is asked how the run stands."""

    def __init__(
        self,
        directory: RunDirectory,
        spec: RunSpec,
        *,
        run: Callable[[], Run],
        clerk: Clerk,
        nodes: NodeJournals,
        wish: Wish,
    ) -> None:
        self._directory = directory
        self._spec = spec
        self._run = run
        self._clerk = clerk
        self._nodes = nodes
        self._wish = wish
        self._silence = Silence(directory, nodes)
        self._logs = LateLogs(directory)
        self._since: dict[str, float] = {}

    def forget(self) -> None:
        """The job begins again: what has lasted is over."""
        self._since.clear()
        self._logs.forget()

    def decide(self, now: float) -> Outcome | None:
        """The outcome, once there is nothing left to wait for."""
        outcome = self._decide(now)
        if outcome is None or self._logs.awaited(self._run(), now, hurry=self._wish.reason is not None):
            return None
        if outcome.state is RunState.LOST:
            self._wish.tell_nodes(outcome.reason)  # whoever is there after all has nobody left to run for
        return outcome

    def _decide(self, now: float) -> Outcome | None:
        job, ends = self._clerk.status, self._nodes.ends
        every = len(ends) == self._spec.nodes
        known = outcome_of_nodes(self._run(), ends)
        if every and known is not None and not self._is_open(known):
            return known
        if job.phase is Phase.WAITING:
            self._silence.broken()
            return self._of_waiting(now)
        if job.phase in (Phase.OVER, Phase.FORGOTTEN):
            # what the nodes have written may be on its way
            patience = self._patience() if job.phase is Phase.OVER else _FORGOTTEN
            if every or self._lasts("over", now) > patience:
                return self._conclude()
        if ends:
            self._clerk.hurry()
            if self._lasts("ended", now) > (_ENGINE if every else _OTHERS + _ENGINE):
                return self._conclude()
        return self._of_silence(now)

    def _of_silence(self, now: float) -> Outcome | None:
        job, asked = self._clerk.status, self._wish.reason is not None
        if job.phase is not Phase.UNKNOWN:
            self._silence.broken()
        elif self._silence.lasts_too_long(self._run(), now, asked=asked):
            return Outcome(state=RunState.LOST, reason=given_up(self._run(), job))
        return None

    def _patience(self) -> float:
        if self._clerk.status.completed:
            return LATE  # the first node has said so, and what the others have said is late
        return self._clerk.linger if self._nodes.numbers else 1.0

    def _of_waiting(self, now: float) -> Outcome | None:
        job = self._clerk.status
        if job.hopeless and self._lasts("hopeless", now) > _HOPELESS and self._wish.reason is None:
            self._clerk.stop(kindly=False)
            reason = Reason("engine-cannot-run", engine=self._spec.engine, why=job.reason)
            return Outcome(state=RunState.FAILED, reason=reason)
        return None

    def _is_open(self, known: Outcome) -> bool:
        """Whether the engine may have to say something about this end. What was asked for is known."""
        return self._wish.reason is None and is_doubtful(self._run(), known)

    def _conclude(self) -> Outcome:
        words = last_words(self._directory, self._nodes.life)
        return conclude(
            self._run(), self._nodes.ends, self._clerk.status, asked=self._wish.reason, last_words=words
        )

    def _lasts(self, what: str, now: float) -> float:
        """Seconds since this was first so."""
        return now - self._since.setdefault(what, now)
