"""Ranks with the same stack, and its rows: the user's calls, with the libraries' folded in between."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from nbdist.programs.sources import CodeLocation, Sources, entry_of, package_of, place_of
from nbdist.store.reports import Call, Collective, Handled, RankAnswer, TakenStacks

_ALL_GROUPS = "0"
_DEVICE_WAITS = frozenset({"item", "tolist", "cpu", "numpy", "synchronize", "float", "int", "bool", "print"})
"""Calls that wait for a device, and with it for other ranks."""

_HOST_WAITS = frozenset(
    {"sleep", "acquire", "join", "get", "put", "recv", "accept", "select", "poll", "read", "input"}
)
"""Calls that wait for something other than a device."""

_LONG_AGO = 5.0  # seconds after which an unfinished collective predates the rank's present call
_TORCH = re.compile(r"/torch/(?:nn|optim|cuda|amp|autograd|_tensor(?:_str)?\.py$|functional\.py$)")
"""Files in which torch works with tensors; it compiles, loads and saves elsewhere."""

_ON_GPU = re.compile(r" on (?:cuda|gpu)\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class StackRow:
    """One row of a stack. ``own``: in the user's files; ``here``: the innermost of them. ``place``: ``cell
    line 9``, ``pkg/models.py line 3``, ``torch/distributed``, ``built-in``."""

    function: str
    place: str
    source: str
    own: bool = False
    here: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StackGroup:
    """Ranks with the same stack, or the same ``problem`` (``store.reports.RankAnswer``). ``collective`` is
    their last, where known; ``handled`` the exception being handled, ``handled_at`` its line in the
    program."""

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
    """Return the ranks by their main threads; first those that block others."""
    alike: dict[object, list[RankAnswer]] = {}
    for answer in taken.ranks:
        calls = main_calls(answer)
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


def main_calls(answer: RankAnswer) -> tuple[Call, ...]:
    """Return the calls of the main thread, innermost first."""
    return answer.threads[0].calls if answer.threads else ()


def _handling(answer: RankAnswer) -> Handled | None:
    """Return the exception that a rank handles; an interrupt only ends the run."""
    interrupted = answer.handling is not None and answer.handling.text.startswith("KeyboardInterrupt")
    return None if interrupted else answer.handling


def _group(answers: Sequence[RankAnswer], now: float, sources: Sources) -> StackGroup:
    first = answers[0]
    calls = main_calls(first)
    collective = _last_begun(first)
    place = place_of(calls, sources)
    pending = collective is not None and not collective.over and not place.waits
    if pending and (
        place.what.rpartition(".")[2] in _DEVICE_WAITS or _stands_on_gpu(first, place, now, sources)
    ):
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
        threads=tuple(
            _rows(thread.calls, None, sources) for thread in first.threads if not thread.main and thread.calls
        ),
    )


def _stands_on_gpu(answer: RankAnswer, place: CodeLocation, now: float, sources: Sources) -> bool:
    """Return whether a long-pending collective may hold a rank in torch, or in a line with GPU tensors. Many
    lines (``x[mask]``, a print) wait for the GPU silently; other libraries may save or send instead."""
    begun = min(
        (
            collective.begun
            for collective in answer.collectives.values()
            if not collective.over and collective.begun
        ),
        default=now,
    )
    on_host = place.loads or place.on_network or place.what.rpartition(".")[2] in _HOST_WAITS
    calls = main_calls(answer)
    if on_host or now - begun < _LONG_AGO or not any(sources.is_own(call.file) for call in calls):
        return False
    inner = calls[0]
    if _TORCH.search(inner.file):
        return any(collective.on_device and not collective.over for collective in answer.collectives.values())
    here = (value.what for value in answer.values if (value.file, value.line) == (inner.file, inner.line))
    return sources.is_own(inner.file) and any(_ON_GPU.search(what) for what in here)


def _last_begun(answer: RankAnswer) -> Collective | None:
    """Return the collective that a rank waits in, else its last in the group of all ranks."""
    waited = [collective for collective in answer.collectives.values() if not collective.over]
    if waited:
        return min(waited, key=lambda collective: collective.begun)
    return answer.collectives.get(_ALL_GROUPS)


def _rows(calls: Sequence[Call], place: CodeLocation | None, sources: Sources) -> tuple[StackRow, ...]:
    """Return the rows of a stack, innermost first; calls among libraries make one row."""
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
            function=entry.function, place=package_of(entry.file), source=sources.line(inner.file, inner.line)
        )
    ]
