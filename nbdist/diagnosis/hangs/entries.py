"""Two groups of ranks in the function where their ways part: statements around one and not the other."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from nbdist.diagnosis.exits import ranks_in_words
from nbdist.diagnosis.known import Hint, hint
from nbdist.diagnosis.positions import Side
from nbdist.programs.branches import (
    Step,
    around,
    calls_too,
    counters,
    goes_on,
    holds_for,
    is_default,
    is_of_all,
    lines_in_words,
    names_in,
    own_nodes,
    returns_before,
)
from nbdist.programs.sources import Sources
from nbdist.store.reports import Call
from nbdist.text import Both, both

MOST = 3
"""The most conditions in a hint."""

_IS_GIVEN = re.compile(r"\w+ is (?:not )?None")
PLAIN = re.compile(r"None|True|False|nan|-?inf|-?\d[\d.e+-]*")
Way = ast.If | ast.ExceptHandler


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """Two groups: ``inside`` is in all ``steps``, which begin at the call ``here``, and in the ``deeper``
    calls; ``outside`` is in none of them, but at ``elsewhere`` in the same function."""

    inside: Side
    outside: Side
    here: Call
    elsewhere: Call
    steps: Sequence[Step]
    deeper: Sequence[Call]

    @property
    def is_behind(self) -> bool:
        """Return whether ``outside`` has come past the call ``here``."""
        return self.elsewhere.line > self.here.line

    def ifs(self, sources: Sources) -> Iterator[tuple[ast.If, str, Call]]:
        """Yield the ifs around the inside that the outside may not be in."""
        called = self.inside.place.what.rpartition(".")[2]
        for call in (self.here, *self.deeper):
            for node, part in self.steps if call is self.here else around(call, sources):
                if not isinstance(node, ast.If) or calls_too(node, part, called):
                    continue
                if not self._goes_in_too(node, part, call):
                    yield node, part, call

    def _goes_in_too(self, node: ast.If, part: str, call: Call) -> bool:
        """Return whether the outside enters that part, too, by its rank's number alone."""
        had = self.outside.had(call.file, node.lineno) if call is self.here else {}
        held = [holds_for(node.test, rank, had) for rank in self.outside.ranks]
        return all(holds is not None and holds is (part == "body") for holds in held)


def decides_alike(node: ast.If, entry: Entry, call: Call, sources: Sources) -> bool:
    """Return whether a condition reads only the round's number and plain values equal on both sides."""
    mine, theirs = (side.had(call.file, node.lineno) for side in (entry.inside, entry.outside))
    calls = any(isinstance(inner, ast.Call) for inner in ast.walk(node.test))
    names = names_in(node.test)
    if is_of_all(node.test):
        return True
    # an argument that callers leave out
    if _IS_GIVEN.fullmatch(ast.unparse(node.test)) and is_default(min(names), call, sources):
        return True
    rounds = counters(call, sources)
    if not calls and names and names <= rounds:
        return True
    # they may be in different rounds now
    mine, theirs = (
        {name: what for name, what in had.items() if name not in rounds} for had in (mine, theirs)
    )
    # not `best`, which  if loss < best:  has overwritten
    changed = {
        ast.unparse(inner)
        for inner in own_nodes(node)
        if isinstance(inner, ast.Name | ast.Attribute) and isinstance(inner.ctx, ast.Store)
    }
    if calls or not mine or changed & mine.keys():
        return False
    return mine == theirs and all(map(PLAIN.fullmatch, mine.values()))


def differences(node: ast.If, entry: Entry, call: Call, sources: Sources) -> Both:
    """Return ``: loss is 9.1 on rank 1, 3.2 on rank 0``; empty where nothing is known to differ."""
    mine, theirs = (side.had(call.file, node.lineno) for side in (entry.inside, entry.outside))
    rounds = counters(call, sources)
    unlike = [name for name in mine if mine[name] != theirs.get(name, mine[name]) and name not in rounds]
    if not unlike:
        return Both("", "")
    name = unlike[0]
    return both(
        "diagnosis.its-value",
        name=name,
        mine=mine[name],
        inside=ranks_in_words(entry.inside.ranks),
        theirs=theirs[name],
        outside=ranks_in_words(entry.outside.ranks),
    )


def named(ways: Sequence[Way], sides: Sequence[Side], sources: Sources) -> Both:
    """Return conditions with their lines, and with the file of those outside the program."""
    files: dict[int, str] = {}
    for file in dict.fromkeys(call.file for side in sides for call in side.way):
        if not sources.is_program(file):
            nodes = {id(node) for node in ast.walk(sources.tree(file))}
            files |= {id(way): sources.name(file) for way in ways if id(way) in nodes}
    return lines_in_words(ways, files)


def handlers_of(entry: Entry, sources: Sources) -> list[Way]:
    """Find the handlers around the inside alone that let a rank go on after an error."""
    steps = [
        step
        for call in (entry.here, *entry.deeper)
        for step in (entry.steps if call is entry.here else around(call, sources))
    ]
    tries = [node for node, part in steps if isinstance(node, ast.Try) and part == "body"]
    return [handler for node in tries for handler in node.handlers if goes_on(handler)]


def of_caught(entry: Entry, ways: Sequence[Way], sources: Sources) -> Hint | None:
    """Find the ``try`` around these ranks that others may have left by an error."""
    handlers = handlers_of(entry, sources)
    if not handlers:
        return None
    returns = [left for call in entry.deeper if entry.is_behind for left in returns_before(call, sources)]
    shown = list(dict.fromkeys([*handlers, *ways, *returns]))
    shown = shown if len(shown) <= MOST else handlers[:MOST]
    tests = named(shown, (entry.inside, entry.outside), sources)
    ranks = {"inside": entry.inside.ranks, "outside": entry.outside.ranks}
    return hint("hang-caught", **ranks, call=entry.inside.call, tests=tests)
