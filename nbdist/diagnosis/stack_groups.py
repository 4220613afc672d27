"""Ranks with the same stack, and its rows: the user's calls, and what libraries call in between in one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from nbdist.programs.sources import CodeLocation, Sources, entry_of, package_of, place_of
from nbdist.store.reports import Call, Collective, Handled, RankAnswer, TakenStacks, ThreadStack

_ALL_GROUPS = "0"
_DEVICE_WAITS = frozenset({"item", "tolist", "cpu", "numpy", "synchronize", "float", "int", "bool", "print"})
"""Calls that wait for what a device is to do, and with it for other ranks."""

_HOST_WAITS = frozenset(
    {"sleep", "acquire", "join", "get", "put", "recv", "accept", "select", "poll", "read", "input"}
)
"""Calls that wait for something else than a device."""

_LONG_AGO = 5.0
"""Seconds after which a collective that is not over was begun before what the rank does now."""

_TORCH = re.compile(r"/torch/(?:nn|optim|cuda|amp|autograd|_tensor(?:_str)?\.py$|functional\.py$)")
"""Files in which torch works with tensors; it compiles, loads and saves elsewhere."""

_ON_GPU = re.compile(r" on (?:cuda|gpu)\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class StackRow:
    """One line of a stack as it is shown. ``own`` are those of the user's files; ``here`` is the innermost of
    them. ``place`` is ``cell line 9``, ``pkg/models.py line 3``, ``torch/distributed`` or ``built-in``."""

    function: str
    place: str
    source: str
    own: bool = False
    here: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StackGroup:
    """Ranks with the same stack. ``place`` says where that is; ``problem`` why there is no stack
    (``store.reports.RankAnswer``). ``collective`` is what they last began, where that is known;
    ``handled`` the exception that they handle, ``handled_at`` the line of the program where it was raised."""

    ranks: tuple[int, ...]
    place: CodeLocation
    rows: tuple[StackRow, ...]
    problem: str = ""
    blocked: bool = False
    collective: Collective | None = None
    handled: str = ""
    handled_at: int | None = None
    threads: tuple[tuple[StackRow, ...], ...] = ()


def groups_of(taken: TakenStacks, sources: Sources) -> tuple[StackGroup, ...]:
    """Return the ranks by their main threads; first those that hold the others up."""
    alike: dict[object, list[RankAnswer]] = {}
    for answer in taken.ranks:
        threads = answer.threads
        calls = threads[0].calls if threads else ()
        number = _last_begun(answer)
        key = (
            answer.problem,
            answer.blocked,
            calls,
            _handling(answer),
            number and (number.name, number.number),
        )
        alike.setdefault(key, []).append(answer)
    groups = [_group(answers, taken.time, sources) for answers in alike.values()]
    return tuple(sorted(groups, key=lambda group: (group.place.waits, len(group.ranks), group.ranks)))


def _handling(answer: RankAnswer) -> Handled | None:
    """Return the exception that a rank handles. An interrupt is none: it is how a run is ended."""
    interrupted = answer.handling is not None and answer.handling.text.startswith("KeyboardInterrupt")
    return None if interrupted else answer.handling


def _group(answers: Sequence[RankAnswer], now: float, sources: Sources) -> StackGroup:
    first = answers[0]
    threads = first.threads
    calls = threads[0].calls if threads else ()
    collective = _last_begun(first)
    place = place_of(calls, sources)
    pending = collective is not None and not collective.over and not place.waits
    if pending and (_waits_for_device(place) or _stands_on_gpu(first, place, now, sources)):
        place = replace(place, waits=True, on_device=True)
    handling = _handling(first)
    places = handling.places if handling is not None else ()
    lines = [line for file, line in places if sources.is_program(file)]
    return StackGroup(
        ranks=tuple(answer.rank for answer in answers),
        place=place,
        rows=_rows(calls, place, sources),
        problem=first.problem,
        blocked=first.blocked,
        collective=collective,
        handled=handling.text if handling is not None else "",
        handled_at=lines[-1] if lines else None,
        threads=tuple(_rows(thread.calls, None, sources) for thread in _others(threads)),
    )


def _others(threads: Sequence[ThreadStack]) -> list[ThreadStack]:
    return [thread for thread in threads if not thread.main and thread.calls]


def _waits_for_device(place: CodeLocation) -> bool:
    """Return whether a rank that has a collective under way waits there for it: a computation would not."""
    return place.what.rpartition(".")[2] in _DEVICE_WAITS


def _stands_on_gpu(answer: RankAnswer, place: CodeLocation, now: float, sources: Sources) -> bool:
    """Return whether a rank that has a collective under way for long is in a call of torch, or in a line that
    works with tensors of a GPU: many (``x[mask]``, a print) wait for it without a word. Another library may
    save or send what the line gives it."""
    begun = min((one.begun for one in answer.collectives.values() if not one.over and one.begun), default=now)
    on_host = place.loads or place.on_network or place.what.rpartition(".")[2] in _HOST_WAITS
    calls = answer.threads[0].calls if answer.threads else ()
    if on_host or now - begun < _LONG_AGO or not any(sources.is_own(call.file) for call in calls):
        return False
    inner = calls[0]
    if _TORCH.search(inner.file):
        return any(one.on_device and not one.over for one in answer.collectives.values())
    here = (one.what for one in answer.values if (one.file, one.line) == (inner.file, inner.line))
    return sources.is_own(inner.file) and any(_ON_GPU.search(what) for what in here)


def _last_begun(answer: RankAnswer) -> Collective | None:
    """Return the collective that a rank waits in, else the last that it began in the group of all ranks."""
    waited = [one for one in answer.collectives.values() if not one.over]
    if waited:
        return min(waited, key=lambda one: one.begun)
    return answer.collectives.get(_ALL_GROUPS)


def _rows(calls: Sequence[Call], place: CodeLocation | None, sources: Sources) -> tuple[StackRow, ...]:
    """Innermost first; what libraries call among themselves is one row."""
    rows: list[StackRow] = []
    if place is not None and place.built_in:
        rows.append(StackRow(function=place.what, place="built-in", source=""))
    hidden: list[Call] = []
    here = True
    for call in calls:
        if not sources.is_own(call.file):
            hidden.append(call)
            continue
        rows += _folded(hidden, sources)
        hidden = []
        rows.append(
            StackRow(
                function=call.function,
                place=f"{sources.name(call.file) or 'cell'} line {call.line}",
                source=sources.line(call.file, call.line),
                own=True,
                here=here,
            )
        )
        here = False
    return (*rows, *_folded(hidden, sources))


def _folded(calls: Sequence[Call], sources: Sources) -> list[StackRow]:
    if not calls:
        return []
    entry = entry_of(calls)
    inner = calls[0]
    return [
        StackRow(
            function=entry.function,
            place=package_of(entry.file),
            source=sources.line(inner.file, inner.line),
        )
    ]
