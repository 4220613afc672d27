"""Why ranks wait for each other for ever: what holds one of them, or the ``if`` or the loop of the program at
which their ways parted.

The way of a rank is the calls in the user's files that lead to where it is. The first two that differ are in
one function; between them stands what some ranks went into and others did not.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nbdist.diagnosis.exits import rank_names
from nbdist.diagnosis.places import CodeLocation, Sources, parsed
from nbdist.diagnosis.signatures import Hint, named
from nbdist.store.reports import Call, RankAnswer

_OF_RANKS = re.compile(
    r"rank(?!ing)|main_process|is_(?:main|master|chief|primary)|process_index|trainer_id|(?:global|process)_zero",
    re.IGNORECASE,
)
# not `local_rank != -1`, which holds on every rank
_PICKS = re.compile(r"== \d|^not \w|main|master|chief|primary|(?:global|process)_zero")
# calls that threads and processes of the rank itself end
_OF_ITS_OWN = frozenset({"get", "put", "join", "acquire", "wait", "result", "communicate", "map", "recv"})
_OF_PROGRAMS = frozenset(
    {"run", "call", "check_call", "check_output", "communicate", "system", "read", "readline"}
)
_OF_SOCKETS = frozenset({"recv", "recv_into", "recvfrom", "accept", "connect"})
_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_LEAVING = (ast.Break, ast.Continue, ast.Return, ast.Raise)
_BLOCKS = ("body", "orelse", "handlers", "finalbody")
_SHOWN = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """Ranks that are at the same place. ``way`` are the calls in the user's files, outermost first, ``name``
    the collective that they wait in, as torch calls it ("" where that is not known). ``handled`` is the
    exception that they handle."""

    ranks: tuple[int, ...]
    way: tuple[Call, ...]
    place: CodeLocation
    name: str = ""
    handled: str = ""

    @property
    def call(self) -> str:
        """What they are in: ``all_reduce in backward``."""
        what = self.place.what
        return f"{self.name} in {what}" if what == "backward" and self.name else what or self.name or "?"

    @property
    def direction(self) -> str:
        """``send`` or ``recv`` of ranks that wait in one, else empty."""
        said = f"{self.name} {self.place.what}"
        return "recv" if "recv" in said else "send" if re.search(r"\bi?send", said) else ""


def why(sides: Sequence[Side], sources: Sources, raised: Mapping[int, str]) -> Hint | None:
    """Why these ranks will not meet; None where that cannot be told. ``raised`` is by rank the error of the
    last traceback in its log."""
    handling = [side for side in sides if side.handled]
    if handling and len(handling) < len(sides):
        one = handling[0]
        name = "hang-exception" if one.place.waits else "hang-retries"
        return _hint(name, who=one.ranks, error=one.handled, call=one.call)
    waiting = [side for side in sides if side.place.waits]
    held = sorted((side for side in sides if not side.place.waits), key=lambda side: len(side.ranks))
    for rank in (rank for side in held for rank in side.ranks if rank in raised):
        return _hint("hang-thread", who=(rank,), error=raised[rank])
    if held:
        return _of_held(held[0], waiting, sources)
    if {side.direction for side in waiting} >= {"send", "recv"}:
        return _unmet(sides)
    return _of_messages(waiting) or _of_parting(waiting, sources)


def crossed(answers: Sequence[RankAnswer]) -> Hint | None:
    """Of two ranks that wait in different process groups: of more ranks it is not known which are in one."""
    waits = [_awaited(answer) for answer in answers]
    if len(waits) != 2 or not all(waits) or waits[0] == waits[1]:
        return None
    return _hint("hang-crossed", who=(answers[0].rank,), others=(answers[1].rank,))


def _awaited(answer: RankAnswer) -> str:
    """The process group in which a rank waits; empty for none."""
    begun = {one.begun: group for group, one in answer.collectives.items() if not one.over}
    return begun[min(begun)] if begun else ""


def entered_alone(side: Side, sources: Sources) -> dict[str, str] | None:
    """The innermost ``if`` for some ranks alone that these are in: its ``test``, its ``line``, and the
    ``call`` that they made there."""
    for call in reversed(side.way):
        for node, part in reversed(_around(call, sources)):
            picks = isinstance(node, ast.If) and part == "body" and _PICKS.search(ast.unparse(node.test))
            if isinstance(node, ast.If) and picks and _asks_for_rank(node.test, call, sources):
                return {"test": _head(node), "line": str(node.lineno), "call": side.call}
    return None


def way_out(side: Side, sources: Sources) -> dict[str, str] | None:
    """Of the innermost loop that these ranks are in, the one ``if`` that leaves steps out: its ``test`` and
    its line ``at``."""
    for call in reversed(side.way):
        for node, _ in reversed(_around(call, sources)):
            if isinstance(node, _LOOPS):
                out = _ways_out(node)
                return {"test": _head(out[0]), "at": str(out[0].lineno)} if len(out) == 1 else None
    return None


def all_joining(sides: Sequence[Side], world_size: int) -> Hint | None:
    """Of ranks that wait in init_process_group: where all of the run do, it waits for more than there are."""
    ranks = tuple(sorted(rank for side in sides for rank in side.ranks))
    if len(ranks) < world_size or any(side.place.what != "init_process_group" for side in sides):
        return None
    return _hint("hang-joining", who=ranks, count=world_size)


def fewest(sides: Sequence[Side]) -> tuple[int, ...]:
    """Of ranks that all wait, those that are elsewhere than most; none where neither place has more."""
    counts: dict[object, list[int]] = {}
    for side in sides:
        counts.setdefault((side.place.line, side.place.file), []).extend(side.ranks)
    ordered = sorted(counts.values(), key=len)
    return tuple(sorted(ordered[0])) if len(ordered) > 1 and len(ordered[0]) < len(ordered[1]) else ()


def _of_held(side: Side, waiting: Sequence[Side], sources: Sources) -> Hint | None:
    """Of ranks that wait for no other."""
    call = side.place.what.rpartition(".")[2]
    if side.place.loads:
        return _hint("hang-loader", who=side.ranks)
    loop = _loop_of(side, waiting, sources, _LOOPS if call == "sleep" else (ast.While,))
    if isinstance(loop, (ast.For, ast.AsyncFor)) and not _ways_out(loop):
        loop = None  # slow work, which comes to its end
    if call == "sleep" and loop is not None:
        return _hint("hang-polls", who=side.ranks, test=_head(loop), line=loop.lineno)
    if "store" in side.place.what.lower():
        return None  # torch's, which other ranks write to
    if (branch := _passed_by(side, waiting, sources)) is not None:
        return branch
    text = sources.text(side.way[-1].file) if side.way else ""
    if side.place.on_network or (side.place.built_in and call in _OF_SOCKETS and "socket" in text):
        return _hint("hang-network", who=side.ranks, call=side.place.what)
    if call == "wait" and "PIPE" in text:
        return _hint("hang-pipe", who=side.ranks, call=side.place.what)
    if call in _OF_PROGRAMS and re.search(r"\bsubprocess\b|\bos\.system\b", text):
        return _hint("hang-program", who=side.ranks, call=side.place.what)
    if call in _OF_ITS_OWN or side.place.what.startswith("with "):
        return _hint("hang-inside", who=side.ranks, call=side.place.what)
    if loop is not None and waiting:
        end = loop.end_lineno or loop.lineno
        return _hint("hang-goes-round", who=side.ranks, test=_head(loop), line=loop.lineno, end=end)
    if waiting and side.place.what:
        others = tuple(sorted(rank for other in waiting for rank in other.ranks))
        return _hint("hang-busy", who=side.ranks, others=others, call=side.place.what)
    return None


def _loop_of(
    side: Side, waiting: Sequence[Side], sources: Sources, kinds: tuple[type[ast.stmt], ...]
) -> ast.stmt | None:
    """The innermost loop of these kinds that these ranks are in, and those that wait are not."""
    if not side.way:
        return None
    here = side.way[-1]
    elsewhere = [call for other in waiting for call in other.way if call.file == here.file]
    for node, _ in reversed(_around(here, sources)):
        if isinstance(node, kinds) and not any(_holds(node, call.line) for call in elsewhere):
            return node
    return None


def _passed_by(side: Side, waiting: Sequence[Side], sources: Sources) -> Hint | None:
    """The ``if`` for some ranks alone in which others wait, where these are already behind it."""
    for other in waiting:
        for here, there in zip(side.way, other.way, strict=False):
            if (here.file, here.function) != (there.file, there.function):
                break
            for node, part in _around(there, sources):
                behind = here.line > (node.end_lineno or node.lineno)
                if isinstance(node, ast.If) and behind and _asks_for_rank(node.test, there, sources):
                    return _branch("hang-rank-passed", node, part, other, side)
    return None


def _unmet(sides: Sequence[Side]) -> Hint | None:
    """Of ranks that send and ranks that receive: where all do, no message is still to come."""
    if not all(side.direction for side in sides):
        return None
    of = {
        way: tuple(sorted(rank for side in sides if side.direction == way for rank in side.ranks))
        for way in ("send", "recv")
    }
    return _hint("hang-unmet", who=of["send"], others=of["recv"])


def _of_messages(sides: Sequence[Side]) -> Hint | None:
    """Of ranks that wait for messages from one to another."""
    directions = {side.direction for side in sides}
    ranks = tuple(sorted(rank for side in sides if side.direction for rank in side.ranks))
    if len(directions) == 1 and len(ranks) > 1:
        return _hint("hang-receive" if directions == {"recv"} else "hang-send", who=ranks)
    one = next((side for side in sides if side.direction), None)
    other = next((side for side in sides if not side.direction), None)
    if one is None or other is None:
        return None
    return _hint("hang-half", who=ranks, call=one.call, others=other.ranks, other=other.call)


def _of_parting(sides: Sequence[Side], sources: Sources) -> Hint | None:
    """Of ranks that all wait for others."""
    ordered = sorted(sides, key=lambda side: (len(side.ranks), side.ranks))
    for at, side in enumerate(ordered):
        for other in ordered[at + 1 :]:
            if (hint := _parted(side, other, sources)) is not None:
                return hint
    calls = dict.fromkeys(f"{side.call} (line {side.place.line})" for side in sides)
    if len(calls) < 2:
        return None
    return _hint("hang-apart", calls=", ".join(calls))


def _parted(side: Side, other: Side, sources: Sources) -> Hint | None:
    ways = zip(side.way, other.way, strict=False)
    depth = next((at for at, (a, b) in enumerate(ways) if (a.file, a.line) != (b.file, b.line)), None)
    if depth is None:
        return None
    here, there = side.way[depth], other.way[depth]
    if (here.file, here.function) != (there.file, there.function):
        return None
    mine, theirs = _around(here, sources), _around(there, sources)
    while mine and theirs and mine[0] == theirs[0]:
        del mine[0], theirs[0]
    both_ways = [(side, other, mine), (other, side, theirs)]
    for inside, outside, nodes in both_ways:
        for node, part in nodes:
            if isinstance(node, ast.If) and _asks_for_rank(node.test, here, sources):
                return _branch("hang-rank-branch", node, part, inside, outside)
    for inside, outside, _ in both_ways:
        for call in inside.way[depth + 1 :]:
            if (left := _returned(call, sources)) is not None:
                return _branch("hang-rank-return", left, "body", inside, outside)
            # both may have been in the if around the call, and parted in the function
            for node, part in _around(call, sources):
                if isinstance(node, ast.If) and _asks_for_rank(node.test, call, sources):
                    return _branch("hang-rank-branch", node, part, inside, outside)
    for (inside, outside, nodes), behind in zip(both_ways, (there, here), strict=True):
        loop = next((node for node, _ in nodes if isinstance(node, _LOOPS)), None)
        if loop is not None and behind.line > loop.lineno:
            return _loop(loop, inside, outside)
    for inside, outside, nodes in both_ways:
        for node, part in nodes:
            if isinstance(node, ast.If):
                return _branch("hang-branch", node, part, inside, outside)
    return None


def _branch(name: str, node: ast.If, part: str, inside: Side, outside: Side) -> Hint:
    test = _head(node) if part == "body" else f"else of {_head(node)}"
    return _hint(
        name, inside=inside.ranks, outside=outside.ranks, test=test, line=node.lineno, call=inside.call
    )


def _loop(loop: ast.stmt, inside: Side, outside: Side) -> Hint:
    """One that some ranks have left; with what may have let them: a step that raised leaves out its rest."""
    ways_out: Sequence[ast.If | ast.ExceptHandler] = _ways_out(loop)
    ways_out = ways_out or [node for node in ast.walk(loop) if isinstance(node, ast.ExceptHandler)]
    values: dict[str, object] = {"inside": inside.ranks, "outside": outside.ranks, "line": loop.lineno}
    if len(ways_out) != 1:
        return _hint("hang-loop", **values)
    return _hint("hang-loop-left", **values, test=_head(ways_out[0]), at=ways_out[0].lineno)


def _ways_out(loop: ast.stmt) -> list[ast.If]:
    """What lets a rank leave the loop, or the rest of a step."""
    ifs = (node for node in ast.walk(loop) if isinstance(node, ast.If))
    return [node for node in ifs if isinstance(node.body[-1], _LEAVING)]


def _returned(call: Call, sources: Sources) -> ast.If | None:
    """In the function of this call, the ``if`` about ranks before it that returns."""
    tree = parsed(sources.text(call.file))
    functions = [node for node in ast.walk(tree) if isinstance(node, _FUNCTIONS)] if tree is not None else []
    own = [node for node in functions if node.name == call.function and _holds(node, call.line)]
    for node in (node for function in own for node in function.body):
        if not isinstance(node, ast.If) or node.lineno >= call.line:
            continue
        if isinstance(node.body[-1], ast.Return) and _asks_for_rank(node.test, call, sources):
            return node
    return None


def _around(call: Call, sources: Sources) -> list[tuple[ast.stmt, str]]:
    """The statements around a line within its function, outermost first, and the part of each."""
    tree = parsed(sources.text(call.file))
    return [] if tree is None else list(_steps(tree.body, call.line))


def _steps(statements: Sequence[ast.AST], line: int) -> list[tuple[ast.stmt, str]]:
    for node in statements:
        if not _holds(node, line):
            continue
        for part in _BLOCKS:
            inner = getattr(node, part, [])
            if isinstance(inner, list) and inner and _holds(inner[0], line, inner[-1]):
                rest = _steps(inner, line)
                if isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
                    return rest
                return [(node, part), *rest]  # type: ignore[list-item]
        # the head of a loop is executed in each round
        return [(node, "body")] if isinstance(node, _LOOPS) else []
    return []


def _holds(node: ast.AST, line: int, last: ast.AST | None = None) -> bool:
    begin: int = getattr(node, "lineno", line + 1)
    end: int = getattr(last or node, "end_lineno", begin)
    return begin <= line <= end


def _asks_for_rank(test: ast.expr, call: Call, sources: Sources) -> bool:
    """Whether a condition is about the rank's number, itself or by a name that was given a value of it."""
    if _OF_RANKS.search(ast.unparse(test)):
        return True
    names = {node.id for node in ast.walk(test) if isinstance(node, ast.Name)}
    return any(
        target.id in names and _OF_RANKS.search(ast.unparse(node.value))
        for node in ast.walk(parsed(sources.text(call.file)) or ast.Module([], []))
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    )


def _head(node: ast.stmt | ast.ExceptHandler) -> str:
    """The first line of a statement, as it is written but for spaces: ``if rank == 0:``."""
    text = ast.unparse(node).partition("\n")[0]
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _hint(name: str, **values: object) -> Hint:
    """Tuples are ranks."""
    said, said_zh = (
        {
            key: rank_names(value, language) if isinstance(value, tuple) else str(value)
            for key, value in values.items()
        }
        for language in ("en", "zh")
    )
    return Hint.of(named(name), said, said_zh)
