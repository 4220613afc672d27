"""Why ranks have ended while others still wait for them: these came to a call alone, or have a round more.

With gloo those that wait fail then. With NCCL they go on waiting: nothing tells them.
"""

from __future__ import annotations

import ast
import re

from nbdist.diagnosis.hangs.alone import entered_alone, exits_of_rank, is_in_loop, ways_past
from nbdist.diagnosis.hangs.batches import shared_out, sized_by_rank
from nbdist.diagnosis.hangs.constant_loss import constant_loss
from nbdist.diagnosis.hangs.hooks import is_in_loop_of_library
from nbdist.diagnosis.hangs.one_more import one_more
from nbdist.diagnosis.places import Sources
from nbdist.diagnosis.sides import Side, hint
from nbdist.diagnosis.signatures import Hint
from nbdist.diagnosis.statements import LOOPS, around, exits, head, own_nodes, told
from nbdist.text import Both, both

_FEW = 2

_OF_MODEL = re.compile(r"state_dict|named_|parameters|buffers")
"""What is alike on ranks with the same model."""


def why_left(
    side: Side, early: tuple[int, ...], program: str, sources: Sources, *, alone: bool = True
) -> Hint:
    """``early`` are the ranks that have ended, ``side`` those that wait, ``program`` what they all run.
    ``alone``: these may be the only ones that come to their line, where all are to come."""
    who = {"late": side.ranks, "early": early}
    if side.place.on_device:
        # where the device's collective was called is not known: an if around this line need not be around it
        return hint("uneven-steps", **who)
    if alone and (entered := entered_alone(side, sources)) is not None:
        return hint("left-alone", **who, **entered)
    if not is_in_loop(side, sources) and not _is_in_library(side, program, sources):
        return _before_call(side, early, program, sources) if alone else hint("uneven-steps", **who)
    if (keys := _over_keys(side, sources)) is not None:
        outer = _loop_around(keys, side, sources)
        rounds = both("diagnosis.or-rounds", line=outer) if outer is not None else Both("", "")
        return hint("uneven-keys", **who, call=side.call, line=keys.lineno, source=head(keys), rounds=rounds)
    if (constant := constant_loss([side], sources)) is not None:
        return constant
    if (sized := sized_by_rank(side.way, sources)) is not None:
        return hint("uneven-steps-sizes", **who, **sized)
    if (shared := shared_out(side.way, sources)) is not None:
        return hint("uneven-steps-shared", **who, **shared)
    if leaving := exits_of_rank(side, sources):
        return hint("uneven-steps-exit", **who, tests=told(leaving))
    if ways := ways_past(side, sources):
        caught = all(isinstance(way, ast.ExceptHandler) for way in ways)
        return hint("uneven-steps-caught" if caught else "uneven-steps-left", **who, tests=told(ways))
    return hint("uneven-steps", **who)


def _before_call(side: Side, early: tuple[int, ...], program: str, sources: Sources) -> Hint:
    """Of ranks that ended before a call outside of all loops: with the lines that may have ended them."""
    lines = exits(program, sources)
    if not lines and (more := one_more(side, early, sources)) is not None:
        return more
    ends = both("diagnosis.may-end", lines=", ".join(map(str, lines))) if 0 < len(lines) <= _FEW else None
    return hint("left-before-call", early=early, late=side.ranks, call=side.call, lines=ends or Both("", ""))


def _is_in_library(side: Side, program: str, sources: Sources) -> bool:
    """Whether others may have had fewer batches in the loop of a library: no line of the program ends it."""
    return is_in_loop_of_library(side, sources) and not exits(program, sources)


def _loop_around(loop: ast.For, side: Side, sources: Sources) -> int | None:
    """The line of a loop that goes around this one: the other ranks may have had fewer rounds of it."""
    steps = (node for call in reversed(side.way) for node, _ in reversed(around(call, sources)))
    return next((node.lineno for node in steps if isinstance(node, LOOPS) and node is not loop), None)


def _over_keys(side: Side, sources: Sources) -> ast.For | None:
    """The loop right around a collective where that goes through the keys of a dict."""
    steps = [node for node, _ in around(side.way[-1], sources)] if side.way else []
    loop = next((node for node in reversed(steps) if isinstance(node, LOOPS)), None)
    if not isinstance(loop, ast.For) or not isinstance(loop.iter, ast.Call):
        return None
    asked = loop.iter.func.attr if isinstance(loop.iter.func, ast.Attribute) else ""
    if asked in ("items", "keys", "values"):
        return None if _OF_MODEL.search(ast.unparse(loop.iter)) else loop
    if ast.unparse(loop.iter.func) != "sorted" or not isinstance(loop.target, ast.Name):
        return None
    name = loop.target.id
    keyed = (
        node
        for child in loop.body
        for node in own_nodes(child)
        if isinstance(node, ast.Subscript) and ast.unparse(node.value) == ast.unparse(loop.iter.args[0])
    )
    return loop if any(ast.unparse(node.slice) == name for node in keyed) else None
