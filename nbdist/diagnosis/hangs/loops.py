"""Ranks that left a loop that others are in, and the statement that let them out."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

from nbdist.diagnosis.hangs.entries import (
    MOST,
    PLAIN,
    Entry,
    Way,
    decides_alike,
    handlers_of,
    named,
    of_caught,
)
from nbdist.diagnosis.hangs.leaving import exchanged
from nbdist.diagnosis.known import Hint, hint
from nbdist.programs.branches import (
    LOOPS,
    around,
    asks_for_rank,
    caught_in_calls,
    counters,
    counts_to_its_end,
    head,
    holds,
    is_of_all,
    names_in,
    own_nodes,
    returns_before,
    ways_out,
)
from nbdist.programs.sources import Sources
from nbdist.store.reports import Call

_ALIKE = re.compile(
    r"^t?range\(|\b(?:\w*parameters|\w*modules|\w*layers|\w*blocks|\w*stages|state_dict|param_groups)\b"
    r"|\b(?:children|buffers)\("
)
"""Things with the same number of rounds on each rank, as a rule."""


def by_loop(entries: Sequence[Entry], common: Sequence[ast.stmt], sources: Sources) -> Hint | None:
    """Find a loop that one side has left, in this function or in one that it calls. With equal rounds on
    both, the other side more likely came round and skipped the rest."""
    for entry, other in (entries, entries[::-1]):
        here = [
            node for node, _ in entry.steps if isinstance(node, LOOPS) and entry.elsewhere.line > node.lineno
        ]
        inner = [
            node for call in entry.deeper for node, _ in around(call, sources) if isinstance(node, LOOPS)
        ]
        loops = here + inner if here or entry.is_behind else []
        if loops:
            # ranks usually have equally many epochs, but not batches
            over_data = [loop for loop in loops if not _is_alike(loop)]
            # a rank past the epochs most likely left by a break
            broken = [loop for loop in here if _is_alike(loop) and any(map(_ends_loop, ways_out(loop)))]
            left = (broken or over_data or loops)[0]
            round_ = by_round(entries, common, sources) if not broken and _has_as_many(left, entry) else None
            return round_ or _loop(left, entry, other, sources)
    return None


def _has_as_many(loop: ast.stmt, entry: Entry) -> bool:
    """Return whether a loop's range is the same on both sides."""
    if not isinstance(loop, ast.For) or not re.match(r"(?:\w+\.)*t?range\(", ast.unparse(loop.iter)):
        return False
    mine, theirs = (side.had(entry.here.file, loop.lineno) for side in (entry.inside, entry.outside))
    names = [node for node in ast.walk(loop.iter) if isinstance(node, ast.Name | ast.Attribute)]
    return len(names) == 1 or (bool(mine) and mine == theirs and all(map(PLAIN.fullmatch, mine.values())))


def _ends_loop(way: Way) -> bool:
    return isinstance(way.body[-1], ast.Break | ast.Return)


def _is_alike(loop: ast.stmt) -> bool:
    """Return whether a loop usually has as many rounds on each rank: over a range or a model, or counted."""
    if isinstance(loop, ast.While):
        return counts_to_its_end(loop)
    return isinstance(loop, ast.For) and _ALIKE.search(ast.unparse(loop.iter)) is not None


def _loop(loop: ast.stmt, entry: Entry, other: Entry, sources: Sources) -> Hint:
    values: dict[str, object] = {"inside": entry.inside.ranks, "outside": entry.outside.ranks}
    values |= {"line": loop.lineno, "loop": head(loop)}
    ways = _ways(loop, entry, other, sources)
    if not 0 < len(ways) <= MOST:
        return hint("hang-while" if isinstance(loop, ast.While) else "hang-loop", **values)
    if len(ways) == 1 and isinstance(ways[0], ast.ExceptHandler):
        return hint("hang-loop-caught", **values, test=head(ways[0]), at=ways[0].lineno)
    return hint("hang-loop-left", **values, tests=named(ways, (entry.inside, entry.outside), sources))


