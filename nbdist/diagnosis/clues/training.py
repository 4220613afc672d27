"""What the program tells of an error in a training step: the line that has freed a graph already, the model
that took the place of the optimizer's, the squeeze() that a batch of one does not stand."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from nbdist.diagnosis.clues.origins import origin_of
from nbdist.diagnosis.places import parsed
from nbdist.diagnosis.rank_failure import Failure
from nbdist.diagnosis.sides import hint
from nbdist.diagnosis.signatures import Hint
from nbdist.diagnosis.statements import LOOPS, around, functions_of, head, holds, node_at, own_nodes
from nbdist.store.reports import Call

_Function = ast.Module | ast.FunctionDef | ast.AsyncFunctionDef

_OF_NO_GRAPH = frozenset({"detach", "item", "tolist", "numpy", "data", "no_grad"})
"""What comes out of these has no graph behind it."""

_OF_LIBRARIES = frozenset({"torch", "np", "numpy", "paddle", "random", "time"})
_OF_DATA = frozenset({"to", "cuda", "cpu", "float", "long", "int", "size", "len", "next", "range", "zip"})
_GIVES_DATA = re.compile(
    r"batch|data|load|sampl|noise|rand|augment|transform|prepar|process|collat|get_|make_|token|label|mask|target",
    re.IGNORECASE,
)
_OF_NO_GRADIENT = re.compile(r"no_grad|inference_mode")
_WRAPS = re.compile(r"(?:^|\.)(?:(?:Distributed)?DataParallel|DDP|distributed_model)$")
_MAY_NOT = (ast.If, ast.Try, ast.ExceptHandler, *LOOPS)
"""What a line within may not have been executed in."""

_ARRAY = re.compile(r"(?:Tensor|ndarray) \(")
_OF_ONE = re.compile(r"(?:Tensor|ndarray) \(1,")
_MOST_LINES = 2
_LAYER = re.compile(r"(?:^|\.)(?:Layer|Module|Sequential)$")
_ITERATORS = frozenset({"filter", "map", "zip", "generator", "chain", "islice"})
"""What gives its items once."""


def of_twice(failure: Failure) -> Hint | None:
    """Of a backward() over a graph that is freed: where one above it, in the same round, went through a
    variable that this one needs, too."""
    place = failure.place
    if place is None:
        return None
    here = Call(file=place.file, line=place.line, function=place.function)
    for function in functions_of(here, failure.sources)[-1:]:
        calls = [one for child in function.body for one in own_nodes(child) if _goes_back(one)]
        mine = [one for one in calls if holds(one, here.line)]
        steps = around(here, failure.sources)
        above = [
            one
            for one in calls
            if (one.end_lineno or one.lineno) < here.line  # type: ignore[attr-defined]
            and _frees(one)
            and _is_executed(one, here, failure)
            and [step for step, _ in _around(one, here, failure) if isinstance(step, LOOPS)]
            == [step for step, _ in steps if isinstance(step, LOOPS)]
        ]
        if len(mine) != 1 or not above:
            return None
        first = above[-1]
        begin = max((step.lineno for step, _ in steps if isinstance(step, LOOPS)), default=0)
        shared = _needed(first, function) & _needed(mine[0], function)
        made = [
            node
            for node in shared
            if begin <= node.lineno < first.lineno  # type: ignore[attr-defined]
            and _computes(node)
            and not any(_leaves_out(step) for step, _ in _around(node, here, failure))
        ]
        if not made:
            return None
        node = max(made, key=lambda one: one.lineno)
        values = {"line": first.lineno, "name": ast.unparse(node.targets[0]).strip("()"), "set": node.lineno}  # type: ignore[attr-defined]
        return hint("backward-twice-in-step", **values)
    return None


def of_reduced_twice(failure: Failure) -> Hint | None:
    """Of gradients that a wrapped model gave twice in a step: a backward() above went through it, too, and no
    forward() of it came between."""
    place = failure.place
    if place is None:
        return None
    here = Call(file=place.file, line=place.line, function=place.function)
    wrapped = set(_wrapped(parsed(failure.sources.text(here.file)) or ast.Module([], [])))
    for function in functions_of(here, failure.sources)[-1:]:
        calls = [one for child in function.body for one in own_nodes(child) if isinstance(one, ast.Call)]
        backwards = [one for one in calls if _goes_back(one)]
        mine = [one for one in backwards if holds(one, here.line)]
        above = [one for one in backwards if one.lineno < here.line and _is_executed(one, here, failure)]
        if len(mine) != 1 or not above:
            return None
        last = above[-1]
        for model in sorted(wrapped & _models_behind(last, function) & _models_behind(mine[0], function)):
            forwards = [one.lineno for one in calls if ast.unparse(one.func) == model]
            if not any(last.lineno <= line <= here.line for line in forwards):
                return hint("gradients-twice-in-step", line=last.lineno, model=model)
    return None


def _wrapped(tree: ast.Module) -> Iterator[str]:
    """The names of models that take part in all ranks' gradients."""
    for node in ast.walk(tree):
        made = node.value if isinstance(node, ast.Assign) else None
        if isinstance(made, ast.Call) and _WRAPS.search(ast.unparse(made.func)):
            yield from map(ast.unparse, node.targets)  # type: ignore[attr-defined]


