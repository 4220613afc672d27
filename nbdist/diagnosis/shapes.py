"""What the program tells of tensors that do not fit: one that was made for another number of rows, the state
of a recurrent layer that flatten() made one row of."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from nbdist.diagnosis.origins import Origin, origin_of
from nbdist.diagnosis.places import parsed
from nbdist.diagnosis.rank_failure import Failure
from nbdist.diagnosis.sides import hint
from nbdist.diagnosis.signatures import Hint
from nbdist.diagnosis.statements import functions_of, node_at, own_nodes
from nbdist.store.reports import Call

_ROWS = re.compile(
    r"Received \[(?P<a>\d+)\] in X is not equal to \[(?P<b>\d+)\] in Y at i:0\b"
    r"|The size of tensor a \((?P<c>\d+)\) must match the size of tensor b \((?P<d>\d+)\)"
    r" at non-singleton dimension 0\b"
)
_SHAPE = re.compile(r"Tensor \((\d+)[,)]")
_MAKES = re.compile(r"(?:^|= )(?:[\w.]+\.)?(?:zeros|ones|full|empty|rand|randn|normal|uniform)\(")
# what is made by the shape of another tensor has no number of its own
_OF_ANOTHER = re.compile(r"shape|\bsize\b|\blen\(|_like\(")
_FEATURES = re.compile(
    r"mat1 and mat2 shapes cannot be multiplied \(\d+x(?P<a>\d+) and (?P<b>\d+)x\d+\)"
    r"|dimension of Input\(X\) is \[(?P<c>\d+)\], and the \[\d+\] dimension of Input\(Y\) is \[(?P<d>\d+)\]"
)
_RECURRENT = frozenset({"LSTM", "GRU", "RNN", "SimpleRNN"})
_FLAT = re.compile(r"flat(?:ten)?$", re.IGNORECASE)
_OF_ALL_LAYERS = re.compile(r"\b(?:start_axis=|start_dim=)?0, ")
"""Of ``flatten(0, 1)``, which leaves the features as they are."""


def of_rows(failure: Failure) -> Hint | None:
    """Of two tensors that differ in their rows, one of which the program makes with a fixed number of them: a
    last batch that is smaller does not fit."""
    said = _ROWS.search(failure.complaint.root.text) if failure.complaint is not None else None
    own = [frame for frame in failure.frames if failure.sources.is_own(frame.file)]
    if said is None or not own:
        return None
    sizes = {number for number in said.groups() if number is not None}
    rows = {one.name: found[1] for one in failure.operands if (found := _SHAPE.search(one.what))}
    made = []
    for name, count in rows.items():
        at = origin_of(name, own, failure)
        if at is not None and _MAKES.search(at.source) and _is_fixed(at, failure):
            made.append((name, count, at))
    others = {name: count for name, count in rows.items() if all(name != one[0] for one in made)}
    for name, count, at in made:
        other = next((one for one, its in others.items() if {its, count} == sizes), None)
        if other is not None:
            values = {"name": name, "rows": count, "line": at.line, "source": at.source}
            return hint("rows-made", **values, other=other, count=others[other])
    return None


def _is_fixed(at: Origin, failure: Failure) -> bool:
    """Whether none of the sizes with which a statement makes a tensor is asked of another tensor: not in it,
    and not where the names in it are set."""
    statement = node_at(Call(file=at.file, line=at.line, function=""), failure.sources)
    if statement is None or _OF_ANOTHER.search(ast.unparse(statement)):
        return False
    tree = parsed(failure.sources.text(at.file)) or ast.Module([], [])
    read = set(_names(statement))
    sets = [node for node in ast.walk(tree) if isinstance(node, ast.Assign) and read & set(_set(node))]
    return not any(_OF_ANOTHER.search(ast.unparse(node.value)) for node in sets)


def of_state(failure: Failure) -> Hint | None:
    """Of features that are too many since the last state of a recurrent layer was flattened: the layers are
    its first axis, and the batch its second."""
    at = failure.place
    said = _FEATURES.search(failure.complaint.root.text) if failure.complaint is not None else None
    if at is None or said is None:
        return None
    got, wanted = (int(number) for number in said.groups() if number is not None)
    # of a batch of one, nothing is folded
    if got == wanted or got % wanted:
        return None
    here = Call(file=at.file, line=at.line, function=at.function)
    tree, failed = parsed(failure.sources.text(at.file)), node_at(here, failure.sources)
    layers = set(_recurrent(tree)) if tree is not None else set()
    if not layers or failed is None:
        return None
    for function in functions_of(here, failure.sources):
        flat: dict[str, tuple[str, int]] = {}
        states: dict[str, tuple[str, int]] = {}
        nodes = [node for child in function.body for node in own_nodes(child) if isinstance(node, ast.Assign)]
        for node in sorted(nodes, key=lambda one: one.lineno):
            if node.lineno < at.line:
                _follow(node, layers, states, flat)
        # what is flattened in the failing line itself
        found = _flattened(failed, states) or next(
            (flat[name] for name in _names(failed) if name in flat), None
        )
        if found is not None:
            return hint("state-flattened", layer=found[0], line=found[1])
    return None


def _follow(
    node: ast.Assign, layers: set[str], states: dict[str, tuple[str, int]], flat: dict[str, tuple[str, int]]
) -> None:
    """What a statement sets: the state of a recurrent layer, such a one flattened, or something else."""
    value, target = node.value, node.targets[0]
    called = ast.unparse(value.func) if isinstance(value, ast.Call) else ""
    state: set[str] = set()
    if called in layers and isinstance(target, ast.Tuple) and len(target.elts) == 2:
        inner = target.elts[1]
        # of an LSTM's (h, c), both are of the same shape
        state = {one.id for one in ast.walk(inner) if isinstance(one, ast.Name)}
    folded = _flattened(value, states)
    for name in _set(node):
        states.pop(name, None)
        flat.pop(name, None)
        if name in state:
            states[name] = (called, node.lineno)
        elif folded is not None:
            flat[name] = folded


def _flattened(node: ast.AST, states: dict[str, tuple[str, int]]) -> tuple[str, int] | None:
    """The layer and the line of a state that is flattened here as a whole."""
    for call in ast.walk(node):
        if not isinstance(call, ast.Call) or _OF_ALL_LAYERS.search(ast.unparse(call)):
            continue
        method = call.func.value if isinstance(call.func, ast.Attribute) else None
        of = [*call.args[:1], *([method] if method is not None else [])]
        name = next((one.id for one in of if isinstance(one, ast.Name) and one.id in states), None)
        if name is not None and _FLAT.search(ast.unparse(call.func)):
            return states[name]
    return None


def _set(node: ast.Assign) -> Iterator[str]:
    return (one.id for each in node.targets for one in ast.walk(each) if isinstance(one, ast.Name))


def _names(node: ast.AST) -> Iterator[str]:
    return (one.id for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load))


def _recurrent(tree: ast.Module) -> Iterator[str]:
    """What a file makes recurrent layers of: ``self.lstm``."""
    for node in (one for one in ast.walk(tree) if isinstance(one, ast.Assign)):
        called = node.value.func if isinstance(node.value, ast.Call) else None
        if called is not None and ast.unparse(called).rpartition(".")[2] in _RECURRENT:
            yield from map(ast.unparse, node.targets)
