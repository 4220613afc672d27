"""The call, with its line, that blocks a rank which waits for no other rank."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence

from nbdist.diagnosis.hangs.branches_taken import passed_by
from nbdist.diagnosis.known import Hint, hint
from nbdist.diagnosis.positions import Side, ranks_of
from nbdist.programs.branches import (
    around,
    calls_of_function,
    counts_to_its_end,
    first_given,
    head,
    holds,
    names_in,
)
from nbdist.programs.sources import Sources
from nbdist.text import Both, both

# calls that threads and processes of the rank itself end
_OF_ITS_OWN = frozenset({"get", "put", "join", "acquire", "wait", "result", "communicate", "map", "recv"})
_OF_SOCKETS = frozenset({"recv", "recv_into", "recvfrom", "accept", "connect"})
_OF_ASYNCIO = frozenset({"runners.py", "base_events.py"})
_OF_THREADS = frozenset({"", "threading.py", "queue.py", "_base.py", "thread.py"})
# calls of the interpreter at the program's end
_AT_THE_END = frozenset({"_shutdown", "_exit_function", "_python_exit"})
_OF_STORES = frozenset({"get", "wait", "multi_get", "barrier"})
_STORE = re.compile(r"(?<!re)store", re.IGNORECASE)
_FEW = 3  # the most lines that set a key of the store to name
_OF_PROCESS = re.compile(r"\b(?:strftime|isoformat|uuid[14]|mkdtemp|mktemp|token_hex)\(")
_MOMENT = re.compile(r"(?:\w+\.)*(?:now|utcnow|today|time|time_ns|getpid)\(\)")
"""Calls whose results differ between processes: inside a name, and written into one."""


def of_held(side: Side, waiting: Sequence[Side], sources: Sources) -> Hint | None:
    """Name the call that blocks these ranks; ``waiting`` are those that wait for others."""
    call = side.place.what.rpartition(".")[2]
    values = {"who": side.ranks, "where": _where(side, sources), "call": side.place.what}
    if side.place.loads:
        return hint("hang-loader", **values, beside=_beside(side, sources))
    if call in _OF_STORES and side.place.built_in and _is_of_store(side):
        return hint("hang-store", **values, keys=_keys(side, sources))
    if not side.way and side.place.what in _AT_THE_END:
        return _at_the_end(side, waiting, sources)
    if (passed := passed_by(side, waiting, sources)) is not None:
        return passed
    if (name := _row(side, call, sources)) is not None:
        return hint(name, **values, beside=_beside(side, sources))
    if (loop := _loop_of(side, waiting, sources)) is not None:
        return hint("hang-goes-round", **values, test=head(loop), line=loop.lineno)
    return hint("hang-busy", **values, others=ranks_of(waiting)) if waiting and side.place.what else None


def _row(side: Side, call: str, sources: Sources) -> str | None:
    """Return the row for a blocking call, as far as the call shows it."""
    place, text = side.place, sources.text(side.way[-1].file) if side.way else ""
    if place.on_network or (place.built_in and call in _OF_SOCKETS and "socket" in text):
        return "hang-network"
    if call == "join" or place.within == "subprocess.py":
        return "hang-join"
    if place.within in _OF_ASYNCIO:
        return "hang-await"
    return "hang-inside" if call in _OF_ITS_OWN or place.what.startswith("with ") else None


def _may_be_fed(side: Side) -> bool:
    """Return whether a thread or a process of these ranks must end their wait."""
    call = side.place.what.rpartition(".")[2]
    return side.place.loads or call in _OF_ITS_OWN or call == "sleep" or call.startswith("with ")


def of_threads(held: Sequence[Side], raised: Mapping[int, str]) -> Hint | None:
    """Name the error of the thread or process that a rank waits for; ``raised`` is by rank."""
    ranks = (rank for side in held if _may_be_fed(side) for rank in side.ranks)
    dead = next((rank for rank in ranks if rank in raised), None)
    return hint("hang-thread", who=(dead,), error=raised[dead]) if dead is not None else None


def _at_the_end(side: Side, waiting: Sequence[Side], sources: Sources) -> Hint:
    values = {"who": side.ranks, "beside": _beside(side, sources)}
    if waiting:
        return hint("hang-ended-early", **values, others=ranks_of(waiting), call=waiting[0].call)
    return hint("hang-at-the-end", **values)


def _where(side: Side, sources: Sources) -> Both:
    if not side.way:
        return Both("", "")
    at = side.way[-1]
    return both("diagnosis.where", line=at.line, file=sources.name(at.file))


def _beside(side: Side, sources: Sources) -> Both:
    """Return the lines of these ranks' other threads and processes, or that there are none."""
    workers = (next((call for call in calls if sources.is_own(call.file)), None) for calls in side.workers)
    ends = [*(way[-1] for way in side.beside if way), *(call for call in workers if call is not None)]
    if ends:
        lines = dict.fromkeys(sources.at(end.file, end.line) for end in ends)
        return both("diagnosis.beside", lines=", ".join(lines))
    of_threads = not side.place.loads and len(side.ranks) == 1 and side.place.within in _OF_THREADS
    return both("diagnosis.alone") if of_threads else Both("", "")


