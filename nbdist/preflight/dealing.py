"""Whether a program may deal its data out by the rank, or give each rank data of its own.

There are many ways to do that, and a program that does is right: any use of the rank that is not known to be
harmless (printing, choosing a device, asking for rank 0) counts as one.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from nbdist.preflight.finding import words
from nbdist.preflight.program import Call, Program

_DEVICE = re.compile(r"(?:cuda|gpu|npu|xpu|cpu|mps)\b")
_HOLDS_DATA = frozenset({"append", "extend", "insert", "add", "update"})


def rank_names(program: Program) -> set[str]:
    """Names that hold the global rank."""
    found = {"rank", "global_rank"}
    for target, value in _assigned(program):
        text = ast.unparse(value) if isinstance(target, ast.Name) else ""
        holds = "get_rank()" in text or "'RANK'" in text or "PADDLE_TRAINER_ID" in text
        if holds and isinstance(target, ast.Name) and "==" not in text:
            found.add(target.id)
    return found


def may_deal_data(program: Program, loader: Call) -> bool:
    """Whether the ranks may get different data from ``loader``, a call of DataLoader."""
    ranks = _Ranks(program)
    return any(ranks.used_in(program.tree)) or _is_chosen(program, loader, ranks)


def _assigned(program: Program) -> Iterator[tuple[ast.expr, ast.expr]]:
    """What is assigned, and what to; ``a, b = 1, 2`` is two of these."""
    for node in program.places:
        match node:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    yield from _pairs(target, value)
            case (
                ast.AnnAssign(target=target, value=ast.expr() as value)
                | ast.NamedExpr(target=target, value=value)
            ):
                yield target, value


def _pairs(target: ast.expr, value: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    several = (ast.Tuple, ast.List)
    if isinstance(target, several) and isinstance(value, several) and len(target.elts) == len(value.elts):
        yield from zip(target.elts, value.elts, strict=True)
    else:
        yield target, value


class _Ranks:
    """What of a program reads the rank, under whatever name."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._names = rank_names(program) | {"local_rank"}
        self._flags: set[str] = set()
        """Names that tell only which rank this is: ``first = rank == 0``."""

        for target, value in _assigned(program):
            if isinstance(target, ast.Name) and self._is_read(value):
                self._names.add(target.id)
        for target, value in _assigned(program):
            if isinstance(target, ast.Name) and isinstance(value, ast.Compare) and self.asks(value):
                self._flags.add(target.id)

    def used_in(self, node: ast.AST) -> Iterator[ast.AST]:
        """The reads of the rank that are not harmless."""
        if self._is_source(node):
            yield node
        elif not self._is_harmless(node):
            for child in self._parts(node):
                yield from self.used_in(child)

    def asks(self, test: ast.AST) -> bool:
        """Whether a condition asks for the rank."""
        return any(
            self._is_source(node) or (isinstance(node, ast.Name) and node.id in self._flags)
            for node in ast.walk(test)
        )

    def _is_source(self, node: ast.AST) -> bool:
        match node:
            case ast.Name(id=name, ctx=ast.Load()):
                return name in self._names or name in words("reads_the_rank")
            case ast.Attribute(attr=name, ctx=ast.Load()):
                return name in words("reads_the_rank")
            case ast.Subscript(value=mapping, slice=key, ctx=ast.Load()):
                return self._is_variable(key) and self._program.dotted(mapping) == "os.environ"
            case ast.Call(func=function, args=[key, *_]):
                return self._is_variable(key) and self._program.dotted(function) in (
                    "os.environ.get",
                    "os.getenv",
                )
        return False

    def _is_variable(self, key: ast.expr) -> bool:
        return self._program.value(key) in words("rank_variables")

    def _is_read(self, value: ast.AST) -> bool:
        """Whether this is nothing but the rank, so that what it is assigned to holds the rank."""
        match value:
            case ast.Call(func=ast.Name(id="int"), args=[inner]):
                return self._is_read(inner)
            case ast.Call(func=function, args=[]):
                return self._is_source(function)
            case ast.IfExp(body=body, orelse=other):
                both = (body, other)
                return any(map(self._is_read, both)) and all(map(self._is_of_ranks, both))
        return self._is_source(value)

    def _is_of_ranks(self, node: ast.AST) -> bool:
        """Whether it is made of ranks and their number alone: it asks which rank this is, and no more."""
        match node:
            case ast.Constant() | ast.UnaryOp(operand=ast.Constant()):
                return True
            case ast.BinOp(left=left, right=right):
                return self._is_of_ranks(left) and self._is_of_ranks(right)
            case ast.Tuple(elts=elements) | ast.List(elts=elements) | ast.Set(elts=elements):
                return all(map(self._is_of_ranks, elements))
            case ast.Name(id=name) | ast.Attribute(attr=name) if name in words("counts_the_ranks"):
                return True
            case ast.Call(func=function, args=[]):
                return self._is_of_ranks(function)
        return self._is_read(node)

    def _is_harmless(self, node: ast.AST) -> bool:
        match node:
            case ast.Raise() | ast.Assert() | ast.keyword(arg="desc"):
                return True
            case ast.Compare(left=ast.Constant(), ops=[ast.In() | ast.NotIn()]):
                return True  # "RANK" in os.environ
            case ast.Compare(left=left, comparators=others):
                return all(map(self._is_of_ranks, (left, *others)))
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return self._is_read(operand)
            case ast.Call(func=ast.Attribute(attr=name)) if name in words("harmless_with_a_rank"):
                return True
            case ast.Call(func=ast.Name() as function):
                name = self._program.dotted(function).rpartition(".")[2]
                return name in words("harmless_with_a_rank")
        return self._names_a_device(node)

    def _names_a_device(self, node: ast.AST) -> bool:
        """``f"cuda:{rank}"`` and its like."""
        match node:
            case ast.JoinedStr(values=[ast.Constant(value=str(text)), *_]):
                return _DEVICE.match(text) is not None
            case ast.BinOp(left=ast.Constant(value=str(text))):
                return _DEVICE.match(text) is not None
            case ast.Call(func=ast.Attribute(value=ast.Constant(value=str(text)), attr="format")):
                return _DEVICE.match(text) is not None
        return False

    def _parts(self, node: ast.AST) -> Iterator[ast.AST]:
        """The children of a node that may use the rank: not where it only gets a name or is asked for."""
        match node:
            case ast.Assign(targets=[target], value=value) | ast.AnnAssign(target=target, value=value):
                yield from (
                    part
                    for place, given in _pairs(target, value or target)
                    for part in (place, given)
                    if part is not given or not (self._is_read(given) and self._holds_a_rank(place))
                )
            case ast.If(test=test) | ast.IfExp(test=test) if self._is_read(test):
                yield from (child for child in ast.iter_child_nodes(node) if child is not test)
            case _:
                yield from ast.iter_child_nodes(node)

    def _holds_a_rank(self, target: ast.expr) -> bool:
        match target:
            case ast.Name():
                return True
            case ast.Attribute(attr=name):
                return name in words("reads_the_rank")
        return False


