"""The statements around a line of a program: its ifs and loops, and whether they depend on the rank."""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from nbdist.programs.sources import Sources
from nbdist.store.reports import Call
from nbdist.text import Both

_OF_RANKS = re.compile(
    r"(?<!lora_)(?<!low_)(?<!matrix_)rank(?!ing|ed|er|_loss)|main_process|is_(?:main|master|chief|primary)"
    r"|process_index|trainer_id|(?:global|process)_zero",
    re.IGNORECASE,
)
OWN_RANK = re.compile(r"(?:\w+\.)*(?:rank|local_rank|global_rank|get_rank\(\))")
_OF_ALL = re.compile(
    r"[\w.]*\b\w*(?:is_initialized|is_available|is_built|avail_and_initialized)\(\)"
    r"|[\w.]*\b(?:is_|use_)?(?:distributed|ddp)(?:_(?!\w*rank)\w+)?(?:\(\))?"
    r"|[\w.]*\b(?:is_)?dist_(?:avail|init|enabled|is_)\w*(?:\(\))?"
    r"|[\w.]+\.training"
    r"|[\w.]*\b(?:world_size|get_world_size\(\w*\)|num_processes|nranks)(?: [=!<>]+ \d+)?"
    r"|'\w*(?:RANK|WORLD_SIZE)' (?:not )?in os\.environ"
    r"|(?:\w+\.)*(?:local_|global_)?rank (?:[=!]= -1|> -1|>= 0|< 0|is (?:not )?None)"
)
"""Conditions that hold on all ranks or on none."""
_OPERATORS = (ast.cmpop, ast.boolop, ast.unaryop, ast.operator, ast.expr_context)
_VALUES = (ast.Compare, ast.BoolOp, ast.UnaryOp, ast.BinOp, ast.Constant, ast.Tuple, ast.List, ast.Set)
_ONE_RANK = re.compile(r"(?:rank_?(?:zero|0)|main_process|on_main|master)(?!_first)", re.IGNORECASE)
_QUIET = re.compile(
    r"print|log\w*|info|debug|warning|\w*save\w*|add_\w+|write\w*|append|update\w*|set_\w+|item|float|int|str|round|len"
    r"|time|format|join|dump|\w*state_dict|makedirs|mkdir|open|close|flush|step|cpu|detach|mean|sum|get|items|keys"
)
_COLLECTIVE = re.compile(r"broadcast|scatter|gather|reduce|barrier|all_to_all")

_MEETING = re.compile(r"\bMASTER_PORT\b|\btcp://")
_OWN_PORT = re.compile(
    r"\b\w*(?:free|unused|available|random)_?\w*port\w*\(|\b(?:getsockname|randint|randrange|getpid)\("
)
LOOPS = (ast.For, ast.AsyncFor, ast.While)
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
"""A statement around a line, and the part that holds it: ``body``, ``orelse``."""


def around(call: Call, sources: Sources) -> list[Step]:
    """Return the statements around a line within its function, outermost first."""
    return _steps(sources.tree(call.file).body, call.line)


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
        # each round executes the head of a loop
        return [(node, "body")] if isinstance(node, LOOPS) else []
    return []


def holds(node: ast.AST, line: int, last: ast.AST | None = None) -> bool:
    begin: int = getattr(node, "lineno", line + 1)
    end: int = getattr(last or node, "end_lineno", begin)
    return begin <= line <= end


def own_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a statement and its nodes, without the functions and classes that it defines."""
    if isinstance(node, _INNER):
        return
    yield node
    for child in ast.iter_child_nodes(node):
        yield from own_nodes(child)


def ways_out(loop: ast.stmt) -> list[ast.If | ast.ExceptHandler]:
    """Return a loop's exits: an ``if`` that leaves a step, an ``except`` that raises nothing."""
    ways = []
    for node in own_nodes(loop):
        leaves = isinstance(node, ast.If) and isinstance(node.body[-1], LEAVING)
        if leaves or (isinstance(node, ast.ExceptHandler) and goes_on(node)):
            ways.append(node)
    return ways  # type: ignore[return-value]


