"""Loops that do not end: over a dataset, of which Python asks for one sample after the other until an
IndexError comes, and never for the length, and those that try again after every error."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence

from nbdist.diagnosis.places import Sources, parsed
from nbdist.diagnosis.sides import Side, hint
from nbdist.diagnosis.signatures import Hint
from nbdist.diagnosis.statements import LEAVING, around, goes_on, head, holds, own_nodes
from nbdist.store.reports import Call
from nbdist.text import Both, both

_BASES = frozenset({"Dataset", "object"})
# what these give has nothing of the number that they were given
_DRAWS = frozenset(
    {"manual_seed", "seed", "default_rng", "RandomState", "Random", "Generator", "random", "randint", "rand"}
    | {"randn", "normal", "uniform", "integers", "choice"}
)
# and these take any number
_TAKES_ANY = frozenset(
    {"int", "float", "str", "abs", "tensor", "to_tensor", "full", "array", "sin", "cos", "print"}
)
_OF_DATASETS = frozenset({"__getitem__", "__iter__"})
_ALL_ERRORS = frozenset({"", "Exception", "BaseException", "OSError", "IOError"})
_LENGTH = re.compile(r"(?:list|tuple|dict) of (\d+)\b")
_AROUND = frozenset({"enumerate", "tqdm", "iter"})


def endless(side: Side, waiting: Sequence[Side], sources: Sources) -> Hint | None:
    """The loop that these ranks are in and those that wait are not, where its dataset never ends it."""
    for here in reversed(side.way):
        elsewhere = [call for other in waiting for call in other.way if call.file == here.file]
        for node, part in reversed(around(here, sources)):
            if not isinstance(node, ast.For) or part != "body":
                continue
            if any(holds(node, call.line) for call in elsewhere) or _leaves(node):
                return None
            kind = side.had(here.file, node.lineno).get(ast.unparse(_looped_over(node.iter)), "")
            if _never_ends(kind, here, sources):
                return hint("hang-endless", who=side.ranks, test=head(node), line=node.lineno, kind=kind)
    return None


def retrying(side: Side, sources: Sources) -> Hint | None:
    """The loop that a thread or a process of these ranks is in, which nothing ends but a try without an
    error, and which says nothing of the errors."""
    workers = (tuple(call for call in reversed(calls) if sources.is_own(call.file)) for calls in side.workers)
    for way in (side.way, *side.beside, *workers):
        for here in reversed(way):
            loops = (node for node, _ in reversed(around(here, sources)))
            if (found := next(filter(None, map(_retried, loops)), None)) is not None:
                return hint("hang-retrying", who=side.ranks, **found)
    if not side.place.loads or side.workers or not side.way:
        return None
    # a worker that computes cannot be asked where it is
    tree = parsed(sources.text(side.way[-1].file)) or ast.Module([], [])
    methods = [one for one in ast.walk(tree) if isinstance(one, ast.FunctionDef) and one.name in _OF_DATASETS]
    nodes = (node for one in methods for each in one.body for node in own_nodes(each))
    retried = [found for found in map(_retried, nodes) if found is not None]
    return hint("hang-retrying", who=side.ranks, **retried[0]) if len(retried) == 1 else None


def spent(side: Side, sources: Sources) -> Hint | None:
    """The loop within another one that has come to its end, by a count that nothing sets back: the outer one
    goes round without it. Where the count is not known, of ranks in the head of the outer loop alone."""
    call = side.way[-1] if side.way else None
    steps = [node for node, _ in around(call, sources)] if call is not None else []
    for loop in (node for node in steps if isinstance(node, ast.While)):
        for inner in (node for node in loop.body if isinstance(node, ast.While)):
            if (found := _spent(side, loop, inner)) is not None:
                return found
    return None


def _spent(side: Side, loop: ast.While, inner: ast.While) -> Hint | None:
    call = side.way[-1]
    names = {ast.unparse(one) for one in ast.walk(inner.test) if isinstance(one, ast.Name)}
    sets = [(ast.unparse(one.target), True) for one in own_nodes(loop) if isinstance(one, ast.AugAssign)] + [
        (ast.unparse(one), False)
        for node in own_nodes(loop)
        if isinstance(node, ast.Assign | ast.For | ast.AnnAssign)
        for one in ast.walk(node)
        if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)
    ]
    counts = [name for name in names if (name, True) in sets and (name, False) not in sets]
    others = {name for name, _ in sets} & names - set(counts)
    if len(counts) != 1 or others or call.line not in (loop.lineno, inner.lineno):
        return None
    had = side.had(call.file, inner.lineno)
    is_over = _is_over(inner.test, had)
    if is_over or (is_over is None and call.line == loop.lineno):
        known = ", ".join(f"{name} = {what}" for name, what in had.items())
        now = both("diagnosis.now", values=known) if known else Both("", "")
        values = {"test": head(loop), "line": loop.lineno, "inner": head(inner), "at": inner.lineno}
        return hint("hang-spent", who=side.ranks, **values, name=counts[0], now=now)
    return None


def _is_over(test: ast.expr, had: Mapping[str, str]) -> bool | None:
    """Whether ``i < n`` or ``i < len(files)`` does not hold any more; None where that is not known."""
    if not isinstance(test, ast.Compare) or len(test.ops) != 1 or not isinstance(test.ops[0], ast.Lt):
        return None
    right = test.comparators[0]
    said = had.get(ast.unparse(test.left), "")
    if isinstance(right, ast.Call) and ast.unparse(right.func) == "len" and len(right.args) == 1:
        length = _LENGTH.match(had.get(ast.unparse(right.args[0]), ""))
        most = length[1] if length else ""
    else:
        most = ast.unparse(right) if isinstance(right, ast.Constant) else had.get(ast.unparse(right), "")
    return int(said) >= int(most) if said.isdecimal() and most.isdecimal() else None


def _retried(node: ast.AST) -> dict[str, object] | None:
    if not isinstance(node, ast.While) or (handler := _swallowed_in(node)) is None:
        return None
    return {"test": head(node), "line": node.lineno, "at": handler.lineno}


def _swallowed_in(loop: ast.While) -> ast.ExceptHandler | None:
    """What catches all errors in a loop for ever, where it ends by what was tried alone."""
    nodes = list(own_nodes(loop))
    tried = [node for node in nodes if isinstance(node, ast.Try)]
    if not isinstance(loop.test, ast.Constant) or len(tried) != 1:
        return None
    within = {id(inner) for each in (*tried[0].body, *tried[0].orelse) for inner in own_nodes(each)}
    leaves = [node for node in nodes if isinstance(node, ast.Return | ast.Break | ast.Raise)]
    for handler in tried[0].handlers:
        says = any(isinstance(one, ast.Call) and _says(one) for one in ast.walk(handler))
        kind = "" if handler.type is None else ast.unparse(handler.type)
        if kind in _ALL_ERRORS and goes_on(handler) and not says and all(id(one) in within for one in leaves):
            return handler
    return None


def _says(call: ast.Call) -> bool:
    """Whether a call may show the error, or put an end to it: what draws another number does not."""
    return ast.unparse(call.func).rpartition(".")[2] not in _DRAWS | _TAKES_ANY - {"print"} | {
        "len",
        "randrange",
    }


def _leaves(loop: ast.For) -> bool:
    return any(isinstance(node, LEAVING) for one in loop.body for node in own_nodes(one))


def _looped_over(node: ast.expr) -> ast.expr:
    """``dataset`` of ``enumerate(tqdm(dataset))``."""
    while isinstance(node, ast.Call) and node.args:
        if ast.unparse(node.func).rpartition(".")[2] not in _AROUND:
            break
        node = node.args[0]
    return node


def _never_ends(kind: str, here: Call, sources: Sources) -> bool:
    """Whether this is a class of the program whose samples do not come to an end."""
    tree = parsed(sources.text(here.file)) or ast.Module([], [])
    classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node.name == kind]
    if len(classes) != 1 or any(
        ast.unparse(one).rpartition(".")[2] not in _BASES for one in classes[0].bases
    ):
        return False
    methods = {one.name: one for one in classes[0].body if isinstance(one, ast.FunctionDef)}
    sample = methods.get("__getitem__")
    return sample is not None and "__iter__" not in methods and not _may_raise(sample)


def _may_raise(sample: ast.FunctionDef) -> bool:
    """Whether a number that is too large may be an error: something is looked up by it, or it is given to
    what is not known."""
    if len(sample.args.args) < 2:
        return True
    names = {sample.args.args[1].arg}
    for node in ast.walk(sample):
        if isinstance(node, ast.Assign) and names & set(_read(node.value)):
            names |= {
                one.id for target in node.targets for one in ast.walk(target) if isinstance(one, ast.Name)
            }
    for node in ast.walk(sample):
        if isinstance(node, ast.Raise | ast.Assert | ast.With | ast.Try):
            return True
        if isinstance(node, ast.Subscript) and names & set(_read(node.slice)):
            return True
        if (
            isinstance(node, ast.Call)
            and ast.unparse(node.func).rpartition(".")[2] not in _DRAWS | _TAKES_ANY
        ):
            given = [*node.args, *(one.value for one in node.keywords)]
            if any(names & set(_read(one)) for one in given):
                return True
    return False


def _read(node: ast.AST) -> Iterator[str]:
    """The names that a value has the size of: not those of ``i % n``, of comparisons, or of what is drawn."""
    if isinstance(node, ast.Name):
        yield node.id
    drawn = isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in _DRAWS
    rest = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod) and not _is_text(node.left)
    if not drawn and not rest and not isinstance(node, ast.Compare):
        for child in ast.iter_child_nodes(node):
            yield from _read(child)


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant | ast.JoinedStr) and not isinstance(getattr(node, "value", ""), int)
