"""The failures of ranks that did not meet: one gave up, met another call, or was left by others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from nbdist.diagnosis.hangs.deadlocks import all_joining, why
from nbdist.diagnosis.hangs.divergence import histories_of, last_calls, of_histories
from nbdist.diagnosis.hangs.leaving import called_alone, entered_alone, why_left
from nbdist.diagnosis.known import Hint, hint
from nbdist.diagnosis.positions import Side
from nbdist.diagnosis.rank_failure import (
    Failure,
    absent_places,
    calls_of,
    failure_of,
    known_as,
    waiting_side,
)
from nbdist.diagnosis.stacks import last_sides
from nbdist.diagnosis.tracebacks import ended_by, raised_in_logs
from nbdist.model import RankState, Run
from nbdist.programs.branches import head
from nbdist.programs.sources import place_of
from nbdist.store import RunDirectory
from nbdist.store.reports import Call
from nbdist.text import both

# what these say does not name who is missing, or where
_PLAIN_TIMEOUTS = frozenset(
    {"gloo-timeout", "paddle-gloo-timeout", "nccl-timeout", "nccl-heartbeat", "store-wait-timeout"}
)
# ranks that are in different collectives say this, too
_SIZES = "collective-sizes"
_CLIENTS = "store-clients-missing"
_JOINING = frozenset({"store-not-reached", _CLIENTS})
_UNLIKE = _PLAIN_TIMEOUTS | _JOINING | {_SIZES, "collective-mismatch"}
_MEETING = "gloo-connect"
_HELD_UP = "hang-busy"
_OF_PARTING = frozenset(
    {"hang-loop", "hang-loop-left", "hang-loop-caught", "hang-return", "hang-branch", "hang-in-library"}
)
_OTHER_SIZES = frozenset({"hang-sizes", "hang-dtypes"})
_EXCHANGES = "/torch/distributed/"


def apart(first: Failure, failures: Sequence[Failure], run: Run, directory: RunDirectory) -> Hint | None:
    """Explain why the ranks did not meet, of one that gave up, or that met another collective than its own:
    from where they all were in the program."""
    known = known_as(first)
    if known not in _UNLIKE or first.early_exits:
        return None
    ways: dict[tuple[Call, ...], list[Failure]] = {}
    for failure in failures:
        # one that complained of no sizes may have come through there, and on to the next
        gave_up = failure.secondary or failure.rank == first.rank
        if known_as(failure) in _UNLIKE if known == _SIZES else gave_up:
            ways.setdefault(calls_of(failure), []).append(failure)
    sides = [waiting_side(*alike) for alike in ways.values()]
    failed = {rank for side in sides for rank in side.ranks}
    if known != _SIZES:
        sides += [side for side in last_sides(run, directory) if not failed & set(side.ranks)]
    absent = [rank for side in sides for rank in side.ranks if rank not in failed]
    raised = ended_by(raised_in_logs(absent, run, directory))
    histories = histories_of(run, directory)
    joining = all_joining(sides, run.spec.world_size, first.sources)
    if joining is not None or known in _JOINING:
        return joining
    found = why(sides, first.sources, raised, histories)
    if known == _SIZES:
        found = of_histories(histories, first.sources) or found
        found = found or _met_another(sides, first, failures, run, directory)
    # whether it is only slow is not known: the time limit was the program's own
    return found if found is not None and found.signature != _HELD_UP else None


def _met_another(
    sides: Sequence[Side], first: Failure, failures: Sequence[Failure], run: Run, directory: RunDirectory
) -> Hint | None:
    """Explain how a rank met another collective than its own by where the others were: these may have gone on
    to their next call."""
    told = {rank for side in sides for rank in side.ranks}
    ended = {rank.rank for rank in run.ranks if rank.state is RankState.ENDED}
    ended -= {one.rank for one in failures}
    complained = [*failures, *(failure_of(run.ranks[rank], run, directory) for rank in ended)]
    others = [waiting_side(one) for one in complained if one.rank not in told and one.secondary]
    told |= {rank for side in others for rank in side.ranks}
    others += [side for side in last_sides(run, directory) if side.place.waits and not told & set(side.ranks)]
    found = why([*sides, *others], first.sources, {})
    if found is None or found.signature not in _OF_PARTING:
        return None
    cause = both("diagnosis.or-other-sizes", said=found.cause)
    return replace(found, cause=cause, fix=both("diagnosis.and-same-sizes", said=found.fix))


def left(first: Failure, run: Run, directory: RunDirectory) -> Hint:
    """Explain why ranks have ended before the others were done with them."""
    early = {"late": (first.rank,), "early": first.early_exits}
    side = waiting_side(first)
    if any(run.ranks[rank].finished is None for rank in first.early_exits):
        return hint("left-early", **early)
    if entered_alone(side, first.sources) is None:
        if known_as(first) == _MEETING:
            return hint("left-before-all-met", **early)
        if (apart := _of_sizes(first, run, directory)) is not None:
            return apart
    return why_left(side, first.early_exits, run.spec.program, first.sources)


def met(first: Failure, run: Run, directory: RunDirectory) -> Hint | None:
    """Tell that a rank waited in vain, or got what was not meant for it, where the ways of the ranks tell no
    more."""
    known = known_as(first)
    if first.absent and known in _PLAIN_TIMEOUTS:
        places = absent_places(first, run, directory)
        name = "rank-was-busy" if places and not places[0][1] else "rank-did-not-come"
        return hint(name, late=(first.rank,), early=first.early_exits, absent=first.absent)
    if known == _CLIENTS and first.found["all"] != str(run.spec.world_size):
        return hint("hang-joining", who=tuple(range(run.spec.world_size)), count=run.spec.world_size)
    if known != _SIZES:
        return None
    if (alone := _alone(first, run, directory)) is not None:
        return alone
    if (lone := called_alone(waiting_side(first), first.sources)) is not None:
        test, call = lone
        return hint("collective-alone-in-loop", line=first.line, call=call, test=head(test), at=test.lineno)
    at = place_of(calls_of(first)[::-1], first.sources)
    # where native code has ended the process, its main thread may have slept
    may_wait = (at.waits or not at.what) and at.what.rpartition(".")[2] != "wait"
    here = may_wait and _all_there(first, run, directory)
    return hint("collective-sizes-here", line=first.line) if here else None


def met_alone(first: Failure, run: Run, directory: RunDirectory) -> Hint | None:
    """Explain an error that no row knows, within a collective for which others waited."""
    return _alone(first, run, directory) if _others_wait(first, run, directory) else None


def _of_sizes(first: Failure, run: Run, directory: RunDirectory) -> Hint | None:
    """Compare the sizes of a rank and of its peer that is gone: gloo tells the smaller one nothing, so that
    this one goes on to its end."""
    found = of_histories(histories_of(run, directory), first.sources)
    return found if found is not None and found.signature in _OTHER_SIZES else None


def _alone(first: Failure, run: Run, directory: RunDirectory) -> Hint | None:
    """Find what one rank alone has called: the first that failed, or another one, which may have come
    past."""
    sides = [waiting_side(first)]
    if known_as(first) == _SIZES:
        others = histories_of(run, directory)
        others.pop(first.rank, None)
        sides += last_calls(others, first.sources)
    for side in sides:
        alone = entered_alone(side, first.sources)
        if alone is None:
            continue
        if side is sides[0] and not place_of(side.calls[::-1], first.sources).waits:
            # where it was in no collective itself, it has begun one that goes on beside it
            if not any("async_op=True" in first.sources.text(call.file) for call in side.way):
                continue
            alone["call"] = both("diagnosis.begun-there")
        return hint("met-another-call", late=side.ranks, **alone)
    return None


def _others_wait(first: Failure, run: Run, directory: RunDirectory) -> bool:
    """Return whether a rank failed within a library's collective, for which others waited. What the
    collective was given may be wrong with another error."""
    kind = first.complaint.root.type if first.complaint is not None else ""
    within = kind == "RuntimeError" and any(_EXCHANGES in frame.file for frame in first.frames)
    sides = last_sides(run, directory) if within else ()
    return any(side.place.waits and first.rank not in side.ranks for side in sides)


def _all_there(first: Failure, run: Run, directory: RunDirectory) -> bool:
    """Return whether all ranks were in the line in which one has failed."""
    failed = {rank.rank for rank in run.ranks if rank.errored is not None}
    # one that has failed may have been asked while it wrote its report
    waited = (side for side in last_sides(run, directory) if not failed >= set(side.ranks))
    lines = {side.place.line for side in waited}
    for rank in failed:
        lines.add(failure_of(run.ranks[rank], run, directory).line)
    return lines == {first.line} and first.line is not None


def is_past(rank: int, run: Run, directory: RunDirectory) -> bool:
    """Return whether a rank was done, or waited for others, when one had failed, and had not failed
    itself."""
    if run.ranks[rank].state is RankState.SUCCEEDED:
        return True
    if run.ranks[rank].errored is not None:
        ended = failure_of(run.ranks[rank], run, directory)
        waited = place_of(calls_of(ended)[::-1], ended.sources).waits
        return waited and (ended.secondary or run.ranks[rank].freed is not None)
    return any(rank in side.ranks and side.place.waits for side in last_sides(run, directory))
