"""Ways out of a loop that cannot have parted the ranks, by what they ask for or by where they lead."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from nbdist.diagnosis.hangs.entries import Entry, Way
from nbdist.diagnosis.places import Sources, parsed
from nbdist.diagnosis.statements import LOOPS, around, own_nodes
from nbdist.store.reports import Call

_ORDERS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq)


def is_limit(way: Way, one: Entry, sources: Sources) -> bool:
    """Whether a way out is a limit on the rounds, ``if step >= max_steps``, by a count that goes up as much
    in each round. Where one rank counts less, it has left out rounds before: that is the reason."""
    if not isinstance(way, ast.If) or not isinstance(way.test, ast.Compare):
        return False
    test = way.test
    if len(test.ops) > 1 or not isinstance(test.ops[0], _ORDERS):
        return False
    if any(isinstance(node, ast.Call) for node in ast.walk(test)):
        return False
    asked = {ast.unparse(each) for each in (test.left, *test.comparators)}
    for file in dict.fromkeys(call.file for side in (one.inside, one.outside) for call in side.way):
        nodes = list(ast.walk(parsed(sources.text(file)) or ast.Module([], [])))
        if any(node is way for node in nodes):
            return any(not _is_read(name, nodes) for name in asked & set(_counted(nodes)))
    return False


def _counted(nodes: Sequence[ast.AST]) -> Iterator[str]:
    """The names to which a loop adds a number in each round, and which it sets to nothing else."""
    for loop in (node for node in nodes if isinstance(node, LOOPS)):
        set_there = [
            ast.unparse(node)
            for node in own_nodes(loop)
            if isinstance(node, ast.Name | ast.Attribute | ast.Subscript) and isinstance(node.ctx, ast.Store)
        ]
        for node in loop.body:
            if isinstance(node, ast.AugAssign) and isinstance(node.value, ast.Constant):
                name = ast.unparse(node.target)
                if set_there.count(name) == 1:
                    yield name


def _is_read(name: str, nodes: Sequence[ast.AST]) -> bool:
    """Whether a count is set to what a file or a function gives, as by ranks that resume: each may have
    another one. Not by a function that is given the count itself."""
    for node in nodes:
        if not isinstance(node, ast.Assign):
            continue
        targets = [one for each in node.targets for one in getattr(each, "elts", [each])]
        if name in map(ast.unparse, targets) and isinstance(node.value, ast.Call | ast.Subscript):
            given = {ast.unparse(one) for one in ast.walk(node.value) if isinstance(one, ast.expr)}
            if name not in given:
                return True
    return False


def leads_away(way: Way, loops: Sequence[ast.stmt], one: Entry, sources: Sources) -> bool:
    """Whether a way out of the innermost of these loops, which both sides are in, leads to where none comes
    round again: out of the only loop around both."""
    last = way.body[-1]
    before = one.inside.way[: one.inside.way.index(one.here)]
    if any(isinstance(node, LOOPS) for call in before for node, _ in around(call, sources)):
        return False
    within = any(node is way for loop in loops[-1:] for node in own_nodes(loop))
    if isinstance(last, ast.Break):
        inner = [node for loop in loops[-1:] for node in own_nodes(loop) if isinstance(node, LOOPS)]
        of_inner = any(node is way for loop in inner if loop is not loops[-1] for node in own_nodes(loop))
        return within and len(loops) == 1 and not of_inner
    return within and isinstance(last, ast.Return)


def begun_elsewhere(one: Entry, sources: Sources) -> tuple[ast.For, Call] | None:
    """A loop around the inside that begins at a number which was read, ``range(start, epochs)``: a rank may
    have read another one."""
    for call in (one.here, *one.deeper):
        nodes = list(ast.walk(parsed(sources.text(call.file)) or ast.Module([], [])))
        steps = one.steps if call is one.here else around(call, sources)
        for node in (node for node, _ in steps if isinstance(node, ast.For)):
            of = node.iter
            if not isinstance(of, ast.Call) or not ast.unparse(of.func).endswith("range") or len(of.args) < 2:
                continue
            if isinstance(of.args[0], ast.Name) and _is_read(of.args[0].id, nodes):
                return node, call
    return None