def _loop_of(side: Side, waiting: Sequence[Side], sources: Sources) -> ast.While | None:
    """Find the innermost ``while`` around these ranks alone, if it counts no rounds."""
    for here in reversed(side.way):
        elsewhere = [call for other in waiting for call in other.way if call.file == here.file]
        for node, _ in reversed(around(here, sources)):
            if isinstance(node, ast.While) and not any(holds(node, call.line) for call in elsewhere):
                return None if counts_to_its_end(node) else node
    return None


def _is_of_store(side: Side) -> bool:
    """Return whether a name, or its kind, is a store's: a PrefixStore may have any name."""
    owner, at = side.place.what.rpartition(".")[0], side.way[-1] if side.way else None
    kind = side.had(at.file, at.line).get(owner, "") if at is not None else ""
    return _STORE.search(side.place.what) is not None or kind.endswith("Store")


def _keys(side: Side, sources: Sources) -> Both:
    """Return the awaited key and the keys that the same file sets, as they are written."""
    if not side.way:
        return Both("", "")
    at = side.way[-1]
    awaited = first_given(at, side.place.what.rpartition(".")[2], sources)
    for own in _own_names(at.file, sources):
        names = names_in(ast.parse(awaited))
        if names & set(map(ast.unparse, own.targets)) or awaited == ast.unparse(own.value):
            return both("diagnosis.own-names", line=own.lineno, source=head(own))
    calls = calls_of_function("set", at.file, sources)
    keys = {call.line: key for call in calls if (key := first_given(call, "set", sources))}
    if not awaited or not 0 < len(keys) <= _FEW:
        return Both("", "")
    set_at = [both("diagnosis.sets", line=line, key=key) for line, key in keys.items()]
    places = Both(", ".join(key.en for key in set_at), "，".join(key.zh for key in set_at))
    return both("diagnosis.asked-and-set", line=at.line, asked=awaited, places=places)


def _own_names(file: str, sources: Sources) -> Iterator[ast.Assign]:
    """Yield names made of the time, a pid or a temporary folder; a broadcast may share them."""
    tree = sources.tree(file)
    sets = [node for node in ast.walk(tree) if isinstance(node, ast.Assign)]
    moments = {ast.unparse(node.targets[0]) for node in sets if _MOMENT.fullmatch(ast.unparse(node.value))}
    for node in sets:
        parts = (part.value for part in ast.walk(node.value) if isinstance(part, ast.FormattedValue))
        written = [ast.unparse(part) for part in parts]
        own = any(text in moments or _MOMENT.search(text) for text in written)
        if (own or _OF_PROCESS.search(ast.unparse(node.value))) and not _is_given_to_all(node, tree):
            yield node


def _is_given_to_all(node: ast.Assign, tree: ast.Module) -> bool:
    functions = [each for each in ast.walk(tree) if isinstance(each, ast.FunctionDef)]
    around = [function for function in functions if holds(function, node.lineno)]
    calls = (each for each in ast.walk(around[-1] if around else tree) if isinstance(each, ast.Call))
    return any("broadcast" in ast.unparse(call.func) for call in calls)