def exits_of(loop: ast.stmt) -> list[ast.If]:
    """Return the ifs of a loop that end the process as if all were well."""
    ifs = (node for node in own_nodes(loop) if isinstance(node, ast.If))
    return [node for node in ifs if _ends(node.body[-1]) and not isinstance(node.body[-1], ast.Return)]


def goes_on(handler: ast.ExceptHandler) -> bool:
    """Return whether a handler neither raises again nor exits, for errors that one rank may have alone."""
    last, error = handler.body[-1], ast.unparse(handler.type) if handler.type is not None else ""
    return not isinstance(last, ast.Raise) and not _EXIT.match(ast.unparse(last)) and error not in _OF_NO_RANK


def caught_in_calls(loop: ast.stmt, file: str, sources: Sources) -> list[ast.ExceptHandler]:
    """Return the handlers that go on, in functions of a file that a loop calls."""
    calls = (node for node in own_nodes(loop) if isinstance(node, ast.Call))
    called = {method(call) for call in calls}
    return [
        node
        for function in ast.walk(sources.tree(file))
        if isinstance(function, _FUNCTIONS) and function.name in called
        for child in function.body
        for node in own_nodes(child)
        if isinstance(node, ast.ExceptHandler) and goes_on(node)
    ]


def returns_before(call: Call, sources: Sources) -> list[ast.If]:
    """Return the ifs before a call, in its function, that return or end the process."""
    ifs = [node for function in functions_of(call, sources) for node in _ifs_before(function.body, call.line)]
    return [node for node in ifs if _may_end(node.body[-1]) and not is_of_all(node.test)]


def _may_end(last: ast.stmt) -> bool:
    """Return whether a statement, or an ``except`` of a last ``try``, ends its function."""
    handlers = last.handlers if isinstance(last, ast.Try) else []
    return _ends(last) or any(_ends(handler.body[-1]) for handler in handlers)


def functions_of(call: Call, sources: Sources) -> list[ast.Module | ast.FunctionDef | ast.AsyncFunctionDef]:
    """Return the function around a call, or the module."""
    tree = sources.tree(call.file)
    if call.function == "<module>":
        return [tree]
    functions = [node for node in ast.walk(tree) if isinstance(node, _FUNCTIONS)]
    return [node for node in functions if node.name == call.function and holds(node, call.line)]


def rank_decorators(call: Call, sources: Sources) -> list[ast.expr]:
    """Return the decorators that run a call's function on one rank alone: ``rank_zero_only``."""
    functions = [node for node in functions_of(call, sources) if not isinstance(node, ast.Module)]
    decorators = [decorator for node in functions for decorator in node.decorator_list]
    return [decorator for decorator in decorators if _ONE_RANK.search(ast.unparse(decorator))]


def _ifs_before(statements: Sequence[ast.stmt], line: int) -> Iterator[ast.If]:
    for node in statements:
        if isinstance(node, ast.If) and (node.end_lineno or node.lineno) < line:
            yield node
        elif isinstance(node, ast.With | ast.Try) and holds(node, line):
            yield from _ifs_before(node.body, line)


def _ends(last: ast.stmt) -> bool:
    """Return whether a statement returns, or ends the process as if all were well."""
    if isinstance(last, ast.With):
        return _ends(last.body[-1])
    if isinstance(last, ast.Try):
        return _ends((last.orelse or last.body)[-1])
    return isinstance(last, ast.Return) or (isinstance(last, ast.Expr) and ast.unparse(last) in _EXITS)


