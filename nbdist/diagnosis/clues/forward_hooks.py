"""A forward hook that gives back what is no tensor, in the place of what the layer gave."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence

from nbdist.diagnosis.places import parsed
from nbdist.diagnosis.rank_failure import Failure
from nbdist.diagnosis.sides import hint
from nbdist.diagnosis.signatures import Hint
from nbdist.diagnosis.statements import head, holds, own_nodes

_NO_TENSOR = re.compile(
    r"must be Tensor, not (?!None)\w+"
    r"|^AttributeError: '(?:float|int|str|list|tuple|dict|ndarray)' object has no attribute"
)

_IN_MODULE = re.compile(r"/torch/nn/modules/module\.py$")

_TAKES_HOOKS = "register_forward_hook"

_OF_NO_TENSOR = frozenset({"item", "tolist", "numpy", "float", "int", "str", "len", "list", "dict", "tuple"})
"""Calls whose result is none."""

_DEEPEST = 4
"""So many functions and names of a program are followed to see what a hook gives back."""


def of_hook(failure: Failure) -> Hint | None:
    """Of what is no tensor, in a model with a forward hook that gives one such back: torch puts that in the
    place of what the layer gave."""
    said = failure.said
    own = [frame.file for frame in failure.frames if failure.sources.is_own(frame.file)]
    within = any(_IN_MODULE.search(frame.file) for frame in failure.frames)
    if not within or not _NO_TENSOR.search(said):
        return None
    for file in dict.fromkeys(own):
        tree = parsed(failure.sources.text(file)) or ast.Module([], [])
        functions: dict[str, list[ast.FunctionDef]] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef):
                functions.setdefault(node.name, []).append(node)
        for given in _hooks(tree):
            for back, value in _given_by(given, functions):
                if _is_no_tensor(value, back, functions):
                    return hint("hook-gives-back", line=back.lineno, source=head(back))
    return None


def _hooks(tree: ast.Module) -> Iterator[ast.expr]:
    """What is registered as a forward hook."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and node.args and ast.unparse(node.func).endswith(_TAKES_HOOKS):
            yield node.args[0]


def _given_by(
    hook: ast.expr, functions: Mapping[str, Sequence[ast.FunctionDef]]
) -> Iterator[tuple[ast.expr | ast.stmt, ast.expr]]:
    """What a hook gives back, with the place: a function, a lambda, or a function that another one makes."""
    if isinstance(hook, ast.Lambda):
        yield hook, hook.body
        return
    made = isinstance(hook, ast.Call)
    name = ast.unparse(hook.func if isinstance(hook, ast.Call) else hook).rpartition(".")[2]
    for function in functions.get(name, ()) if len(functions.get(name, ())) == 1 else ():
        inner = [node for node in function.body if isinstance(node, ast.FunctionDef)]
        for one in inner if made else [function]:
            yield from _returned(one)


def _returned(function: ast.FunctionDef) -> Iterator[tuple[ast.expr | ast.stmt, ast.expr]]:
    for node in (node for child in function.body for node in own_nodes(child)):
        if isinstance(node, ast.Return) and node.value is not None:
            yield node, node.value


def _is_no_tensor(
    value: ast.expr, back: ast.AST, functions: Mapping[str, Sequence[ast.FunctionDef]], depth: int = 0
) -> bool:
    """Whether a value is surely no tensor, nor None, which a hook may give back."""
    if depth > _DEEPEST:
        return False
    if isinstance(value, ast.Call):
        name = ast.unparse(value.func).rpartition(".")[2]
        made = functions.get(name, ())
        if len(made) == 1:
            return any(_is_no_tensor(one, node, functions, depth + 1) for node, one in _returned(made[0]))
        return name in _OF_NO_TENSOR
    if isinstance(value, ast.Name):
        line: int = getattr(back, "lineno", 0)
        within = (one for some in functions.values() for one in some if holds(one, line))
        inner = max(within, key=lambda one: one.lineno, default=ast.Module([], []))
        sets = [
            node.value
            for node in ast.walk(inner)
            if isinstance(node, ast.Assign) and value.id in map(ast.unparse, node.targets)
        ]
        return bool(sets) and all(_is_no_tensor(one, back, functions, depth + 1) for one in sets)
    constant = isinstance(value, ast.Constant) and value.value is not None
    return constant or isinstance(value, ast.JoinedStr | ast.List | ast.Dict | ast.ListComp | ast.DictComp)
