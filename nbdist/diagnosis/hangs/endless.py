"""Loops over a dataset that do not end: Python asks for one sample after the other until an IndexError comes,
and never for the length."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from nbdist.diagnosis.places import Sources, parsed
from nbdist.diagnosis.sides import Side, hint
from nbdist.diagnosis.signatures import Hint
from nbdist.diagnosis.statements import LEAVING, around, head, holds, own_nodes
from nbdist.store.reports import Call

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