def calls_of_function(name: str, file: str, sources: Sources) -> list[Call]:
    """Return the calls of a function in a file, each with the function around it."""
    places = []
    for node in ast.walk(sources.tree(file)):
        if isinstance(node, ast.Module | ast.FunctionDef | ast.AsyncFunctionDef):
            function = "<module>" if isinstance(node, ast.Module) else node.name
            calls = (node for child in node.body for node in own_nodes(child) if isinstance(node, ast.Call))
            named = (node for node in calls if method(node) == name)
            places += [Call(file=file, line=node.lineno, function=function) for node in named]
    return places


def node_at(call: Call, sources: Sources) -> ast.stmt | None:
    """Return the innermost statement in a line."""
    nodes = ast.walk(sources.tree(call.file))
    statements = [node for node in nodes if isinstance(node, ast.stmt) and holds(node, call.line)]
    return statements[-1] if statements else None


def port_by_rank(file: str, sources: Sources) -> ast.stmt | None:
    """Return the statement by which each rank chooses the meeting port by itself."""
    nodes = ast.walk(sources.tree(file))
    statements = [node for node in nodes if isinstance(node, ast.Assign | ast.Expr)]
    meeting = [node for node in statements if _MEETING.search(ast.unparse(node))]
    names = {name.id for node in meeting for name in ast.walk(node) if isinstance(name, ast.Name)}
    sets = [
        node for node in statements if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in names
    ]
    return next((node for node in (*meeting, *sets) if _OWN_PORT.search(ast.unparse(node))), None)


def exits(file: str, sources: Sources) -> list[int]:
    """Return the lines of a file that end the process as if all were well."""
    nodes = ast.walk(sources.tree(file))
    calls = (node for node in nodes if isinstance(node, ast.Call))
    return sorted(call.lineno for call in calls if ast.unparse(call) in _EXITS)


def root_by_rank(call: Call, sources: Sources) -> str | None:
    """Return ``src=rank`` of a collective in this line, which must be equal on every rank."""
    loops = [node.target for node, _ in around(call, sources) if isinstance(node, ast.For)]
    tree = sources.tree(call.file)
    loops += [node.target for node in ast.walk(tree) if isinstance(node, ast.comprehension)]
    rounds = {ast.unparse(each) for target in loops for each in ast.walk(target)}
    for given in (given for node in _collectives_at(call, sources) for given in node.keywords):
        root = ast.unparse(given.value)
        if given.arg in ("src", "dst", "root") and OWN_RANK.fullmatch(root) and root not in rounds:
            return ast.unparse(given)
    return None


def _collectives_at(call: Call, sources: Sources) -> list[ast.Call]:
    """Return the collectives that a line calls."""
    nodes = ast.walk(sources.tree(call.file))
    calls = (node for node in nodes if isinstance(node, ast.Call) and holds(node, call.line))
    return [node for node in calls if is_collective(ast.unparse(node.func))]


def is_collective(called: str) -> bool:
    """Return whether a name is a collective's."""
    return _COLLECTIVE.search(called.rpartition(".")[2]) is not None


def given_group(call: Call, sources: Sources) -> str:
    """Return the ``group=`` of the collective in this line; empty for none."""
    for node in _collectives_at(call, sources):
        for given in node.keywords:
            if given.arg == "group":
                return ast.unparse(given.value)
        if node.args and ast.unparse(node.func).endswith("barrier"):
            return ast.unparse(node.args[0])
    return ""


def first_given(call: Call, name: str, sources: Sources) -> str:
    """Return the first argument of this function's call in a line, or its name's value; or ""."""
    for function in functions_of(call, sources):
        calls = [node for node in ast.walk(function) if isinstance(node, ast.Call) and holds(node, call.line)]
        named = (node for node in calls if method(node) == name and node.args)
        for node in named:
            text = ast.unparse(node.args[0])
            sets = (node for node in ast.walk(function) if isinstance(node, ast.Assign))
            values = (node.value for node in sets if text in map(ast.unparse, node.targets))
            return next(map(ast.unparse, values), text)
    return ""


