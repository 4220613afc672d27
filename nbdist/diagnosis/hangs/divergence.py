"""The collective at which ranks parted, by each one's calls in a process group (``worker.history``).

Ranks hang behind the mistake, sometimes far behind: after a missing call, a rank's next one meets the others'
as long as the kinds agree. So calls are compared by number up to the first that cannot meet, and then like
two texts: where does one rank have a call more?
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from nbdist.diagnosis.hangs.branches_taken import of_library, of_parting
from nbdist.diagnosis.known import Hint, hint
from nbdist.diagnosis.positions import OF_GRADIENTS, Side, by_ranks
from nbdist.model import Run
from nbdist.programs.branches import calls_of_function, is_collective
from nbdist.programs.sources import Sources, place_of
from nbdist.store import RunDirectory
from nbdist.store.reports import Call, Collective, Issued, RankAnswer, read_history
from nbdist.text import Both, both

_AS_EACH_LIKES = ("all_to_all", "alltoall", "gather", "scatter", "all_gather")
"""Collectives with sizes that may differ between ranks; all_gather only with NCCL."""

_ALIKE_ON_ALL = frozenset(
    {"all_gather", "all_gather_into_tensor", "all_reduce", "broadcast", "reduce", "reduce_scatter_tensor"}
)
"""Collectives with the same sizes on all ranks."""

_MOST_ADDED = 40  # the most calls in a row of one rank alone: an average over the parameters of a small model
_LATEST = 12  # the most calls of a rank between its mistake and the call that met another's
_BACKWARD = frozenset({"backward", "manual_backward"})

_APART = "hang-apart"

_GIVEN = re.compile(r"([a-z]+)(\d*) \(([\d, ]*)\)")
History = Mapping[str, Sequence[Issued]]
"""By process group, a rank's calls, oldest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parting:
    """The ranks at collective ``number``, by line, and the sizes ``given``. ``latest``: no rank called
    anything later. ``inside``: the ranks by their ways in libraries, too."""

    number: int
    sides: tuple[Side, ...]
    given: Mapping[int, str]
    latest: bool
    inside: tuple[Side, ...]


def histories_of(run: Run, directory: RunDirectory) -> dict[int, History]:
    """Return by rank its calls, as far as remembered."""
    histories = {
        rank.rank: read_history(directory.rank(rank.rank, run.attempt).history) for rank in run.ranks
    }
    return {rank: history for rank, history in histories.items() if history}


def of_histories(histories: Mapping[int, History], sources: Sources) -> Hint | None:
    """Explain why the ranks do not meet, where their calls show more than their positions."""
    parting = parting_of(histories, sources)
    if parting is None:
        return None
    if len(parting.sides) == 1:
        return _of_given(parting) if len(parting.inside) == 1 else of_library(parting.inside, sources)
    if parting.latest:
        return None
    cause = of_parting(parting.sides, sources)
    if cause is not None and cause.signature != _APART:
        return cause
    return hint("hang-parted", number=parting.number, calls=places(parting.sides))


def of_sizes_at(
    rank: int, group: str, collective: Collective, histories: Mapping[int, History], sources: Sources
) -> Hint | None:
    """Compare the ranks' sizes in a collective that one waits in: NCCL does not."""
    called = {other: _called(group, collective, history) for other, history in histories.items()}
    mine = called.get(rank)
    backend, _, name = mine.name.rpartition(":") if mine is not None else ("", "", "")
    if mine is None or backend != "nccl" or name not in _ALIKE_ON_ALL:
        return None
    given = {other: call.given for other, call in called.items() if call is not None}
    side = _own(mine, sources).side([rank], sources)
    parting = Parting(number=collective.number, sides=(side,), given=given, latest=False, inside=(side,))
    return _of_given(parting)


def _called(group: str, collective: Collective, history: History) -> Issued | None:
    """Find the call of this collective in a history; a message may share its number, not its name."""
    made = (call for call in history.get(group, ()) if call.number == collective.number)
    return next((call for call in made if call.name.rpartition(":")[2] == collective.name), None)


def last_calls(histories: Mapping[int, History], sources: Sources) -> Iterator[Side]:
    """Yield each rank's last calls, latest first."""
    for rank, history in histories.items():
        for calls in history.values():
            yield from (_own(call, sources).side([rank], sources) for call in reversed(calls[-_LATEST:]))


def came_to(way: Sequence[Call], history: History, sources: Sources) -> bool:
    """Return whether a rank remembers a call by these lines of the user's files."""
    made = (_own(call, sources).way for calls in history.values() for call in calls)
    return bool(way) and tuple(way) in made


def begun_at(
    side: Side, collective: Collective | None, answer: RankAnswer, history: History, sources: Sources
) -> Side:
    """Move ranks that wait for their device to its call, or to the file's only backward()."""
    group = next((name for name, its in answer.collectives.items() if its is collective), "")
    call = _called(group, collective, history) if collective is not None else None
    if call is None and history:
        return side
    if call is not None and (made := _own(call, sources)).way:
        called = made.side(side.ranks, sources)
        # a library's layer, such as SyncBatchNorm, calls it from native code
        named = is_collective(called.place.what)
        place = called.place if named else replace(called.place, what=side.name, through=called.place.what)
        return replace(called, place=place, values=side.values)
    written = side.way and calls_of_function(side.name, side.way[-1].file, sources)
    line = _only_backward(side, sources) if call is not None or not written else None
    if line is None:
        return side
    way = (*side.way[:-1], replace(side.way[-1], line=line))
    return replace(side, way=way, place=replace(side.place, line=line, what="backward", on_device=False))


