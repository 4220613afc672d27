"""What the loops of a program keep of each round, and so more from round to round."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

from nbdist.diagnosis.clues.graphs import (
    OF_LAYERS,
    Function,
    Graphs,
    addition,
    is_in,
    leaves_out,
    reads,
    set_by,
)
from nbdist.diagnosis.statements import head, own_nodes

_OF_BATCHES = re.compile(
    r"load|batches|batch_(?:iter|gen|sampler)|data|(?<![a-z])dl(?![a-z])|corpus|epoch|episode|files|paths",
    re.IGNORECASE,
)
_SHOWS = re.compile(r"(?:print|len|float|str|round|format)$|log|tqdm|write|info|set_postfix")
_EMPTIES = frozenset({"clear", "pop", "popleft", "remove", "detach_", "reset"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A statement that keeps the graph of each round of a loop, in ``name``."""

    node: ast.stmt
    loop: ast.stmt
    name: str
    value: str

    @property
    def source(self) -> str:
        return head(self.node)

    @property
    def is_sum(self) -> bool:
        return not isinstance(self.node, ast.Expr)


def kept_in(loop: ast.stmt, function: Function, tree: ast.Module) -> Kept | None:
    """What a loop adds to a value or a list that it does not begin anew."""
    if (
        not is_of_batches(loop)
        or _is_of_one(loop, function)
        or OF_LAYERS.search(getattr(function, "name", ""))
    ):
        return None
    if not is_in(loop, tree):
        return _listed(loop, function, tree)
    nodes = [node for child in getattr(loop, "body", ()) for node in own_nodes(child)]
    without = [node for node in nodes if leaves_out(node, tree)]
    if _carries(loop, nodes):
        return None
    for node in nodes:
        if any(is_in(node, one) for one in without):
            continue
        found = addition(node)
        if found is None or not _is_outer(found[0], loop, function) or not can_grow(found[0], tree):
            continue
        if begins_anew(found[0], node, nodes) or _goes_on_with(found[0], nodes):
            continue
        graphs = Graphs(tree=tree, function=function, line=node.lineno)  # type: ignore[attr-defined]
        if graphs.has(found[1]):
            return Kept(node=node, loop=loop, name=found[0], value=ast.unparse(found[1]))  # type: ignore[arg-type]
    return None


def _listed(loop: ast.stmt, function: Function, tree: ast.Module) -> Kept | None:
    """The same of ``losses = [criterion(model(x), y) for x, y in loader]``: ``around`` gives it as a loop."""
    for node in (node for child in function.body for node in own_nodes(child)):
        if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.ListComp):
            continue
        graphs, made = Graphs(tree=tree, function=function, line=node.lineno - 1), node.value
        if node.lineno <= loop.lineno <= (node.end_lineno or 0) and graphs.has(made.elt):
            name, value = ast.unparse(node.targets[0]), ast.unparse(made.elt)
            return Kept(node=node, loop=loop, name=name, value=value)
    return None


def is_of_batches(loop: ast.stmt) -> bool:
    """Whether a loop goes over data, and not over the layers, the steps or the losses of one batch."""
    return isinstance(loop, ast.For | ast.AsyncFor) and _OF_BATCHES.search(ast.unparse(loop.iter)) is not None


def _is_of_one(loop: ast.stmt, function: Function) -> bool:
    """Whether a loop goes over what an outer one has: the images of a batch."""
    outer = [
        node
        for child in function.body
        for node in own_nodes(child)
        if isinstance(node, ast.For | ast.AsyncFor) and node is not loop and is_in(loop, node)
    ]
    given = {name for node in outer for name in set_by(node)}
    root: ast.AST = getattr(loop, "iter", loop)
    while isinstance(root, ast.Call) and root.args and ast.unparse(root.func) in ("enumerate", "zip", "tqdm"):
        root = root.args[0]
    while isinstance(root, ast.Attribute | ast.Subscript):
        root = root.value
    return isinstance(root, ast.Name) and root.id in {*given, "batch", "sample"}