def _models_behind(node: ast.AST, function: _Function) -> set[str]:
    """What was called for the loss of a backward()."""
    needed = (one.value for one in _needed(node, function) if not _is_cut(one.value))
    return {ast.unparse(one.func) for each in needed for one in ast.walk(each) if isinstance(one, ast.Call)}


def _is_cut(value: ast.expr) -> bool:
    """Whether there is no graph behind what a call gives: ``model(x).detach()``."""
    called = value.func if isinstance(value, ast.Call) else None
    return isinstance(called, ast.Attribute) and called.attr in _OF_NO_GRAPH


def _goes_back(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "backward"
    )


def _frees(node: ast.AST) -> bool:
    """Whether a backward() leaves no graph behind."""
    return not any(one.arg in ("retain_graph", "create_graph") for one in getattr(node, "keywords", ()))


def _around(node: ast.AST, here: Call, failure: Failure) -> list[tuple[ast.stmt, str]]:
    line: int = getattr(node, "lineno", 0)
    return around(Call(file=here.file, line=line, function=here.function), failure.sources)


def _is_executed(node: ast.AST, here: Call, failure: Failure) -> bool:
    """Whether a line has been executed before another one: it is in nothing that this one is not in, and that
    may have been left out."""
    mine = around(here, failure.sources)
    return not any(
        isinstance(step, _MAY_NOT) for step, part in _around(node, here, failure) if (step, part) not in mine
    )


def _needed(node: ast.AST, function: _Function) -> set[ast.Assign]:
    """The assignments of a function that a call depends on by its variables, as far as gradients go: what is
    behind detach() has none."""
    sets = [one for child in function.body for one in own_nodes(child) if isinstance(one, ast.Assign)]
    line: int = getattr(node, "lineno", 0)
    waiting, found = [(name, line) for name in _read(node)], set()
    while waiting:
        name, before = waiting.pop()
        own = [one for one in sets if (one.end_lineno or one.lineno) < before and name in _given(one)]
        if own and own[-1] not in found:
            found.add(own[-1])
            waiting += [(each, own[-1].lineno) for each in _read(own[-1].value)]
    return found


def _read(node: ast.AST) -> Iterator[str]:
    """The variables in an expression, without the functions that it calls."""
    if isinstance(node, ast.Call):
        method = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        if method in _OF_NO_GRAPH:
            return
        parts = [node.func.value] if isinstance(node.func, ast.Attribute) else []
        for one in [*parts, *node.args, *(given.value for given in node.keywords)]:
            yield from _read(one)
    elif isinstance(node, ast.Attribute) and node.attr in _OF_NO_GRAPH:
        return
    elif isinstance(node, ast.Name):
        yield node.id
    else:
        for child in ast.iter_child_nodes(node):
            yield from _read(child)


def _given(node: ast.Assign) -> set[str]:
    names = (one for target in node.targets for one in ast.walk(target))
    return {one.id for one in names if isinstance(one, ast.Name)}


def _leaves_out(node: ast.AST) -> bool:
    """Whether there are no graphs within: ``with torch.no_grad():``."""
    return isinstance(node, ast.With) and any(_OF_NO_GRADIENT.search(head(one)) for one in node.items)


def _computes(node: ast.Assign) -> bool:
    """Whether a model or a function of the program gave a value, and no loader or library."""
    if not isinstance(node.value, ast.Call):
        return False
    first, _, last = ast.unparse(node.value.func).partition(".")
    name = (last or first).rpartition(".")[2]
    return first not in _OF_LIBRARIES and name not in _OF_DATA and not _GIVES_DATA.search(name)


def of_replaced(failure: Failure) -> Hint | None:
    """Of an optimizer whose parameters have no gradients: where the model that it was made for is another one
    by now, which was made without the first."""
    place = failure.place
    if place is None:
        return None
    here = Call(file=place.file, line=place.line, function=place.function)
    statement = node_at(here, failure.sources)
    stepped = {
        ast.unparse(one.args[0])
        for one in own_nodes(statement or ast.Pass())
        if isinstance(one, ast.Call)
        and isinstance(one.func, ast.Attribute)
        and one.func.attr == "step"
        and one.args
    }
    for function in functions_of(here, failure.sources)[-1:]:
        sets = [
            one
            for child in function.body
            for one in own_nodes(child)
            if isinstance(one, ast.Assign) and one.lineno < here.line
        ]
        made = [one for one in sets if stepped & _given(one)]
        if len(stepped) != 1 or len(made) != 1 or not isinstance(made[0].value, ast.Call):
            return None
        used = set(_models(made[0].value))
        for one in sets:
            name = ast.unparse(one.targets[0])
            within = {each.id for each in ast.walk(one.value) if isinstance(each, ast.Name)}
            later = one.lineno > made[0].lineno and isinstance(one.value, ast.Call)
            if later and name in used and name not in within and _is_executed(one, here, failure):
                values = {"optimizer": stepped.pop(), "made": made[0].lineno, "model": name}
                return hint("optimizer-of-replaced", **values, line=one.lineno, source=head(one))
    return None


