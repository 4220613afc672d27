"""Ranks that wait in a call outside of all loops for others that have ended: these may have come to it, where
the first have called one more before. Calls meet by their number, and not by their lines."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from nbdist.diagnosis.conditions import asks_for_rank
from nbdist.diagnosis.hangs.entries import line_of
from nbdist.diagnosis.places import Sources, parsed
from nbdist.diagnosis.sides import Side, hint
from nbdist.diagnosis.signatures import Hint
from nbdist.diagnosis.statements import functions_of, head, is_collective, is_quiet, method, own_nodes
from nbdist.store.reports import Call

_WAIT_FOR_ALL = frozenset({"save_checkpoint", "save_state", "wait_for_everyone", "get_state_dict", "barrier"})
"""Of trainers and accelerators: ``trainer.save_checkpoint`` has a barrier."""

_WITH_BARRIER = frozenset({"trainer", "accelerator", "fabric", "strategy"})


def one_more(side: Side, early: tuple[int, ...], sources: Sources) -> Hint | None:
    """The ``if`` for some ranks above the call in which these wait, where that calls what waits for all."""
    for call in reversed(side.way):
        ifs = [node for node in _ifs_of(call, sources) if asks_for_rank(node.test, call, sources)]
        for node in (node for node in ifs if (node.end_lineno or node.lineno) < call.line):
            called = _waits(node.body, call, sources)
            # what the others call there may wait as well
            others = (one for part in _of_others(node, ifs) for one in _calls(part))
            if called and all(map(is_quiet, others)):
                values = {"test": head(node), "line": line_of(node, call, sources), "called": called}
                return hint("left-one-more", early=early, late=side.ranks, call=side.call, **values)
    return None


def _ifs_of(call: Call, sources: Sources) -> Iterator[ast.If]:
    for function in functions_of(call, sources):
        for each in function.body:
            yield from (node for node in own_nodes(each) if isinstance(node, ast.If))


def _of_others(node: ast.If, ifs: Sequence[ast.If]) -> Iterator[Sequence[ast.stmt]]:
    """What the ranks that are not in this ``if`` may do in its place."""
    yield node.orelse
    for other in ifs:
        if ast.unparse(other.test) != ast.unparse(node.test):
            yield other.body
        if other is not node:
            yield other.orelse


def _waits(statements: Sequence[ast.stmt], call: Call, sources: Sources) -> str:
    """What these call that waits for other ranks, there or in a function of the file; empty for nothing."""
    tree = parsed(sources.text(call.file)) or ast.Module([], [])
    defined = {one.name: one.body for one in ast.walk(tree) if isinstance(one, ast.FunctionDef)}
    for one in _calls(statements):
        if _is_for_all(one) or any(map(_is_for_all, _calls(defined.get(method(one), ())))):
            return ast.unparse(one.func)
    return ""


def _is_for_all(call: ast.Call) -> bool:
    if any(given.arg in ("group", "process_group") for given in call.keywords):
        return False
    owner, _, name = ast.unparse(call.func).rpartition(".")
    of_trainer = name in _WAIT_FOR_ALL and owner.rpartition(".")[2] in _WITH_BARRIER
    of_torch = owner.rpartition(".")[2] in ("", "dist", "distributed", "idist") and is_collective(name)
    return of_trainer or of_torch


def _calls(statements: Sequence[ast.stmt]) -> list[ast.Call]:
    return [node for each in statements for node in own_nodes(each) if isinstance(node, ast.Call)]
