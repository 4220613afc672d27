"""How a run on an engine ended: from what its nodes say, what the engine says, and what was asked. Pure."""

from __future__ import annotations

import signal
from collections.abc import Mapping

from nbdist.launch.course import Outcome
from nbdist.model import RankState, Run, RunEnded, RunLost, RunState
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
    at_its_limit = run.spec.timeout is not None and outcome.reason == run.spec.timeout_reason
    if outcome.state is RunState.SUCCEEDED or at_its_limit:
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
    asked: str | None,
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
        words = f": {last_words}" if last_words else f" ({job.reason})"
        when = "before its ranks had started" if run.started is None else "without a word of its ranks"
        return Outcome(state=RunState.FAILED, reason=f"the job ended {when}{words}")
    return Outcome(state=RunState.LOST, reason=_forgotten(run))


def given_up(run: Run, job: JobStatus) -> str:
    """Why nobody waits any longer for a run of which nothing is heard."""
    why = job.reason or f"{run.spec.engine} does not answer"
    nodes = "nothing has come from its nodes" if run.started is not None else "it had not begun"
    return f"{why}, and {nodes}: nobody watches job {run.job} any longer, which may still be there"


def _forgotten(run: Run) -> str:
    return f"{run.spec.engine} no longer knows the job {run.job}"


def _from_outside(run: Run, known: Outcome, job: JobStatus) -> Outcome:
    """Of a run that was told to end, and not by anybody who looks after it: most often its engine has gone,
    or come back without it."""
    if known.state is not RunState.CANCELLED:
        return known
    if "SIGURG" in known.reason:
        return Outcome(state=RunState.CANCELLED, reason="the machine where it was started has gone")
    of_engine = {Phase.UNKNOWN: job.reason, Phase.FORGOTTEN: _forgotten(run)}.get(job.phase)
    reason = f"it was ended from outside: {known.reason}" + (f"; {of_engine}" if of_engine else "")
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
