"""Numbers that a program has of the environment, where they are texts, and compares with numbers."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from nbdist.preflight.finding import Finding, found
from nbdist.preflight.program import Program

_KEYS = frozenset(
    {"RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "PADDLE_TRAINER_ID", "PADDLE_TRAINERS_NUM"}
)
_SIGNS = (ast.Eq, ast.NotEq, ast.In, ast.NotIn)


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """``name`` is what the text of ``key`` is called in ``line``, where ``test`` is ``name == number``."""

    name: str
    key: str
    number: str
    test: str
    line: int


def check_texts(program: Program) -> Iterator[Finding]:
    told = set()
    for one in compared_texts(program):
        if one.name not in told:
            told.add(one.name)
            yield found("rank-is-text", one.line, name=one.name, key=one.key, number=one.number)


def compared_texts(program: Program) -> list[Compared]:
    """Where a text of the environment is compared with a whole number, which it never equals."""
    keys = _names(program)
    compared = []
    for node in ast.walk(program.tree):
        if not isinstance(node, ast.Compare) or len(node.ops) != 1 or not isinstance(node.ops[0], _SIGNS):
            continue
        for one, other in ((node.left, node.comparators[0]), (node.comparators[0], node.left)):
            key = keys.get(one.id) if isinstance(one, ast.Name) else _key(one, program)
            if key is not None and _is_number(other):
                text, number = ast.unparse(one), ast.unparse(other)
                test, line = ast.unparse(node), node.lineno
                compared.append(Compared(name=text, key=key, number=number, test=test, line=line))
    return sorted(compared, key=lambda one: one.line)


def _names(program: Program) -> dict[str, str]:
    """The names that have such a text, and are nothing else anywhere in the program."""
    keys: dict[str, str] = {}
    given: list[ast.expr] = []
    for node in ast.walk(program.tree):
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            key = _key(node.value, program)
            if key is not None and keys.setdefault(node.targets[0].id, key) == key:
                given.append(node.targets[0])
    others = set(_bound(program.tree, set(map(id, given))))
    return {name: key for name, key in keys.items() if name not in others}


def _bound(tree: ast.AST, but: set[int]) -> Iterator[str]:
    """What else gets a value: other assignments, arguments, imports, functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load) and id(node) not in but:
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.alias):
            yield node.asname or node.name
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.ExceptHandler):
            yield node.name or ""


def _key(node: ast.expr, program: Program) -> str | None:
    """The variable of the environment that an expression is, as it is."""
    key: ast.expr | None = None
    match node:
        case ast.Subscript(value=mapping, slice=asked) if program.dotted(mapping) == "os.environ":
            key = asked
        case ast.Call(func=function, args=[asked, *_]):
            if program.dotted(function) in ("os.environ.get", "os.getenv"):
                key = asked
    name = program.value(key) if key is not None else None
    return name if isinstance(name, str) and name in _KEYS else None


def _is_number(node: ast.expr) -> bool:
    if isinstance(node, ast.Tuple | ast.List | ast.Set):
        return bool(node.elts) and all(map(_is_number, node.elts))
    return isinstance(node, ast.Constant) and type(node.value) is int
