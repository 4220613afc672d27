"""Hints for ranks that did not meet: one gave up, met another call, or was left by others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from nbdist.diagnosis.hangs.deadlocks import all_joining, why
from nbdist.diagnosis.hangs.divergence import histories_of, last_calls, of_histories
from nbdist.diagnosis.hangs.leaving import called_alone, entered_alone, why_left
from nbdist.diagnosis.known import Hint, hint
from nbdist.diagnosis.positions import Side
from nbdist.diagnosis.rank_failure import Failure, absent_places, calls_of, failure_of, known_as, waiting_side
from nbdist.diagnosis.stacks import last_sides
from nbdist.diagnosis.tracebacks import ended_by, raised_in_logs
from nbdist.model import RankState, Run
from nbdist.programs.branches import head
from nbdist.programs.sources import place_of
from nbdist.store import RunDirectory
from nbdist.store.reports import Call
from nbdist.text import both

# rows whose text names neither the missing rank nor its place
_PLAIN_TIMEOUTS = frozenset(
    {"gloo-timeout", "paddle-gloo-timeout", "nccl-timeout", "nccl-heartbeat", "store-wait-timeout"}
)
# also the error of ranks in different collectives
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


def hint_from_parting(
    first: Failure, failures: Sequence[Failure], run: Run, directory: RunDirectory
) -> Hint | None:
    """Explain from all ranks' positions why one gave up, or met a collective other than its own."""
    known = known_as(first)
    if known not in _UNLIKE or first.early_exits:
        return None
    ways: dict[tuple[Call, ...], list[Failure]] = {}
    for failure in failures:
        # a rank without a size error may have passed that call and reached the next
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
    joining = all_joining(sides, run.spec.world_size, first.sources, histories)
    if joining is not None or known in _JOINING:
        return joining
    cause = why(sides, first.sources, raised, histories)
    if known == _SIZES:
        cause = of_histories(histories, first.sources) or cause
        cause = cause or _met_another(sides, first, failures, run, directory)
    # it may only be slow: the program chose the time limit
    return cause if cause is not None and cause.signature != _HELD_UP else None


def _met_another(
    sides: Sequence[Side], first: Failure, failures: Sequence[Failure], run: Run, directory: RunDirectory
) -> Hint | None:
    """Explain a size mismatch by the others' positions: these may have gone on to their next call."""
    known = {rank for side in sides for rank in side.ranks}
    ended = {rank.rank for rank in run.ranks if rank.state is RankState.STOPPED}
    ended -= {failure.rank for failure in failures}
    complained = [*failures, *(failure_of(run.ranks[rank], run, directory) for rank in ended)]
    others = [
        waiting_side(failure) for failure in complained if failure.rank not in known and failure.secondary
    ]
    known |= {rank for side in others for rank in side.ranks}
    others += [
        side for side in last_sides(run, directory) if side.place.waits and not known & set(side.ranks)
    ]
    parted = why([*sides, *others], first.sources, {})
    if parted is None or parted.signature not in _OF_PARTING:
        return None
    return replace(parted, cause=both("diagnosis.or-other-sizes", said=parted.cause))


def hint_from_early_exit(first: Failure, run: Run, directory: RunDirectory) -> Hint:
    """Explain why ranks ended while others still needed them."""
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


def hint_from_wait(first: Failure, run: Run, directory: RunDirectory) -> Hint | None:
    """Explain a wait in vain, or data meant for another call, where the call paths show no more."""
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
    # native code may have ended the process while its main thread slept
    may_wait = (at.waits or not at.what) and at.what.rpartition(".")[2] != "wait"
    here = may_wait and _all_there(first, run, directory)
    return hint("collective-sizes-here", line=first.line) if here else None


def hint_from_lone_call(first: Failure, run: Run, directory: RunDirectory) -> Hint | None:
    """Explain an error that no row knows, raised in a collective that others waited in."""
    kind = first.complaint.root.type if first.complaint is not None else ""
    within = kind == "RuntimeError" and any(_EXCHANGES in frame.file for frame in first.frames)
    sides = last_sides(run, directory) if within else ()
    waited = any(side.place.waits and first.rank not in side.ranks for side in sides)
    return _alone(first, run, directory) if waited else None


def _of_sizes(first: Failure, run: Run, directory: RunDirectory) -> Hint | None:
    """Compare sizes with the ended peer: gloo reports nothing to the smaller side, which runs on."""
    cause = of_histories(histories_of(run, directory), first.sources)
    return cause if cause is not None and cause.signature in _OTHER_SIZES else None


def _alone(first: Failure, run: Run, directory: RunDirectory) -> Hint | None:
    """Find a call that one rank alone made: the first to fail, or another that may have got past it."""
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
            # in no collective itself, it began one that runs beside it
            if not any("async_op=True" in first.sources.text(call.file) for call in side.way):
                continue
            alone["call"] = both("diagnosis.begun-there")
        return hint("met-another-call", late=side.ranks, **alone)
    return None


def _all_there(first: Failure, run: Run, directory: RunDirectory) -> bool:
    """Return whether all ranks were in the line in which one failed."""
    failed = {rank.rank for rank in run.ranks if rank.errored is not None}
    # a failed rank may have answered while it wrote its report
    waited = (side for side in last_sides(run, directory) if not failed >= set(side.ranks))
    lines = {side.place.line for side in waited}
    for rank in failed:
        lines.add(failure_of(run.ranks[rank], run, directory).line)
    return lines == {first.line} and first.line is not None


def is_past(rank: int, run: Run, directory: RunDirectory) -> bool:
    """Return whether a rank was done, or waited for others without failing itself, when one failed."""
    if run.ranks[rank].state is RankState.FINISHED:
        return True
    if run.ranks[rank].errored is not None:
        ended = failure_of(run.ranks[rank], run, directory)
        waited = place_of(calls_of(ended)[::-1], ended.sources).waits
        return waited and (ended.secondary or run.ranks[rank].freed is not None)
    return any(rank in side.ranks and side.place.waits for side in last_sides(run, directory))