def _only_backward(side: Side, sources: Sources) -> int | None:
    """Return the line of the only ``backward()`` in a file, where these ranks are in its function."""
    if not side.way or side.name not in OF_GRADIENTS:
        return None
    here = side.way[-1]
    calls = [call for name in _BACKWARD for call in calls_of_function(name, here.file, sources)]
    return calls[0].line if len(calls) == 1 and calls[0].function == here.function else None


def _counted(given: str) -> object:
    """Return each tensor's dtype and size: NCCL and gloo ignore shapes. The text if unknown."""
    parts = _GIVEN.findall(given)
    if len(parts) != len(re.findall(r"\(", given)):
        return given
    return tuple(
        (kind + bits, prod(int(each) for each in size.split(",") if each.strip()))
        for kind, bits, size in parts
    )


def places(sides: Sequence[Side]) -> Both:
    """Return ``all_reduce (line 28) on rank 0, barrier (line 47) on rank 1``."""
    return by_ranks(
        (side.ranks, both("diagnosis.call-at", call=side.call, file=side.place.file, line=side.place.line))
        for side in sides
    )


def _of_given(parting: Parting) -> Hint | None:
    """Compare the sizes that ranks in one line gave to one collective."""
    by_given: dict[str, list[int]] = {}
    for rank, given in parting.given.items():
        by_given.setdefault(given, []).append(rank)
    if len({_counted(what) for what in by_given}) < 2 or not all(by_given):
        return None
    sizes = {re.sub(r"\b[a-z]+\d*\b", "", what) for what in by_given}
    (side,) = parting.sides
    values: dict[str, object] = {
        "number": parting.number,
        "call": side.call,
        "line": side.place.line,
        "given": by_ranks((ranks, what) for what, ranks in by_given.items()),
    }
    return hint("hang-sizes" if len(sizes) > 1 else "hang-dtypes", **values)


def parting_of(histories: Mapping[int, History], sources: Sources) -> Parting | None:
    """Find where these ranks parted; None if their calls do not show it."""
    for group in sorted({group for history in histories.values() for group in history}):
        calls = {
            rank: {call.number: _own(call, sources) for call in history[group]}
            for rank, history in histories.items()
            if history.get(group)
        }
        if len(calls) > 1 and (parting := _parting(calls, sources)) is not None:
            return parting
    return None


def _parting(ranks: Mapping[int, Mapping[int, _Made]], sources: Sources) -> Parting | None:
    known = sorted(set.intersection(*(set(calls) for calls in ranks.values())))
    first = next((n for n in known if len({calls[n].kind for calls in ranks.values()}) > 1), None)
    if first is None:
        return None
    begin = known[0]
    mine, *others = (
        [call for number, call in sorted(calls.items()) if number >= begin] for calls in ranks.values()
    )
    added = (_first_added(mine, theirs) for theirs in others)
    number = min([first, *(begin + at for at in added if at is not None)])
    made = {rank: calls[number] for rank, calls in ranks.items()}
    by_way: dict[tuple[Call, ...], list[int]] = {}
    by_calls: dict[tuple[Call, ...], list[int]] = {}
    for rank, call in made.items():
        by_way.setdefault(call.way, []).append(rank)
        by_calls.setdefault(call.call.way, []).append(rank)
    sides, inside = (
        tuple(made[some[0]].side(some, sources) for some in by.values()) for by in (by_way, by_calls)
    )
    return Parting(
        number=number,
        sides=sides,
        given={rank: call.call.given for rank, call in made.items()},
        latest=all(number == max(calls) for calls in ranks.values()),
        inside=inside,
    )


def _first_added(mine: Sequence[_Made], theirs: Sequence[_Made]) -> int | None:
    """Find where one of two ranks made extra calls after the same ones. Ranks that reach one collective by
    two ways continue alike without a missing call."""
    at = 0
    while (at := at + _alike(mine[at:], theirs[at:])) < min(len(mine), len(theirs)):
        instead = _alike(mine[at + 1 :], theirs[at + 1 :])
        more = max(
            max(_alike(mine[at + extra :], theirs[at:]), _alike(mine[at:], theirs[at + extra :]))
            for extra in range(1, _MOST_ADDED + 1)
        )
        if more > instead:
            return at
        at += 1
    return None


def _alike(mine: Sequence[_Made], theirs: Sequence[_Made]) -> int:
    """Return the number of equal calls at the start of both."""
    pairs = zip(mine, theirs, strict=False)
    return next(
        (at for at, (a, b) in enumerate(pairs) if (a.kind, a.way) != (b.kind, b.way)),
        min(len(mine), len(theirs)),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Made:
    """A call, and its ``way`` through the user's files."""

    call: Issued
    way: tuple[Call, ...]

    @property
    def kind(self) -> tuple[str, object]:
        """Return the parts that must agree on all ranks."""
        backend, _, name = self.call.name.rpartition(":")
        free = name in _AS_EACH_LIKES and (name, backend) != ("all_gather", "gloo")
        return self.call.name, "" if free else _counted(self.call.given)

    def side(self, ranks: Sequence[int], sources: Sources) -> Side:
        place = replace(place_of(self.call.way[::-1], sources), waits=True)
        name = self.call.name.rpartition(":")[2]
        return Side(ranks=tuple(ranks), way=self.way, calls=self.call.way, place=place, name=name)


def _own(call: Issued, sources: Sources) -> _Made:
    return _Made(call=call, way=tuple(step for step in call.way if sources.is_own(step.file)))
