"""Of a name that has no value yet in a function or the module: what sets it there, and did not come to it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from typing import TypeGuard

from nbdist.diagnosis.conditions import asks_for_rank
from nbdist.diagnosis.places import parsed
from nbdist.diagnosis.rank_failure import Failure
from nbdist.diagnosis.sides import hint
from nbdist.diagnosis.signatures import Hint
from nbdist.diagnosis.statements import around, functions_of, head, holds, node_at, own_nodes
from nbdist.store.reports import Call
from nbdist.text import Both

_MOST = 3
"""Of the ifs and loops that set a name, so many are named."""

_LOOPS = (ast.For, ast.AsyncFor)
_WITH = (ast.With, ast.AsyncWith)
_BLOCKS = (ast.If, *_LOOPS, ast.While, ast.Try, ast.ExceptHandler)
_FREE = "free variable"
_NO_NAME = re.compile(r"^NameError: name '(?P<name>\w+)' is not defined")
_PADDLE = re.compile(r"^\s*(?:import|from)\s+paddle\b", re.MULTILINE)
_TORCH = re.compile(r"^\s*(?:import|from)\s+torch\b", re.MULTILINE)
_Scope = ast.Module | ast.FunctionDef | ast.AsyncFunctionDef
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_DEFINED = (*_FUNCTIONS, ast.ClassDef)


def of_unset(failure: Failure) -> Hint | None:
    """Of what sets the name alone: an if or a loop that the program did not come into, a try that an error
    has left, or a line below, which makes it another one than that of the module."""
    at, name = failure.place, failure.found.get("name")
    if at is None or name is None:
        return None
    call = Call(file=at.file, line=at.line, function=at.function)
    functions: Sequence[_Scope] = functions_of(call, failure.sources)
    if failure.complaint is not None and _FREE in failure.complaint.root.text:
        functions = _around(name, call, failure)
        # where that function itself is: what it sets may stand below the one within, and have run
        inside = [
            one
            for one in failure.frames
            if functions and one.file == at.file and one.function == functions[-1].name
            if holds(functions[-1], one.line)
        ]
        if not inside:
            return None
        call = Call(file=at.file, line=inside[-1].line, function=inside[-1].function)
    if not functions or isinstance(functions[-1], ast.Module):
        return None
    function = functions[-1]
    sets, are_below = _setting(name, function, call, failure)
    if sets and are_below:
        tree = parsed(failure.sources.text(at.file)) or ast.Module([], [])
        known = name in _of_others(function, tree)
        values = {"name": name, "line": min(node.lineno for node in sets), "function": function.name}
        return hint("name-local" if known else "name-set-below", **values)
    return _within(name, sets, call, failure) if sets else None


def _around(name: str, call: Call, failure: Failure) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    """The functions around that of a line which set a name, the innermost last."""
    tree = parsed(failure.sources.text(call.file)) or ast.Module([], [])
    scopes = [node for node in ast.walk(tree) if isinstance(node, _FUNCTIONS) and holds(node, call.line)]
    return [
        one
        for one in scopes
        if any(
            isinstance(node, ast.stmt) and _sets(node, name) for each in one.body for node in own_nodes(each)
        )
    ]


def of_unset_in_module(failure: Failure) -> Hint | None:
    """Of a name that the module sets in an if, a loop or a try alone, and that had no value when one of its
    lines, outside of its functions, asked for it."""
    said = _NO_NAME.match(failure.said)
    at = failure.place
    if at is None or said is None:
        return None
    name = said["name"]
    call = Call(file=at.file, line=at.line, function=at.function)
    for module in functions_of(call, failure.sources):
        others = {one for node in ast.walk(module) if isinstance(node, ast.Global) for one in node.names}
        if isinstance(module, ast.Module) and name not in others:
            sets, are_below = _setting(name, module, call, failure)
            return _within(name, sets, call, failure) if sets and not are_below else None
    return None


def of_never_set(failure: Failure) -> Hint | None:
    """Of a name that nothing sets, defines or imports where the failing line could see it."""
    said = _NO_NAME.match(failure.said)
    at = failure.place
    tree = parsed(failure.sources.text(at.file)) if at is not None else None
    if said is None or at is None or tree is None:
        return None
    around = [node for node in ast.walk(tree) if isinstance(node, _FUNCTIONS) and holds(node, at.line)]
    seen = [node for each in (tree, *around) for one in each.body for node in own_nodes(one)]
    # a class or a function is no part of what is around it, and its name is
    seen += [one for one in ast.walk(tree) if isinstance(one, (*_DEFINED, ast.Global))]
    given = [one for node in around for one in ast.walk(node.args)]
    if any(_binds(node, said["name"]) for node in (*seen, *given)):
        return None
    return hint("name-never-set", name=said["name"], line=failure.sources.at(at.file, at.line))


def uses(name: str, tree: ast.Module) -> list[int]:
    """The lines that read a name."""
    found = [node for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id == name]
    return sorted({node.lineno for node in found if isinstance(node.ctx, ast.Load)})


def _binds(node: ast.AST, name: str) -> bool:
    if isinstance(node, ast.Name):
        return node.id == name and not isinstance(node.ctx, ast.Load)
    if isinstance(node, ast.arg):
        return node.arg == name
    if isinstance(node, ast.Global):
        return name in node.names
    return _binds_otherwise(node, name) or (isinstance(node, ast.alias) and node.name == "*")


def _setting(name: str, within: _Scope, call: Call, failure: Failure) -> tuple[list[ast.stmt], bool]:
    """The statements of a function or module that set a name, all above a line or all below it, and whether
    they are below; none where something else gives it a value or takes it away."""
    statement = node_at(call, failure.sources)
    if statement is None or any(
        _binds_otherwise(node, name) for each in within.body for node in ast.walk(each)
    ):
        return [], False
    nodes = (node for each in within.body for node in own_nodes(each))
    sets = [node for node in nodes if isinstance(node, ast.stmt) and _sets(node, name)]
    below = [node for node in sets if node.lineno >= statement.lineno]
    return ([], False) if 0 < len(below) < len(sets) else (sets, bool(below))


def _within(name: str, sets: Sequence[ast.stmt], call: Call, failure: Failure) -> Hint | None:
    """Of a name that is set in what the failing line is not in."""
    mine = around(call, failure.sources)
    ways = []
    for node in sets:
        steps = around(Call(file=call.file, line=node.lineno, function=""), failure.sources)
        steps = [step for step in steps if step not in mine and not isinstance(step[0], _WITH)]
        if not steps or not all(isinstance(one, _BLOCKS) for one, _ in steps):
            return None
        ways.append(steps)
    last, part = ways[0][-1]
    if len(ways) == 1 == len(ways[0]):
        if last is sets[0] and isinstance(last, _LOOPS):
            return hint("name-of-empty-loop", name=name, test=head(last), line=last.lineno)
        if isinstance(last, ast.Try) and part == "body":
            return hint("name-set-in-try", name=name, line=last.lineno)
        if isinstance(last, ast.For) and part == "body" and _may_end_in_silence(last, call, failure):
            return hint("name-of-silent-loader", name=name, test=head(last), line=last.lineno)
    told = dict.fromkeys(step for steps in ways for step in steps)
    # what is in a try may have come to the very line that sets the name
    if len(told) > _MOST or any(isinstance(one, ast.Try) and part == "body" for one, part in told):
        return None
    said = [(one.lineno, head(one) if part == "body" else f"else of {head(one)}") for one, part in told]
    places = Both(
        ", ".join(f"line {line}  {text}" for line, text in said),
        "，".join(f"第 {line} 行  {text}" for line, text in said),
    )
    lines = ", ".join(str(node.lineno) for node in sets)
    of_ranks = all(
        isinstance(one, ast.If) and asks_for_rank(one.test, call, failure.sources) for one, _ in told
    )
    row = "name-set-on-some-ranks" if of_ranks else "name-set-within"
    return hint(row, name=name, lines=lines, tests=places)


def _may_end_in_silence(loop: ast.For, call: Call, failure: Failure) -> bool:
    """Whether a loop goes over a DataLoader of paddle with a ``collate_fn`` of the program, which ends it
    where this gives no tensor."""
    text = failure.sources.text(call.file)
    # a round may have left the rest out
    if any(isinstance(one, ast.Continue | ast.Break) for one in own_nodes(loop)):
        return False
    if _PADDLE.search(text) is None or _TORCH.search(text) is not None:
        return False
    over = loop.iter
    while isinstance(over, ast.Call) and over.args and ast.unparse(over.func) in ("enumerate", "tqdm"):
        over = over.args[0]
    made = (one.value for one in ast.walk(parsed(text) or ast.Module([], [])) if _gives(one, over))
    calls = [one for one in (over, *made) if isinstance(one, ast.Call)]
    return any(
        ast.unparse(one.func).rpartition(".")[2] == "DataLoader"
        and any(given.arg == "collate_fn" for given in one.keywords)
        for one in calls
    )


def _gives(node: ast.AST, over: ast.expr) -> TypeGuard[ast.Assign]:
    return isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == ast.unparse(over)


def _sets(node: ast.stmt, name: str) -> bool:
    if isinstance(node, ast.Assign):
        given = node.targets
    elif isinstance(node, ast.AnnAssign | ast.AugAssign | ast.For | ast.AsyncFor):
        given = [] if isinstance(node, ast.AnnAssign) and node.value is None else [node.target]
    elif isinstance(node, ast.With | ast.AsyncWith):
        given = [one.optional_vars for one in node.items if one.optional_vars is not None]
    else:
        return False
    names = (one for each in given for one in ast.walk(each) if isinstance(one, ast.Name))
    return any(one.id == name and isinstance(one.ctx, ast.Store) for one in names)


def _binds_otherwise(node: ast.AST, name: str) -> bool:
    """Whether something else than an assignment gives a name a value, or takes it away."""
    if isinstance(node, (ast.ExceptHandler, *_DEFINED)):
        return node.name == name
    if isinstance(node, ast.alias):
        return (node.asname or node.name.partition(".")[0]) == name
    if isinstance(node, ast.NamedExpr):
        return node.target.id == name
    if isinstance(node, ast.Delete):
        return any(isinstance(one, ast.Name) and one.id == name for one in node.targets)
    if isinstance(node, ast.MatchMapping):
        return node.rest == name
    return isinstance(node, ast.MatchAs | ast.MatchStar) and node.name == name


def _of_others(function: ast.FunctionDef | ast.AsyncFunctionDef, tree: ast.Module) -> Iterator[str]:
    """The names that are set outside of a function where it can see them."""
    mine = set(map(id, ast.walk(function)))
    around = [one for one in ast.walk(tree) if isinstance(one, _FUNCTIONS) and holds(one, function.lineno)]
    nodes = (node for scope in (tree, *around) for each in scope.body for node in own_nodes(each))
    for node in nodes:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and id(node) not in mine:
            yield node.id