def _carries(loop: ast.stmt, nodes: list[ast.AST]) -> bool:
    """Whether each round goes on with what the one before has given (``out, h = rnn(x, h)``), so that none of
    them can call backward() alone."""
    known = set(set_by(loop))
    for node in sorted((one for one in nodes if isinstance(one, ast.Assign)), key=lambda one: one.lineno):
        names = set(set_by(node)) - known
        if isinstance(node.value, ast.Call) and not isinstance(node.value.func, ast.Attribute):
            given = (*node.value.args, *(one.value for one in node.value.keywords))
            if names & {name for one in given for name in reads(one)}:
                return True
        known |= names
    return False


def _goes_on_with(name: str, nodes: list[ast.AST]) -> bool:
    """Whether the loop computes with what it adds to, as a model does with what its layers gave."""
    calls = [one for one in nodes if isinstance(one, ast.Call) and not _SHOWS.match(ast.unparse(one.func))]
    given = [part for one in calls for part in (*one.args, *(each.value for each in one.keywords))]
    owners = {name, *(name[: found.start()] for found in re.finditer(r"[.\[]", name))} - {"self"}
    return any(ast.unparse(one) in owners for part in given for one in ast.walk(part))


def begins_anew(name: str, adding: ast.AST, nodes: list[ast.AST]) -> bool:
    """Whether a loop sets, empties or shortens what it adds to."""
    for node in nodes:
        targets = node.targets if isinstance(node, ast.Assign) else ()
        parts = (one.value for one in targets if isinstance(one, ast.Subscript) and _is_slice(one))
        if node is not adding and name in {ast.unparse(one) for one in (*targets, *parts)}:
            return True
        if isinstance(node, ast.Delete) and any(ast.unparse(one).startswith(name) for one in node.targets):
            return True
        if isinstance(node, ast.Attribute) and node.attr in _EMPTIES:
            owner = ast.unparse(node.value)
            if name == owner or name.startswith(f"{owner}."):
                return True
    return False


def _is_slice(node: ast.Subscript) -> bool:
    """``losses[:]``"""
    return isinstance(node.slice, ast.Slice)


def can_grow(name: str, tree: ast.Module) -> bool:
    """Whether a file makes no object of its own of this, nor a deque with a length: these may let go of what
    they are given, or keep a number of it."""
    base = name.partition("[")[0]
    for node in ast.walk(tree):
        if not isinstance(node, ast.Assign | ast.AnnAssign) or not isinstance(node.value, ast.Call):
            continue
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        made = ast.unparse(node.value.func)
        if base in map(ast.unparse, targets) and (
            re.search(r"(?:^|\.)(?!\w*Tensor$|Variable$|OrderedDict$|Counter$)[A-Z]\w*$", made)
            or (made.endswith("deque") and _has_length(node.value))
        ):
            return False
    return True


def _has_length(deque: ast.Call) -> bool:
    return bool(deque.keywords) or len(deque.args) > 1


def _is_outer(name: str, loop: ast.stmt, function: Function) -> bool:
    """Whether a plain name is set before the loop to what can grow: 0, or an empty list."""
    if not name.isidentifier():
        return name.partition(".")[0].partition("[")[0] not in _set_in(loop)
    sets = [
        node.value
        for child in function.body
        for node in own_nodes(child)
        if isinstance(node, ast.Assign | ast.AnnAssign)
        and node.lineno < loop.lineno
        and name in _names_of(node)
    ]
    return bool(sets)


def _names_of(node: ast.Assign | ast.AnnAssign) -> set[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return {one.id for target in targets for one in ast.walk(target) if isinstance(one, ast.Name)}


def _set_in(loop: ast.stmt) -> set[str]:
    return {name for node in own_nodes(loop) for name in set_by(node)}