def _models(made: ast.Call) -> Iterator[str]:
    """What an optimizer, or a function that makes one, has its parameters from."""
    for node in ast.walk(made):
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("parameters"):
            yield ast.unparse(node.func).rpartition(".")[0]
    if made.args:
        yield ast.unparse(made.args[0])
        # grouped(model)
        yield from (ast.unparse(one) for one in getattr(made.args[0], "args", ())[:1])


def of_used_up(failure: Failure) -> Hint | None:
    """Of parameters that an optimizer has none of: where they come from an iterator that another line has
    gone through."""
    place = failure.place
    own = list(failure.own_frames)
    once = [one for one in failure.operands if one.what in _ITERATORS and one.name.isidentifier()]
    if place is None or len(once) != 1:
        return None
    at = origin_of(once[0].name, own, failure, once[0].what)
    if at is None or at.file != place.file:
        return None
    here = Call(file=place.file, line=place.line, function=place.function)
    used = [
        node.lineno
        for function in functions_of(here, failure.sources)[-1:]
        for child in function.body
        for node in own_nodes(child)
        if isinstance(node, ast.Name)
        and isinstance(node.ctx, ast.Load)
        and node.id == at.name
        and at.line < node.lineno < here.line
    ]
    return hint("parameters-used-up", name=at.name, line=at.line, used=used[0]) if used else None


def of_squeezed(failure: Failure) -> Hint | None:
    """Of a dimension that is missing where the loader's batch has one sample: with the lines of the file that
    drop all dimensions of 1."""
    place = failure.place
    own = list(failure.own_frames)
    if place is None or not own:
        return None
    lines = sorted(
        node.lineno
        for node in ast.walk(parsed(failure.sources.text(place.file)) or ast.Module([], []))
        if isinstance(node, ast.Call) and _squeezes_all(node)
    )
    if not 0 < len(lines) <= _MOST_LINES:
        return None
    arrays = [one for one in failure.operands if _ARRAY.match(one.what)]
    # where all have the dimension still, it is none that squeeze() has dropped
    if all(map(_OF_ONE.match, (one.what for one in arrays))):
        return None
    for one in arrays:
        at = origin_of(one.name, own, failure, one.what) if _OF_ONE.match(one.what) else None
        if at is not None and at.source.startswith("for "):
            told = " / ".join(map(str, lines))
            return hint("batch-of-one-squeezed", name=one.name, lines=told)
    return None


def _squeezes_all(node: ast.Call) -> bool:
    """``x.squeeze()``, ``torch.squeeze(x)``."""
    if not isinstance(node.func, ast.Attribute) or node.func.attr != "squeeze" or node.keywords:
        return False
    of_library = ast.unparse(node.func.value) in _OF_LIBRARIES
    return len(node.args) == (1 if of_library else 0)


def of_idle(failure: Failure) -> Hint | None:
    """Of parameters in DistributedDataParallel that got no gradient: their layers."""
    idle = next((one.what for one in failure.operands if one.name == "without gradient"), "")
    return hint("ddp-unused-layers", layers=idle) if idle else None


def of_in_place(failure: Failure) -> Hint | None:
    """Of a gradient that needs what was changed in place: the one line in the layers that does so."""
    files = dict.fromkeys(one.file for one in failure.frames if failure.sources.is_own(one.file))
    found = [
        (file, node)
        for file in files
        for layer in ast.walk(parsed(failure.sources.text(file)) or ast.Module([], []))
        if isinstance(layer, ast.ClassDef) and any(_LAYER.search(ast.unparse(base)) for base in layer.bases)
        for method in layer.body
        if isinstance(method, ast.FunctionDef) and method.name != "__init__"
        for node in ast.walk(method)
        if isinstance(node, ast.stmt) and _changes(node)
    ]
    if len(found) != 1:
        return None
    file, node = found[0]
    return hint("paddle-in-place-at", line=failure.sources.at(file, node.lineno), source=head(node))


def _changes(node: ast.stmt) -> bool:
    """``h[b, n:] = 0.0``, ``h.add_(1)``."""
    if isinstance(node, ast.Assign | ast.AugAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        return any(isinstance(one, ast.Subscript) for one in targets)
    call = node.value if isinstance(node, ast.Expr) else None
    name = call.func.attr if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) else ""
    return name.endswith("_") and not name.endswith("__")
