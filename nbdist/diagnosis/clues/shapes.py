"""Two arrays that do not fit in one operation: what their shapes, and the lines that made them, tell."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from nbdist.diagnosis.clues.origins import Origin, origin_of
from nbdist.diagnosis.places import parsed
from nbdist.diagnosis.rank_failure import Failure
from nbdist.diagnosis.sides import hint
from nbdist.diagnosis.signatures import Hint
from nbdist.diagnosis.statements import node_at
from nbdist.store.reports import Call
from nbdist.text import Both, both

_SAID = re.compile(
    r"size of tensor a \((?P<a>\d+)\) must match the size of tensor b \((?P<b>\d+)\) at non-singleton "
    r"dimension (?P<dim>\d+)"
)
ARRAY = re.compile(r"(?P<kind>Tensor|Parameter|ndarray) \((?P<shape>[\d, ]+)\)")
_ROWS = re.compile(
    r"Received \[(?P<a>\d+)\] in X is not equal to \[(?P<b>\d+)\] in Y at i:0\b"
    r"|The size of tensor a \((?P<c>\d+)\) must match the size of tensor b \((?P<d>\d+)\)"
    r" at non-singleton dimension 0\b"
)


_TESTS = re.compile(r"eval|valid|test|predict|infer")
SHAPE = re.compile(r"Tensor \((\d+)[,)]")
_MAKES = re.compile(r"(?:^|= )(?:[\w.]+\.)?(?:zeros|ones|full|empty|rand|randn|normal|uniform)\(")
# what is made by the shape of another tensor has no number of its own
_OF_ANOTHER = re.compile(r"shape|\bsize\b|\blen\(|_like\(")
FEATURES = re.compile(
    r"mat1 and mat2 shapes cannot be multiplied \(\d+x(?P<a>\d+) and (?P<b>\d+)x\d+\)"
    r"|dimension of Input\(X\) is \[(?P<c>\d+)\], and the \[\d+\] dimension of Input\(Y\) is \[(?P<d>\d+)\]"
)
_LINEAR = re.compile(r"Linear with weight \((?P<first>\d+), (?P<second>\d+)\)")
_MOST_LAYERS = 2

_OF_TEXTS = re.compile(r"Tensor \((?P<shape>[\d, ]+)\) (?P<dtype>float\d+|int\d+)")
# what counts from 1, or goes on from a place, does not say by its length how far it goes
_COUNTS = re.compile(r"\A(?!.*\s\+\s).*\b(?:paddle|np)\.arange\((?!\s*[1-9]\d*\s*,)")
_ONE_SAMPLE = re.compile(
    r"Conv2D with weight \(\d+, (?P<channels>\d+), .*, got Tensor (?P<shape>\((?P=channels), \d+, \d+\))"
)
# rows that were chosen, or cut anew, are no longer the positions of a text
_CHOOSES = re.compile(r"\b(?:reshape|view|masked_select|gather|index_select|nonzero)\(|\[[^\]]*\bmask")
_OF_POSITIONS, _AT = 3, 1
"""Dimensions of a table of positions that is added to a batch, and that of the positions in it."""


def of_unlike(failure: Failure) -> Hint | None:
    """Of two tensors of other sizes: labels beside one-hot labels or scores, one that is turned, a table of
    positions that was made for another length."""
    said = _SAID.search(failure.complaint.root.text) if failure.complaint is not None else None
    arrays = [(one.name, found) for one in failure.operands if (found := ARRAY.match(one.what)) is not None]
    if said is None:
        return None
    sizes = {int(said["a"]), int(said["b"])}
    shapes = {name: tuple(map(int, re.findall(r"\d+", found["shape"]))) for name, found in arrays}
    if len(shapes) == len(arrays) == len(("a", "b")):
        (one, mine), (other, theirs) = sorted(shapes.items(), key=lambda item: len(item[1]))
        if len(mine) == 1 and mine == theirs[:-1] and {mine[0], theirs[-1]} == sizes:
            row = "shapes-one-hot" if _compares(failure) else "shapes-per-row"
            return hint(row, numbers=one, rows=other, count=theirs[-1])
        if len(mine) == len(("rows", "columns")) and mine == theirs[::-1] and set(mine) == sizes:
            return hint("shapes-turned", one=one, mine=list(mine), other=other, theirs=list(theirs))
    for name, found in arrays:
        shape = shapes[name]
        is_table = found["kind"] == "Parameter" and len(shape) == _OF_POSITIONS and shape[0] == 1
        if is_table and int(said["dim"]) == _AT and shape[_AT] in sizes and len(sizes) > 1:
            (length,) = sizes - {shape[_AT]}
            return hint("shapes-of-positions", name=name, places=shape[_AT], length=length)
    return None


def _compares(failure: Failure) -> bool:
    """Whether the failing statement asks if two values are equal, as what counts the right ones does."""
    place = failure.place
    statement = (
        node_at(Call(file=place.file, line=place.line, function=""), failure.sources) if place else None
    )
    asked = (node for node in ast.walk(statement or ast.Pass()) if isinstance(node, ast.Compare))
    return any(isinstance(one, ast.Eq | ast.NotEq) for node in asked for one in node.ops)


def of_positions(failure: Failure) -> Hint | None:
    """Of a loss over the positions of texts, for which there are more scores than labels, or fewer."""
    scores: list[tuple[str, tuple[int, ...]]] = []
    labels: list[tuple[str, tuple[int, ...]]] = []
    for one in failure.operands:
        if (found := _OF_TEXTS.match(one.what)) is not None:
            shape = tuple(map(int, re.findall(r"\d+", found["shape"])))
            (scores if found["dtype"].startswith("float") else labels).append((one.name, shape))
    if len(scores) != 1 or len(labels) != 1:
        return None
    ((name, given), (other, wanted)) = scores[0], labels[0]
    if len(given) != 3 or len(wanted) != 2 or given[0] != wanted[0] or given[1] == wanted[1]:
        return None
    # where the labels are as many as the last axis is long, the classes stand in the axis between
    if given[2] == wanted[1]:
        return None
    own = list(failure.own_frames)
    made = [origin_of(one, own, failure) for one in (name, other)] if own else []
    if any(at is not None and _CHOOSES.search(at.source) for at in made):
        return None
    values = {"name": name, "count": given[1], "other": other, "labels": wanted[1]}
    return hint("labels-of-other-length", **values)


def of_places(failure: Failure) -> Hint | None:
    """Of an embedding that is asked for places which the program counts itself, and of which it has fewer."""
    own = list(failure.own_frames)
    size = failure.found.get("size")
    table = re.compile(rf"Embedding with weight \({size}, ")
    tables = {one.name for one in failure.operands if table.match(one.what)}
    if not own or size is None or len(tables) != 1:
        return None
    at = Call(file=own[-1].file, line=own[-1].line, function=own[-1].function)
    for node in ast.walk(node_at(at, failure.sources) or ast.Pass()):
        if not isinstance(node, ast.Call) or len(node.args) != 1 or ast.unparse(node.func) not in tables:
            continue
        ids = ast.unparse(node.args[0])
        made = origin_of(ids, own, failure)
        line, source = (made.line, made.source) if made is not None else (node.lineno, ids)
        if _COUNTS.search(source):
            return hint(
                "paddle-ids-past-positions", name=tables.pop(), size=size, last=int(size) - 1, line=line
            )
    return None


def of_batchless(failure: Failure) -> Hint | None:
    """Of a convolution that got one sample: the first axis of it has as many channels as the layer takes."""
    for one in failure.operands:
        if (found := _ONE_SAMPLE.match(one.what)) is not None:
            return hint("paddle-batch-missing", name=one.name, shape=found["shape"])
    return None


def of_rows(failure: Failure) -> Hint | None:
    """Of two tensors that differ in their rows, one of which the program makes with a fixed number of them: a
    last batch that is smaller does not fit."""
    said = _ROWS.search(failure.complaint.root.text) if failure.complaint is not None else None
    own = list(failure.own_frames)
    if said is None or not own:
        return None
    sizes = {number for number in said.groups() if number is not None}
    rows = {one.name: found[1] for one in failure.operands if (found := SHAPE.search(one.what))}
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


def _set(node: ast.Assign) -> Iterator[str]:
    return (one.id for each in node.targets for one in ast.walk(each) if isinstance(one, ast.Name))


def _names(node: ast.AST) -> Iterator[str]:
    return (one.id for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load))


def of_features(failure: Failure) -> Hint | None:
    """Of the layer in the line that takes as many features as did not come to it."""
    said = FEATURES.search(failure.complaint.root.text) if failure.complaint is not None else None
    own = list(failure.own_frames)
    if said is None or not own:
        return None
    got, wanted = (int(number) for number in said.groups() if number is not None)
    # paddle keeps a weight the other way round
    axis = "in" if said["c"] is not None else "out"
    layers = [
        one.name
        for one in failure.operands
        if (found := _LINEAR.match(one.what)) is not None
        and int(found["first" if axis == "in" else "second"]) == wanted != got
    ]
    if not 0 < len(layers) <= _MOST_LAYERS:
        return None
    flat = [one.name for one in failure.operands if one.what.startswith(f"Tensor ({got},)")]
    if len(flat) == 1 and got % wanted == 0:
        values = {"name": flat[0], "got": got, "rows": got // wanted, "want": wanted, "layer": layers[0]}
        return hint("batch-flattened", **values)
    at = origin_of(layers[0], own, failure) if len(layers) == 1 else None
    where = both("diagnosis.value-origin", line=at.line, source=at.source) if at is not None else Both("", "")
    return hint("features-of-layer", name=" / ".join(layers), want=wanted, got=got, where=where)


def of_no_rows(failure: Failure) -> Hint | None:
    """Of the one array in the line that has nothing in it, of an error that no row knows."""
    found = [(one.name, array["shape"]) for one in failure.operands if (array := ARRAY.match(one.what))]
    empty = [(name, shape) for name, shape in found if "0" in re.findall(r"\d+", shape)]
    own = list(failure.own_frames)
    if len(empty) != 1 or not own:
        return None
    name, shape = empty[0]
    at = origin_of(name, own, failure)
    where = both("diagnosis.value-origin", line=at.line, source=at.source) if at is not None else Both("", "")
    return hint("array-empty", name=name, shape=shape, where=where)


def of_trained(failure: Failure) -> Hint | None:
    """Of a layer that has trained with another number of features than it got now."""
    report = failure.report
    if report is None or report.refused is None:
        return None
    layer, want, got = report.refused
    return hint("layer-has-trained", layer=layer, want=want, got=got)


def of_dummies(failure: Failure) -> Hint | None:
    """Of a layer that gets another number of features than it was trained with: columns that each table has
    made of its own categories."""
    own = list(failure.own_frames)
    tests = any(_TESTS.search(frame.function) for frame in own)
    makes = any("get_dummies(" in failure.sources.text(frame.file) for frame in own)
    return hint("dummies-differ") if tests and makes else None