def _is_chosen(program: Program, loader: Call, ranks: _Ranks) -> bool:
    """Whether a condition on the rank chooses the loader, or what it loads."""
    if any(map(ranks.asks, loader.place.conditions)):
        return True
    given: dict[str, list[ast.expr]] = {}
    for target, value in _assigned(program):
        for node in ast.walk(target):
            if isinstance(node, ast.Name):
                given.setdefault(node.id, []).append(value)
    for name in _feeding_names(program, loader, given):
        for value in given.get(name, ()):
            place = program.places.get(value)
            by_rank = place is not None and any(map(ranks.asks, place.conditions))
            if by_rank and not any(_is_same(value, other) for other in given[name] if other is not value):
                return True
            if isinstance(value, ast.IfExp) and ranks.asks(value.test) and _differ(value.body, value.orelse):
                return True
    return False


def _is_same(value: ast.expr, other: ast.expr) -> bool:
    """Whether both call the same with the same arguments, keywords aside: rank 0 loads it first."""
    match value, other:
        case ast.Call(func=function, args=arguments), ast.Call(func=function2, args=arguments2):
            texts = [ast.unparse(part) for part in (function, *arguments)]
            return texts == [ast.unparse(part) for part in (function2, *arguments2)]
    return False


def _differ(value: ast.expr, other: ast.expr) -> bool:
    """Whether neither is the other with something around it, as ``tqdm(data)`` and ``data``."""
    texts = ast.unparse(value), ast.unparse(other)
    return texts[0] not in texts[1] and texts[1] not in texts[0]


def _feeding_names(program: Program, loader: Call, given: dict[str, list[ast.expr]]) -> set[str]:
    """The names that what is loaded was made of."""
    sources: dict[str, list[ast.AST]] = {name: list(values) for name, values in given.items()}
    for call in program.calls:
        function = call.node.func
        held = function.value if isinstance(function, ast.Attribute) else None
        if call.method in _HOLDS_DATA and isinstance(held, ast.Name):
            sources.setdefault(held.id, []).extend(call.node.args)
    for node, place in program.places.items():
        if isinstance(node, ast.Return) and node.value is not None and place.function:
            sources.setdefault(place.function, []).append(node.value)
    dataset = loader.argument("dataset", 0)
    queue: list[ast.AST] = [] if dataset is None else [dataset]
    found: set[str] = set()
    while queue:
        names = {node.id for node in ast.walk(queue.pop()) if isinstance(node, ast.Name)} - found
        found |= names
        queue += [source for name in names for source in sources.get(name, ())]
    return found
