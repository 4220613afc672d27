"""How a run on an engine ended: from what its nodes say, what the engine says, and what was asked. Pure."""

from __future__ import annotations

import signal
from collections.abc import Mapping

from nbdist.launch.course import Outcome
from nbdist.model import RankState, Reason, Run, RunEnded, RunLost, RunState
from nbdist.schedulers.engine import JobStatus, Phase

# what an engine sends to each process of a job that it ends
_FROM_OUTSIDE = frozenset({-signal.SIGTERM, -signal.SIGKILL, -signal.SIGINT})


def outcome_of_nodes(run: Run, ends: Mapping[int, RunEnded | RunLost]) -> Outcome | None:
    """What the nodes say. Of several, that counts on which a rank failed first; None where none has said."""
    if not ends:
        return None
    first = ends[_culprit(run, ends)]
    if isinstance(first, RunLost):
        return Outcome(state=RunState.FAILED, reason=first.reason)
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
    """How the run ended, now that nothing is waited for any more.

    ``asked`` is why somebody wanted it to end, ``last_words`` what the job itself has said.
    """
    known = outcome_of_nodes(run, ends)
    if known is not None and not is_doubtful(run, known):
        return known
    if asked is not None:
        return Outcome(state=RunState.CANCELLED, reason=asked)
    if job.phase is Phase.OVER and job.outcome is not None:
        return Outcome(state=job.outcome, reason=job.reason)
    if known is not None:
        return _from_outside(run, known, job)
    if job.phase is Phase.OVER:
        code = "job-ended-early" if run.started is None else "job-ended-silent"
        reason = Reason(code, last=last_words) if last_words else Reason(code, why=job.reason)
        return Outcome(state=RunState.FAILED, reason=reason)
    return Outcome(state=RunState.LOST, reason=_forgotten(run))


def given_up(run: Run, job: JobStatus) -> Reason:
    """Why nobody waits any longer for a run of which nothing is heard."""
    why = job.reason or Reason("engine-silent", engine=run.spec.engine)
    return Reason("nodes-silent" if run.started is not None else "never-begun", why=why, job=run.job)


def _forgotten(run: Run) -> Reason:
    return Reason("engine-forgot", engine=run.spec.engine, job=run.job)


def _from_outside(run: Run, known: Outcome, job: JobStatus) -> Outcome:
    """Of a run that was told to end, and not by anybody who looks after it: most often its engine has gone,
    or come back without it."""
    if known.state is not RunState.CANCELLED:
        return known
    if known.reason.origin == Reason("supervisor-got", signal="SIGURG"):
        return Outcome(state=RunState.CANCELLED, reason=Reason("starter-gone"))
    of_engine = {Phase.UNKNOWN: job.reason, Phase.FORGOTTEN: _forgotten(run)}.get(job.phase, Reason())
    more = {"engine": of_engine} if of_engine else {}
    reason = Reason("from-outside", why=known.reason, **more)
    return Outcome(state=RunState.FAILED, reason=reason)


def _culprit(run: Run, ends: Mapping[int, RunEnded | RunLost]) -> int:
    failed = [
        (rank.errored or rank.exited or 0.0, rank.spec.node_rank)
        for rank in run.ranks
        if rank.state is RankState.FAILED and rank.spec.node_rank in ends
    ]
    if failed:
        return min(failed)[1]
    # who says that it failed knows more than who was told to end
    order = {RunState.FAILED: 0, RunState.CANCELLED: 1, RunState.SUCCEEDED: 2}
    states = {node: end.state if isinstance(end, RunEnded) else RunState.FAILED for node, end in ends.items()}
    return min(ends, key=lambda node: (order.get(states[node], 0), node))