def counters(call: Call, sources: Sources) -> set[str]:
    """Return the names that count the rounds of the loops around a call, alike on all ranks."""
    names = set()
    for node, _ in around(call, sources):
        names |= counted(node) if isinstance(node, LOOPS) else set()
        if not isinstance(node, ast.For) or asks_for_rank(node.iter, call, sources):
            continue
        if re.match(r"t?range\(|enumerate\(", ast.unparse(node.iter)):
            target = node.target.elts[0] if isinstance(node.target, ast.Tuple) else node.target
            names.add(ast.unparse(target))
    return names


def counted(loop: ast.stmt) -> set[str]:
    """Return the names that a loop raises equally in each round, before any ``continue``."""
    names = set()
    for node in getattr(loop, "body", ()):
        if isinstance(node, ast.AugAssign) and isinstance(node.value, ast.Constant):
            names.add(ast.unparse(node.target))
        if any(isinstance(inner, ast.Continue) for inner in own_nodes(node)):
            break
    return names


def counts_to_its_end(loop: ast.stmt) -> bool:
    """Return whether a ``while`` tests only its own count and plain names."""
    if not isinstance(loop, ast.While):
        return False
    nodes = list(ast.walk(loop.test))
    names = {ast.unparse(node) for node in nodes if isinstance(node, ast.Name | ast.Attribute)}
    # an equality may be jumped over
    below = any(isinstance(node, ast.Lt | ast.LtE | ast.Gt | ast.GtE) for node in nodes)
    calls = any(isinstance(node, ast.Call) for node in nodes)
    return below and not calls and bool(counted(loop) & names)


def calls_too(node: ast.If, part: str, name: str) -> bool:
    """Return whether the other part of an ``if`` makes this call, too."""
    other = node.orelse if part == "body" else node.body
    calls = (inner for each in other for inner in ast.walk(each) if isinstance(inner, ast.Call))
    return any(method(inner) == name for inner in calls)


def is_quiet(call: ast.Call) -> bool:
    """Return whether a call's name is one that prints, counts or saves."""
    return _QUIET.fullmatch(method(call)) is not None


def exchanges(node: ast.If) -> bool:
    """Return whether the body calls a collective."""
    calls = (inner for each in node.body for inner in own_nodes(each) if isinstance(inner, ast.Call))
    return any(_COLLECTIVE.search(method(call)) for call in calls)


def names_in(node: ast.AST) -> set[str]:
    return {name.id for name in ast.walk(node) if isinstance(name, ast.Name)}


def method(node: ast.Call) -> str:
    return ast.unparse(node.func).rpartition(".")[2]


def is_default(name: str, call: Call, sources: Sources) -> bool:
    """Return whether a name is a parameter with a default in the function of this call."""
    functions = [function for function in functions_of(call, sources) if not isinstance(function, ast.Module)]
    for given in (function.args for function in functions):
        optional = [*given.posonlyargs, *given.args][::-1][: len(given.defaults)]
        if name in {argument.arg for argument in (*optional, *given.kwonlyargs)}:
            return True
    return False


def lines_in_words(
    nodes: Sequence[ast.stmt | ast.ExceptHandler], files: Mapping[int, str] = _NO_FILES
) -> Both:
    """Return ``line 33  if hard:, line 40 of steps.py  for step in steps:``; ``files`` by id."""
    ordered = sorted({(files.get(id(node), ""), node.lineno): node for node in nodes}.items())
    return Both(
        ", ".join(f"line {line}{f' of {file}' * bool(file)}  {head(node)}" for (file, line), node in ordered),
        "，".join(f"{f'{file} ' * bool(file)}第 {line} 行  {head(node)}" for (file, line), node in ordered),
    )


def head(node: ast.AST) -> str:
    """Return the first line of a statement, normalised: ``if rank == 0:``."""
    text = ast.unparse(node).partition("\n")[0]
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


# Conditions: on the rank, or alike on all ranks.


