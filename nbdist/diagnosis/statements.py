"""The statements around a line of a program: its ifs and its loops, and what they ask for."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType

from nbdist.diagnosis.conditions import OWN_RANK, asks_for_rank, is_of_all
from nbdist.diagnosis.places import Sources, parsed
from nbdist.store.reports import Call
from nbdist.text import Both, both

_ONE_RANK = re.compile(r"(?:rank_?(?:zero|0)|main_process|on_main|master)(?!_first)", re.IGNORECASE)
_QUIET = re.compile(
    r"print|log\w*|info|debug|warning|\w*save\w*|add_\w+|write\w*|append|update\w*|set_\w+|item|float|int|str|round|len"
    r"|time|format|join|dump|\w*state_dict|makedirs|mkdir|open|close|flush|step|cpu|detach|mean|sum|get|items|keys"
)
_COLLECTIVE = re.compile(r"broadcast|scatter|gather|reduce|barrier|all_to_all")

_SEEDS = re.compile(
    r"\b(?:\w*seed|seed_\w+|manual_seed_all|Random|default_rng|RandomState)\([^)]*\b(?:rank|(?:LOCAL_)?RANK)\b"
    r"|\bseed=(?:[\w.]+ [+*] )*(?:\w+\.)*(?:get_)?rank\b"
)
_MEETING = re.compile(r"\bMASTER_PORT\b|\btcp://")
_OWN_PORT = re.compile(
    r"\b\w*(?:free|unused|available|random)_?\w*port\w*\(|\b(?:getsockname|randint|randrange|getpid)\("
)
LOOPS = (ast.For, ast.AsyncFor, ast.While)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.GeneratorExp)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_INNER = (*_FUNCTIONS, ast.ClassDef, ast.Lambda)
LEAVING = (ast.Break, ast.Continue, ast.Return, ast.Raise)
_BLOCKS = ("body", "orelse", "handlers", "finalbody")
_SHOWN = 60
_NO_FILES: Mapping[int, str] = MappingProxyType({})
_EXITS = frozenset(
    f"{name}({code})" for name in ("exit", "quit", "sys.exit", "os._exit") for code in ("", "0")
)

_OF_NO_RANK = frozenset({"KeyboardInterrupt", "ImportError", "ModuleNotFoundError"})
_EXIT = re.compile(r"(?:sys\.exit|os\._exit|os\.abort|exit|quit)\(")

Step = tuple[ast.stmt, str]
"""A statement around a line, and the part of it that the line is in: ``body``, ``orelse``."""


def around(call: Call, sources: Sources) -> list[Step]:
    """The statements around a line within its function, outermost first."""
    tree = parsed(sources.text(call.file))
    return [] if tree is None else _steps(tree.body, call.line)


def _steps(statements: Sequence[ast.AST], line: int) -> list[Step]:
    for node in statements:
        if not holds(node, line):
            continue
        for part in _BLOCKS:
            inner = getattr(node, part, [])
            if isinstance(inner, list) and inner and holds(inner[0], line, inner[-1]):
                rest = _steps(inner, line)
                if isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
                    return rest
                return [(node, part), *rest]  # type: ignore[list-item]
        # the head of a loop is executed in each round
        loops = [node] if isinstance(node, LOOPS) else _comprehensions(node, line)
        return [(loop, "body") for loop in loops]
    return []


def _comprehensions(node: ast.AST, line: int) -> list[ast.For]:
    """The comprehensions of a statement that go over a line and call something there, as loops."""
    found = (one for one in own_nodes(node) if isinstance(one, _COMPREHENSIONS) and holds(one, line))
    return [_as_loop(one) for one in found if any(isinstance(part, ast.Call) for part in ast.walk(one.elt))]


# one loop for each, as the nodes of a tree are: they are told apart by identity
@lru_cache(maxsize=256)
def _as_loop(node: ast.ListComp | ast.SetComp | ast.GeneratorExp) -> ast.For:
    body: list[ast.stmt] = [ast.copy_location(ast.Expr(node.elt), node.elt)]
    for each in reversed(node.generators):
        for test in reversed(each.ifs):
            body = [ast.copy_location(ast.If(test=test, body=body, orelse=[]), node)]
        loop = ast.copy_location(ast.For(target=each.target, iter=each.iter, body=body, orelse=[]), node)
        body = [loop]
    return loop


def holds(node: ast.AST, line: int, last: ast.AST | None = None) -> bool:
    begin: int = getattr(node, "lineno", line + 1)
    end: int = getattr(last or node, "end_lineno", begin)
    return begin <= line <= end


def own_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """A statement and what is in it, without the functions and classes that it defines."""
    if isinstance(node, _INNER):
        return
    yield node
    for child in ast.iter_child_nodes(node):
        yield from own_nodes(child)


def ways_out(loop: ast.stmt) -> list[ast.If | ast.ExceptHandler]:
    """What lets a rank leave the loop or the rest of a step: an ``if`` that ends so, an ``except`` that does
    not raise again."""
    found = []
    for node in own_nodes(loop):
        leaves = isinstance(node, ast.If) and isinstance(node.body[-1], LEAVING)
        if leaves or (isinstance(node, ast.ExceptHandler) and goes_on(node)):
            found.append(node)
    return found  # type: ignore[return-value]


def exits_of(loop: ast.stmt) -> list[ast.If]:
    """What ends the process in a loop, as if all were well."""
    ifs = (node for node in own_nodes(loop) if isinstance(node, ast.If))
    return [node for node in ifs if _ends(node.body[-1]) and not isinstance(node.body[-1], ast.Return)]


def goes_on(handler: ast.ExceptHandler) -> bool:
    """Whether what catches an error neither raises again nor ends the process: of errors that one rank may
    have alone."""
    last, error = handler.body[-1], ast.unparse(handler.type) if handler.type is not None else ""
    return not isinstance(last, ast.Raise) and not _EXIT.match(ast.unparse(last)) and error not in _OF_NO_RANK


def caught_in_calls(loop: ast.stmt, file: str, sources: Sources) -> list[ast.ExceptHandler]:
    """What catches in the functions of a file that a loop calls, and does not raise again."""
    calls = (node for node in own_nodes(loop) if isinstance(node, ast.Call))
    called = {ast.unparse(call.func).rpartition(".")[2] for call in calls}
    return [
        node
        for function in ast.walk(parsed(sources.text(file)) or ast.Module([], []))
        if isinstance(function, _FUNCTIONS) and function.name in called
        for child in function.body
        for node in own_nodes(child)
        if isinstance(node, ast.ExceptHandler) and goes_on(node)
    ]


def stops_of(loop: ast.stmt, file: str, sources: Sources) -> list[ast.If]:
    """What ends a loop over an object of the file's only iterator, by something that another method of it
    than ``__next__`` sets: ``for epoch in stopper``. Not what counts its own rounds."""
    tree = parsed(sources.text(file)) or ast.Module([], [])
    classes = [
        (one, {each.name: each for each in one.body if isinstance(each, _FUNCTIONS)})
        for one in ast.walk(tree)
        if isinstance(one, ast.ClassDef)
    ]
    iterators = [(one, methods) for one, methods in classes if "__next__" in methods]
    if len(iterators) != 1 or not isinstance(loop, ast.For):
        return []
    one, methods = iterators[0]
    asked = {ast.unparse(node) for node in ast.walk(loop.iter) if isinstance(node, ast.Name | ast.Attribute)}
    made = [
        ast.unparse(target)
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)
        for target in node.targets
        if ast.unparse(node.value.func) == one.name
    ]
    sets = {
        ast.unparse(node)
        for name, each in methods.items()
        if name not in ("__init__", "__next__", "__iter__", "reset")
        for node in ast.walk(each)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
    }
    return [
        node
        for node in ast.walk(methods["__next__"])
        if isinstance(node, ast.If)
        and asked & {*made, one.name}
        and isinstance(node.body[-1], ast.Raise)
        and "StopIteration" in ast.unparse(node.body[-1])
        and sets & {ast.unparse(inner) for inner in ast.walk(node.test) if isinstance(inner, ast.Attribute)}
    ]


def returns_before(call: Call, sources: Sources) -> list[ast.If]:
    """In the function of this call, the ifs before it that return, or end the process."""
    ifs = [node for function in functions_of(call, sources) for node in _ifs_before(function.body, call.line)]
    return [node for node in ifs if _may_end(node.body[-1]) and not is_of_all(node.test)]


def _may_end(last: ast.stmt) -> bool:
    """Also by an ``except`` of a ``try`` that is the last of its statements."""
    handlers = last.handlers if isinstance(last, ast.Try) else []
    return _ends(last) or any(_ends(one.body[-1]) for one in handlers)


def functions_of(call: Call, sources: Sources) -> list[ast.Module | ast.FunctionDef | ast.AsyncFunctionDef]:
    """The function that a call is made in, or the module."""
    tree = parsed(sources.text(call.file))
    if tree is None or call.function == "<module>":
        return [] if tree is None else [tree]
    functions = [node for node in ast.walk(tree) if isinstance(node, _FUNCTIONS)]
    return [node for node in functions if node.name == call.function and holds(node, call.line)]


def rank_decorators(call: Call, sources: Sources) -> list[ast.expr]:
    """The decorators by which the function of a call runs on one rank alone: ``rank_zero_only``."""
    functions = [node for node in functions_of(call, sources) if not isinstance(node, ast.Module)]
    decorators = [one for node in functions for one in node.decorator_list]
    return [one for one in decorators if _ONE_RANK.search(ast.unparse(one))]


def _ifs_before(statements: Sequence[ast.stmt], line: int) -> Iterator[ast.If]:
    for node in statements:
        if isinstance(node, ast.If) and (node.end_lineno or node.lineno) < line:
            yield node
        elif isinstance(node, ast.With | ast.Try) and holds(node, line):
            yield from _ifs_before(node.body, line)


def _ends(last: ast.stmt) -> bool:
    """Whether a statement returns, or ends the process as if all were well."""
    if isinstance(last, ast.With):
        return _ends(last.body[-1])
    if isinstance(last, ast.Try):
        return _ends((last.orelse or last.body)[-1])
    return isinstance(last, ast.Return) or (isinstance(last, ast.Expr) and ast.unparse(last) in _EXITS)


def calls_of_function(name: str, file: str, sources: Sources) -> list[Call]:
    """Where a file calls a function, and from which of its own."""
    found = []
    for node in ast.walk(parsed(sources.text(file)) or ast.Module([], [])):
        if isinstance(node, ast.Module | ast.FunctionDef | ast.AsyncFunctionDef):
            function = "<module>" if isinstance(node, ast.Module) else node.name
            calls = (one for child in node.body for one in own_nodes(child) if isinstance(one, ast.Call))
            named = (one for one in calls if ast.unparse(one.func).rpartition(".")[2] == name)
            found += [Call(file=file, line=one.lineno, function=function) for one in named]
    return found


def node_at(call: Call, sources: Sources) -> ast.stmt | None:
    """The innermost statement in a line."""
    nodes = ast.walk(parsed(sources.text(call.file)) or ast.Module([], []))
    found = [node for node in nodes if isinstance(node, ast.stmt) and holds(node, call.line)]
    return found[-1] if found else None


def iterables(file: str, sources: Sources) -> list[ast.ClassDef]:
    """The classes of a file that say themselves what a loop over them gets."""
    classes = (
        node
        for node in ast.walk(parsed(sources.text(file)) or ast.Module([], []))
        if isinstance(node, ast.ClassDef)
    )
    return [node for node in classes if any(getattr(one, "name", "") == "__iter__" for one in node.body)]


def seeded_by_rank(file: str, sources: Sources) -> ast.stmt | None:
    """The statement by which each rank draws random numbers of its own."""
    nodes = ast.walk(parsed(sources.text(file)) or ast.Module([], []))
    found = (node for node in nodes if isinstance(node, ast.Assign | ast.Expr | ast.Return))
    return next((node for node in found if _SEEDS.search(ast.unparse(node))), None)


def port_by_rank(file: str, sources: Sources) -> ast.stmt | None:
    """The statement by which each rank chooses by itself the port where it looks for the others."""
    nodes = ast.walk(parsed(sources.text(file)) or ast.Module([], []))
    found = [node for node in nodes if isinstance(node, ast.Assign | ast.Expr)]
    meeting = [node for node in found if _MEETING.search(ast.unparse(node))]
    names = {one.id for node in meeting for one in ast.walk(node) if isinstance(one, ast.Name)}
    set_before = [
        node for node in found if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in names
    ]
    return next((node for node in (*meeting, *set_before) if _OWN_PORT.search(ast.unparse(node))), None)


def exits(file: str, sources: Sources) -> list[int]:
    """The lines of a file that end the process as if all were well."""
    nodes = ast.walk(parsed(sources.text(file)) or ast.Module([], []))
    calls = (node for node in nodes if isinstance(node, ast.Call))
    return sorted(call.lineno for call in calls if ast.unparse(call) in _EXITS)


def root_by_rank(call: Call, sources: Sources) -> str | None:
    """``src=rank`` of a collective in this line, which has to be the same on every rank."""
    nodes = [
        node
        for node in ast.walk(parsed(sources.text(call.file)) or ast.Module([], []))
        if isinstance(node, ast.expr) and holds(node, call.line)
    ]
    loops = [node for node, _ in around(call, sources) if isinstance(node, ast.For)]
    loops += [one for node in nodes for one in getattr(node, "generators", ())]
    rounds = {ast.unparse(each) for one in loops for each in ast.walk(one.target)}
    for node in nodes:
        if not isinstance(node, ast.Call):
            continue
        if _COLLECTIVE.search(ast.unparse(node.func)) is None:
            continue
        for given in node.keywords:
            root = ast.unparse(given.value)
            if given.arg in ("src", "dst", "root") and OWN_RANK.fullmatch(root) and root not in rounds:
                return ast.unparse(given)
    return None


def is_collective(called: str) -> bool:
    """By its name."""
    return _COLLECTIVE.search(called.rpartition(".")[2]) is not None


def given_group(call: Call, sources: Sources) -> str:
    """What the collective in this line has as its ``group=``; empty where it has none."""
    for node in ast.walk(parsed(sources.text(call.file)) or ast.Module([], [])):
        if (
            isinstance(node, ast.Call)
            and holds(node, call.line)
            and _COLLECTIVE.search(ast.unparse(node.func))
        ):
            for given in node.keywords:
                if given.arg == "group":
                    return ast.unparse(given.value)
            if node.args and ast.unparse(node.func).endswith("barrier"):
                return ast.unparse(node.args[0])
    return ""


def first_given(call: Call, name: str, sources: Sources) -> str:
    """What a call of this function in a line is given first, as it is written; of a name, what that was set
    to in the same function. Empty where there is none."""
    for function in functions_of(call, sources):
        calls = [one for one in ast.walk(function) if isinstance(one, ast.Call) and holds(one, call.line)]
        named = (one for one in calls if ast.unparse(one.func).rpartition(".")[2] == name and one.args)
        for one in named:
            text = ast.unparse(one.args[0])
            return next((ast.unparse(value) for value in _set_to(text, function)), text)
    return ""


def _set_to(name: str, function: ast.AST) -> Iterator[ast.expr]:
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and any(ast.unparse(target) == name for target in node.targets):
            yield node.value


def counters(call: Call, sources: Sources) -> set[str]:
    """The names that count the rounds of the loops around a call, on all ranks alike."""
    found = set()
    for node, _ in around(call, sources):
        found |= counted(node) if isinstance(node, LOOPS) else set()
        if not isinstance(node, ast.For) or asks_for_rank(node.iter, call, sources):
            continue
        if re.match(r"t?range\(|enumerate\(", ast.unparse(node.iter)):
            target = node.target.elts[0] if isinstance(node.target, ast.Tuple) else node.target
            found.add(ast.unparse(target))
    return found


def counted(loop: ast.stmt) -> set[str]:
    """The names to which a loop adds the same in each round: before what may leave out the rest of one."""
    found = set()
    for node in getattr(loop, "body", ()):
        if isinstance(node, ast.AugAssign) and isinstance(node.value, ast.Constant):
            found.add(ast.unparse(node.target))
        if any(isinstance(inner, ast.Continue) for inner in own_nodes(node)):
            break
    return found


def counts_to_its_end(loop: ast.stmt) -> bool:
    """Whether a ``while`` asks for nothing else than what it counts in each round, and plain names."""
    if not isinstance(loop, ast.While):
        return False
    nodes = list(ast.walk(loop.test))
    asked = {ast.unparse(node) for node in nodes if isinstance(node, ast.Name | ast.Attribute)}
    # it may go past what it is to be equal to
    below = any(isinstance(node, ast.Lt | ast.LtE | ast.Gt | ast.GtE) for node in nodes)
    calls = any(isinstance(node, ast.Call) for node in nodes)
    return below and not calls and bool(counted(loop) & asked)


def calls_before(call: Call, name: str, sources: Sources) -> bool:
    """Whether the function of a call calls this above it."""
    found = calls_of_function(name, call.file, sources)
    return any(one.function == call.function and one.line < call.line for one in found)


def calls_too(node: ast.If, part: str, name: str) -> bool:
    """Whether the other part of an ``if`` calls this, too, as where one rank gives and the others get."""
    other = node.orelse if part == "body" else node.body
    calls = (inner for each in other for inner in ast.walk(each) if isinstance(inner, ast.Call))
    return any(ast.unparse(inner.func).rpartition(".")[2] == name for inner in calls)


def does_more(node: ast.If, file: str, sources: Sources) -> bool:
    """Whether the body calls something else than what prints, counts and saves: a function of the file by
    what that calls."""
    names = {name for name in _called(node) if _QUIET.fullmatch(name) is None}
    nodes = ast.walk(parsed(sources.text(file)) or ast.Module([], []))
    functions = [one for one in nodes if isinstance(one, _FUNCTIONS) and one.name in names]
    calls = (one for function in functions for one in ast.walk(function) if isinstance(one, ast.Call))
    return bool(names - {one.name for one in functions}) or not all(map(is_quiet, calls))


def is_quiet(call: ast.Call) -> bool:
    """By its name: prints, counts or saves."""
    return _QUIET.fullmatch(method(call)) is not None


def exchanges(node: ast.If) -> bool:
    """Whether the body calls a collective."""
    return any(map(_COLLECTIVE.search, _called(node)))


def _called(node: ast.If) -> list[str]:
    calls = (inner for each in node.body for inner in own_nodes(each) if isinstance(inner, ast.Call))
    return [ast.unparse(call.func).rpartition(".")[2] for call in calls]


def method(node: ast.Call) -> str:
    return ast.unparse(node.func).rpartition(".")[2]


def is_default(name: str, call: Call, sources: Sources) -> bool:
    """Whether a name is a parameter of the function of this call that has a default."""
    functions = [one for one in functions_of(call, sources) if not isinstance(one, ast.Module)]
    for given in (function.args for function in functions):
        optional = [*given.posonlyargs, *given.args][::-1][: len(given.defaults)]
        if name in {one.arg for one in (*optional, *given.kwonlyargs)}:
            return True
    return False


def under(call: Call, sources: Sources) -> Both:
    """The innermost ``if`` that a call is in."""
    ifs = [node for node, _ in around(call, sources) if isinstance(node, ast.If)]
    return both("diagnosis.under", test=head(ifs[-1]), line=ifs[-1].lineno) if ifs else Both("", "")


def told(nodes: Sequence[ast.stmt | ast.ExceptHandler], files: Mapping[int, str] = _NO_FILES) -> Both:
    """``line 33  if hard:, line 40 of steps.py  for step in steps:``; ``files`` is by the nodes' identity."""
    ordered = sorted({(files.get(id(node), ""), node.lineno): node for node in nodes}.items())
    return Both(
        ", ".join(f"line {line}{f' of {file}' * bool(file)}  {head(node)}" for (file, line), node in ordered),
        "，".join(f"{f'{file} ' * bool(file)}第 {line} 行  {head(node)}" for (file, line), node in ordered),
    )


def head(node: ast.AST) -> str:
    """The first line of a statement, as it is written but for spaces: ``if rank == 0:``."""
    text = ast.unparse(node).partition("\n")[0]
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