def _ways(loop: ast.stmt, entry: Entry, other: Entry, sources: Sources) -> list[Way]:
    """Find what may have let ranks out of a loop: exits, also of inner loops, ifs around the call, and, where
    both may come round to the ``other`` side's call, returns and ifs before that."""
    ways: list[Way] = list(ways_out(loop))
    for call in entry.deeper:
        loops = (node for node, _ in around(call, sources) if isinstance(node, LOOPS))
        ways += [way for node in loops for way in ways_out(node)]
        # in a function called from the loop, the others may have returned before that call
        ways += returns_before(call, sources)
    around_both = (node for node, _ in around(entry.elsewhere, sources) if isinstance(node, LOOPS))
    if any(holds(node, entry.here.line) for node in around_both):
        ways += [left for call in other.deeper for left in returns_before(call, sources)]
        # those in the loop may have skipped that call and begun the next round
        ways += _parting_ifs(other, sources)
    ways += caught_in_calls(loop, entry.here.file, sources)
    ways = [way for way in ways if not _is_end_of_data(way) and not _counts_alike(way, loop, entry, sources)]
    ways = [_of_rank(way, entry.here.file, sources) for way in ways]
    ways += _parting_ifs(entry, sources)
    ifs = (node for node in own_nodes(loop) if isinstance(node, ast.If) and not is_of_all(node.test))
    ways += [node for node in ifs if exchanged(node, entry.here.file, sources)]
    return list(dict.fromkeys(ways))


def _parting_ifs(entry: Entry, sources: Sources) -> list[ast.If]:
    ifs = entry.ifs(sources)
    return [node for node, _, call in ifs if not decides_alike(node, entry, call, sources)]


def _is_end_of_data(way: Way) -> bool:
    """Return whether it is ``except StopIteration: break``."""
    if not isinstance(way, ast.ExceptHandler) or way.type is None:
        return False
    return ast.unparse(way.type) == "StopIteration"


def _counts_alike(way: Way, loop: ast.stmt, entry: Entry, sources: Sources) -> bool:
    """Return whether an exit depends only on the round and on equal limits: ``if step >= args.max_steps``."""
    if not isinstance(way, ast.If):
        return False
    at = Call(file=entry.here.file, line=way.lineno, function=entry.here.function)
    names = names_in(way.test)
    nodes = (node for node in own_nodes(loop) if isinstance(node, ast.Name))
    sets = {node.id for node in nodes if isinstance(node.ctx, ast.Store)}
    rounds = counters(at, sources)
    return bool(names & rounds) and not (names - rounds) & sets and decides_alike(way, entry, at, sources)


def _of_rank(way: Way, file: str, sources: Sources) -> Way:
    """Return the ``if`` for some ranks around an exit of a loop; itself where there is none."""
    here = Call(file=file, line=way.body[0].lineno, function="")
    ifs = [node for node, _ in around(here, sources) if isinstance(node, ast.If) and node is not way]
    within = any(node is way for node in ast.walk(sources.tree(file)))
    return next((node for node in ifs if within and asks_for_rank(node.test, here, sources)), way)


def by_round(entries: Sequence[Entry], common: Sequence[ast.stmt], sources: Sources) -> Hint | None:
    """Find what made ranks skip a line and come round to an earlier one."""
    for entry in (entry for entry in entries if not entry.is_behind):
        loops = [node for node in common if isinstance(node, LOOPS)]
        ways: list[Way] = [way for loop in loops[-1:] for way in ways_out(loop)]
        # nothing leads back into the only loop around both
        outer = entry.inside.way[: entry.inside.way.index(entry.here)]
        again = len(loops) > 1 or any(
            isinstance(node, LOOPS) for call in outer for node, _ in around(call, sources)
        )
        ways = [way for way in ways if again or not _ends_loop(way)]
        ways += returns_before(entry.here, sources)
        ways = [_of_rank(way, entry.here.file, sources) for way in ways if way.lineno < entry.here.line]
        # the others may have skipped it in a function, too
        for call in entry.deeper:
            ways += returns_before(call, sources)
            ways += [node for node, _, at in entry.ifs(sources) if at is call]
        if not ways and (caught := of_caught(entry, [], sources)) is not None:
            return caught
        ways += handlers_of(entry, sources)
        if 0 < len(ways) <= MOST:
            file, line = entry.inside.place.file, entry.inside.place.line
            return hint(
                "hang-round",
                inside=entry.inside.ranks,
                outside=entry.outside.ranks,
                call=entry.inside.call,
                line=f"{file}:{line}" if file else line,
                other=entry.outside.call,
                tests=named(ways, (entry.inside, entry.outside), sources),
            )
    return None