def is_of_all(test: ast.expr) -> bool:
    """Return whether a condition holds on all ranks or on none, such as on the number of ranks."""
    if isinstance(test, ast.BoolOp):
        return all(map(is_of_all, test.values))
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return is_of_all(test.operand)
    return _OF_ALL.fullmatch(ast.unparse(test)) is not None


def asks_for_rank(test: ast.expr, call: Call, sources: Sources) -> bool:
    """Return whether a condition depends on the rank's number, by itself or through a name."""
    if is_of_all(test):
        return False
    if _OF_RANKS.search(ast.unparse(test)):
        return True
    tree = sources.tree(call.file)
    names = {ast.unparse(node) for node in ast.walk(test) if isinstance(node, ast.Name | ast.Attribute)}
    return spelt_out(test, call, sources) != ast.unparse(test) or any(
        ast.unparse(target) in names and _OF_RANKS.search(_asked(node.value)) and not is_of_all(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name | ast.Attribute)
    )


def spelt_out(test: ast.expr, call: Call, sources: Sources) -> str:
    """Return a condition with rank-only functions replaced by their values: ``dist.get_rank() == 0`` for
    ``ckpt.is_writer()``; all functions of one name must agree."""
    text, returned = ast.unparse(test), dict[str, list[ast.expr | None]]()
    for node in ast.walk(sources.tree(call.file)):
        if isinstance(node, ast.FunctionDef) and re.search(rf"\b{node.name}\b", text):
            returned.setdefault(node.name, []).append(_told_of_rank(node))
    for name, values in returned.items():
        if values[0] is not None and all(values):
            text = re.sub(rf"(?:\w+\.)*\b{name}\b(?:\([^()]*\))?", ast.unparse(values[0]), text)
    return text


def _told_of_rank(function: ast.FunctionDef) -> ast.expr | None:
    """Return the value of a function that only returns a value of the rank."""
    documented = isinstance(function.body[0], ast.Expr) and isinstance(function.body[0].value, ast.Constant)
    rest = function.body[1:] if documented else function.body
    value = rest[0].value if len(rest) == 1 and isinstance(rest[0], ast.Return) else None
    of_rank = value is not None and _OF_RANKS.search(_asked(value)) and not is_of_all(value)
    return value if of_rank else None


def _asked(value: ast.expr) -> str:
    """Return a value without arguments, f-strings and slices: ``mean(run_epoch(model, rank))``,
    ``f"cuda:{rank}"`` and ``files[rank::2]`` do not test the number."""
    bare = copy.deepcopy(value)
    for node in ast.walk(bare):
        if isinstance(node, ast.Call):
            node.args, node.keywords = [], []
        elif isinstance(node, ast.JoinedStr):
            node.values = []
        elif isinstance(node, ast.Slice):
            node.lower = node.upper = node.step = None
    return ast.unparse(bare)


def holds_for(test: ast.expr, rank: int, had: Mapping[str, str]) -> bool | None:
    """Return whether a condition holds on a rank with these values; None if it needs more than the number."""
    names = _Numbers(rank, {name for name, what in had.items() if what == str(rank)})
    numbered = names.visit(copy.deepcopy(test))
    if not all(isinstance(node, (*_OPERATORS, *_VALUES)) for node in ast.walk(numbered)):
        return None
    try:
        code = compile(ast.fix_missing_locations(ast.Expression(numbered)), "<condition>", "eval")
        return bool(eval(code, {"__builtins__": {}}))
    except (TypeError, ValueError, ArithmeticError):
        return None


class _Numbers(ast.NodeTransformer):
    """A transformer that replaces expressions of the rank by its number."""

    def __init__(self, rank: int, names: set[str]) -> None:
        self._rank, self._names = rank, names

    def generic_visit(self, node: ast.AST) -> ast.AST:
        if isinstance(node, ast.Name | ast.Attribute | ast.Call):
            text = ast.unparse(node)
            if OWN_RANK.fullmatch(text) and (isinstance(node, ast.Call) or text in self._names):
                return ast.Constant(self._rank)
        return super().generic_visit(node)
