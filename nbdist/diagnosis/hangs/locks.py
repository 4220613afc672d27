"""Locks that ranks wait for: where a program takes them, and what is inside of one at that moment."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from nbdist.diagnosis.places import Sources, call_on_line, parsed
from nbdist.diagnosis.sides import Side, hint
from nbdist.diagnosis.signatures import Hint
from nbdist.diagnosis.statements import around, calls_of_function, functions_of, holds, method, own_nodes
from nbdist.store.reports import Call


def locked(side: Side, waiting: Sequence[Side], sources: Sources) -> Hint | None:
    """The ``with`` that these ranks cannot enter, and what is in such a one at that moment: they themselves,
    another thread of theirs or, of a lock that is entered by code of Python's as those of files are, another
    rank."""
    for at in reversed(range(len(side.way))):
        lock = "" if _leaves(side, at) else _entered(side.way[at], sources)
        if lock and (found := _holder(side, at, lock, waiting, sources)) is not None:
            return found
    return None


def _leaves(side: Side, at: int) -> bool:
    """Whether what these ranks are in there is the end of a ``with``: they need not get into it any more."""
    calls = list(side.calls)
    behind = calls[calls.index(side.way[at]) + 1 :] if side.way[at] in calls else []
    return bool(behind) and behind[0].function in ("__exit__", "__aexit__")


def _holder(side: Side, at: int, lock: str, waiting: Sequence[Side], sources: Sources) -> Hint | None:
    call = side.way[at]
    values = {"who": side.ranks, "lock": lock, "line": call.line}
    # first the threads: where one is inside, what this one has taken itself is of another object
    for way in (way for way in side.beside if not _gives_up(way, lock, sources)):
        for theirs in _inside(way, lock, call, sources):
            return hint("hang-locked-by-thread", **values, at=theirs, where=way[-1].line)
    for mine in _inside(side.way[:at], lock, call, sources):
        return hint("hang-locked-twice", **values, at=mine)
    if (left := _left_acquired(call, lock, sources)) is not None:
        return hint("hang-never-released", **values, at=left)
    if side.place.what == f"with {lock}" or side.place.built_in:
        return None
    for other in waiting:
        for theirs in _inside(other.way, lock, call, sources):
            return hint("hang-locked-by-rank", **values, at=theirs, others=other.ranks, call=other.call)
    return None


def _gives_up(way: Sequence[Call], lock: str, sources: Sources) -> bool:
    """Whether a thread waits for a condition, which others may enter meanwhile."""
    called = call_on_line(sources.text(way[-1].file), way[-1].line)
    return called in (f"{lock}.wait", f"{lock}.wait_for")


def _inside(way: Sequence[Call], lock: str, where: Call, sources: Sources) -> Iterator[int]:
    """The lines of the ``with`` statements for this lock that a way is in, or that have acquired it."""
    for call in (call for call in way if call.file == where.file):
        # another class has a lock of its own by that name
        if lock.startswith("self.") and not _is_of_one_class(call, where, sources):
            continue
        for node, _ in around(call, sources):
            if isinstance(node, ast.With) and ast.unparse(node.items[0].context_expr) == lock:
                yield node.lineno
        if (at := _acquired(call, lock, sources)) is not None:
            yield at


def _entered(call: Call, sources: Sources) -> str:
    """What the ``with`` enters that begins in this line, or what is acquired in it; empty for nothing."""
    for node in ast.walk(parsed(sources.text(call.file)) or ast.Module([], [])):
        if isinstance(node, ast.With) and node.lineno <= call.line < node.body[0].lineno:
            return ast.unparse(node.items[0].context_expr)
        if isinstance(node, ast.Call) and holds(node, call.line) and method(node) == "acquire":
            return ast.unparse(node.func).rpartition(".")[0]
    return ""


def _acquired(call: Call, lock: str, sources: Sources) -> int | None:
    """The line of the function of this call that has acquired a lock before it, and not released it."""
    calls = [
        (node.lineno, method(node))
        for function in functions_of(call, sources)
        for child in function.body
        for node in own_nodes(child)
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[0] == lock
    ]
    before = sorted(one for one in calls if one[0] < call.line and one[1] in ("acquire", "release"))
    return before[-1][0] if before and before[-1][1] == "acquire" else None


def _left_acquired(call: Call, lock: str, sources: Sources) -> int | None:
    """Where another function of the file acquires a lock and leaves the release to a third one."""
    for one in calls_of_function("acquire", call.file, sources):
        if one.function == call.function or not (_is_of_one_class(one, call, sources) or "." not in lock):
            continue
        if lock in _owners(one, "acquire", sources) and lock not in _owners(one, "release", sources):
            return one.line
    return None


def _owners(call: Call, called: str, sources: Sources) -> set[str]:
    """The objects whose method of this name is called in the function of a call."""
    nodes = (node for function in functions_of(call, sources) for node in ast.walk(function))
    calls = (node for node in nodes if isinstance(node, ast.Call) and method(node) == called)
    return {ast.unparse(node.func).rpartition(".")[0] for node in calls}


def _is_of_one_class(one: Call, other: Call, sources: Sources) -> bool:
    """Whether two calls of a file are in methods of one class, or of one and a base of it."""
    mine, theirs = (_class_of(call, sources) for call in (one, other))
    return not mine or not theirs or bool(mine & theirs)


def _class_of(call: Call, sources: Sources) -> set[str]:
    """The innermost class that a line is in, and its bases, by their names."""
    nodes = ast.walk(parsed(sources.text(call.file)) or ast.Module([], []))
    found = [node for node in nodes if isinstance(node, ast.ClassDef) and holds(node, call.line)]
    return {found[-1].name, *map(ast.unparse, found[-1].bases)} if found else set()
