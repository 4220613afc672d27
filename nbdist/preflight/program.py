"""A program in the order of execution: its names' meanings, and the statements that surely run.

This module alone defines "surely": at the top level, under no condition or ``try``, in no loop that may be
skipped, or in a function that such a statement calls, with nothing before it that could leave.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from nbdist.preflight.finding import words

# 'SLURM_PROCID' in os.environ
_OTHER = r"'(?:OMPI|PMIX?|MV2|SLURM|COLAB)_\w*'"
_OF_OTHER_LAUNCHERS = re.compile(rf"(?:{_OTHER}|not {_OTHER} not) in (?:os\.)?environ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The place of a node. ``always``: every rank reaches it. ``conditions`` are the ``if`` tests around it;
    ``attempted``: in a ``try`` with handlers; ``expected``: one names NameError; ``function``: the function
    around it."""

    always: bool = True
    conditions: tuple[ast.expr, ...] = ()
    attempted: bool = False
    expected: bool = False
    function: str = ""

    @property
    def plain(self) -> bool:
        """Return whether it runs whenever its function does: no condition and no ``try`` around it."""
        return not self.conditions and not self.attempted


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call. ``name`` is dotted with imports resolved (empty for none), ``method`` its last part."""

    node: ast.Call
    name: str
    method: str
    place: Place

    @property
    def line(self) -> int:
        return self.node.lineno

    def argument(self, name: str, position: int | None = None) -> ast.expr | None:
        """Return the argument for a parameter, by its name or its position."""
        for keyword in self.node.keywords:
            if keyword.arg == name:
                return keyword.value
        if position is not None and position < len(self.node.args):
            argument = self.node.args[position]
            return None if any(isinstance(a, ast.Starred) for a in self.node.args) else argument
        return None


@dataclass(slots=True)
class Program:
    """A tree with its names, places and calls. Raises nothing for constructs that it does not know."""

    tree: ast.Module
    aliases: dict[str, str] = field(default_factory=dict)
    several: set[str] = field(default_factory=set)
    """Names that imports bind to several things, by version or ``try``."""

    places: dict[ast.AST, Place] = field(default_factory=dict)
    calls: list[Call] = field(default_factory=list)
    constants: dict[str, object] = field(default_factory=dict)
    once: dict[str, ast.expr] = field(default_factory=dict)
    """The values of names that exactly one assignment binds."""

    words: set[str] = field(default_factory=set)
    """Every identifier, attribute and keyword."""

    strings: set[str] = field(default_factory=set)
    loads: dict[str, int] = field(default_factory=dict)
    """The number of reads of each name."""

    @classmethod
    def of(cls, source: str | ast.Module) -> Program:
        """Return the program of a text. Raises SyntaxError or ValueError for invalid Python."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = cls(tree=ast.parse(source) if isinstance(source, str) else source)
        program._read_names()
        Walk(program).run()
        return program

    def dotted(self, node: ast.AST) -> str:
        """Return ``torch.distributed.barrier`` for ``dist.barrier``, as the imports have it."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return ""
        return ".".join([self.aliases.get(node.id, node.id), *reversed(parts)])

    def value(self, node: ast.AST | None) -> object:
        """Return the constant of an expression, or of its name; None for none."""
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Name):
            return self.constants.get(node.id)
        if isinstance(node, ast.Call) and self.dotted(node.func) == "str" and node.args:
            inner = self.value(node.args[0])
            return None if inner is None else str(inner)
        return None

    def variable(self, node: ast.expr) -> str:
        """Return the environment variable that an expression reads, or its name holds; empty for none."""
        if isinstance(node, ast.Name):
            node = self.once.get(node.id, node)
        key: ast.expr | None = None
        match node:
            case ast.Subscript(value=mapping, slice=index) if self.dotted(mapping) == "os.environ":
                key = index
            case ast.Call(func=function, args=[first, *_]):
                key = first if self.dotted(function) in ("os.environ.get", "os.getenv") else None
        name = self.value(key)
        return name if isinstance(name, str) else ""

    def imports(self) -> Iterator[tuple[str, ast.stmt]]:
        """Yield every absolute imported name with its statement."""
        for node in self.places:
            if isinstance(node, ast.Import):
                yield from ((alias.name, node) for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                yield from ((f"{node.module}.{alias.name}", node) for alias in node.names)

    def uses(self, module: str) -> bool:
        """Return whether the program imports from ``module``."""
        return any(name.partition(".")[0] == module for name, _ in self.imports())

    def mentions(self, *words: str) -> bool:
        """Return whether one of these is an identifier or a string of the program."""
        return any(word in self.words or word in self.strings for word in words)

    def flags(self, call: Call) -> set[str]:
        """Return the names that a call of ``add_argument`` defines: ``--local-rank``, ``-n``."""
        return {value for node in call.node.args if isinstance(value := self.value(node), str)}

    def callers(self, function: str) -> list[Place]:
        """Return the calls of a function; none if it may be called otherwise."""
        places = [call.place for call in self.calls if call.name == function]
        return places if self.loads.get(function, 0) <= len(places) else []

    def switched_off(self, place: Place, args: Sequence[str], seen: frozenset[str] = frozenset()) -> bool:
        """Return whether an option that is off, or a condition on another launcher, keeps it from running;
        also in a function that is called nowhere else."""
        tests = place.conditions
        needed = {test.attr for test in tests if isinstance(test, ast.Attribute)}
        for call in self.calls if needed else ():
            if call.method == "add_argument" and self.value(call.argument("action")) == "store_true":
                flags = self.flags(call)
                names = {flag.lstrip("-").replace("-", "_") for flag in flags}
                if needed & {*names, self.value(call.argument("dest"))} and not flags & set(args):
                    return True
        if any(_OF_OTHER_LAUNCHERS.fullmatch(ast.unparse(test)) for test in tests):
            return True
        if not place.function or place.function in seen:
            return False
        seen |= {place.function}
        callers = self.callers(place.function)
        if not callers:
            return self._is_never_called(place.function)
        return all(self.switched_off(caller, args, seen) for caller in callers)

    def _is_never_called(self, function: str) -> bool:
        """Return whether it is a script's function that nothing in the script names."""
        by_name = words("calls_by_name")
        if self.mentions(function, "modules", "Fire") or any(call.name in by_name for call in self.calls):
            return False
        own = (ast.FunctionDef, ast.AsyncFunctionDef)
        plain = any(
            isinstance(s, own) and s.name == function and not s.decorator_list for s in self.tree.body
        )
        return plain and any(isinstance(s, ast.If) and is_main(s.test) for s in self.tree.body)

    def _import(self, name: str, whole: str) -> None:
        if self.aliases.get(name, whole) != whole:
            self.several.add(name)
        self.aliases[name] = whole

    def _read_names(self) -> None:
        assigned: dict[str, int] = {}
        for node in ast.walk(self.tree):
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    self.once[name] = value
                case ast.Import():
                    for alias in node.names:
                        self.words |= set(alias.name.split("."))
                        top = alias.name if alias.asname else alias.name.partition(".")[0]
                        self._import(alias.asname or top, top)
                case ast.ImportFrom(module=str(module), level=0):
                    for alias in node.names:
                        self.words |= {alias.name, *module.split(".")}
                        self._import(alias.asname or alias.name, f"{module}.{alias.name}")
                case ast.Name():
                    self.words.add(node.id)
                    counted = self.loads if isinstance(node.ctx, ast.Load) else assigned
                    counted[node.id] = counted.get(node.id, 0) + 1
                case ast.Attribute():
                    self.words.add(node.attr)
                case ast.keyword(arg=str(name)):
                    self.words.add(name)
                case ast.arg():
                    self.words.add(node.arg)
                    assigned[node.arg] = 2
                case ast.Constant(value=str(text)):
                    self.strings.add(text)
        if "fluid" not in assigned:
            # cells of old programs use it after another cell's import
            self.aliases.setdefault("fluid", "paddle.fluid")
        self.once = {name: value for name, value in self.once.items() if assigned[name] == 1}
        for statement in self.tree.body:
            match statement:
                case ast.Assign(targets=[ast.Name(id=name)], value=value) if name in self.once:
                    if isinstance(value, ast.Constant):
                        self.constants[name] = value.value
                    elif isinstance(value, ast.Attribute) and (whole := self.dotted(value)):
                        self.aliases.setdefault(name, whole)


_FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)
_LEAVING = frozenset({"exit", "quit", "sys.exit", "os._exit", "os.abort"})
# these do not hide what the checks look for
_NARROW = frozenset(
    {"KeyboardInterrupt", "SystemExit", "StopIteration", "FileNotFoundError", "OSError", "EOFError"}
)
_LEAVES = (ast.Return, ast.Raise)


class Walk:
    """A walk through the tree, and through functions that are surely called, at their calls."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._functions: dict[str, ast.FunctionDef] = {}
        self._sure: list[str] = []
        self._left = False

    def run(self) -> None:
        tree = self._program.tree
        self._functions = {
            node.name: node
            for node in tree.body
            if isinstance(node, ast.FunctionDef) and not node.decorator_list
        }
        # an exit in a function may run at any time
        functions = [node for node in ast.walk(tree) if isinstance(node, (*_FUNCTION, ast.Lambda))]
        self._left = any(self._leaves(node) for f in functions for node in ast.walk(f))
        self._block(tree.body, Place())
        done: set[str] = set()
        while names := [name for name in self._sure if name not in done]:
            for name in names:
                done.add(name)
                self._left = False
                body = self._functions[name]
                generates = any(isinstance(n, (ast.Yield, ast.YieldFrom)) for n in ast.walk(body))
                self._body(body, Place(function=name, always=not generates))
        surely = [self._functions[name] for name in done]
        for function in functions:
            if function not in surely:
                # it exists only where its definition runs
                around = self._program.places.get(function, Place()).conditions
                name = getattr(function, "name", "lambda")
                self._body(function, Place(function=name, always=False, conditions=around))

    def _body(self, function: ast.AST, place: Place) -> None:
        body = getattr(function, "body", [])
        if isinstance(body, list):
            self._block(body, place)
        else:
            self._visit(body, place)

    def _block(self, statements: Sequence[ast.stmt], place: Place) -> None:
        for statement in statements:
            here = replace(place, always=False) if self._left and place.always else place
            self._visit(statement, here)
            if not isinstance(statement, (*_FUNCTION, ast.ClassDef)) and any(
                isinstance(node, _LEAVES) or self._leaves(node) for node in _own(statement)
            ):
                self._left = True

    def _loop(self, statements: Sequence[ast.stmt], place: Place) -> None:
        """Visit the body of a loop, in its first round."""
        for statement in statements:
            self._block([statement], place)
            if any(isinstance(node, (ast.Break, ast.Continue)) for node in _own(statement)):
                place = replace(place, always=False)

    def _is_entered(self, test: ast.expr) -> bool:
        """Return whether a loop over or while this surely has a first round."""
        match test:
            case ast.Constant(value=value):
                return value is True or value == 1
            case ast.List(elts=[_, *_]) | ast.Tuple(elts=[_, *_]):
                return not any(isinstance(element, ast.Starred) for element in test.elts)
            case ast.Call(func=ast.Name(id="range"), args=limits) if 1 <= len(limits) <= 2:
                numbers = [n for limit in limits if type(n := self._program.value(limit)) is int]
                return len(numbers) == len(limits) and len(range(*numbers)) > 0
        return False

    def _leaves(self, node: ast.AST) -> bool:
        if isinstance(node, ast.Call):
            return self._program.dotted(node.func) in _LEAVING
        return False

    def _visit(self, node: ast.AST, place: Place) -> None:
        self._program.places[node] = place
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
                # its body is visited once the callers are known
                for child in _outside(node):
                    self._visit(child, place)
            case ast.If(test=test, body=body, orelse=orelse):
                self._visit(test, place)
                inside = place if is_main(test) else _if(place, test)
                self._block(body, inside)
                self._block(orelse, _if(place, _not(test)))
            case ast.IfExp(test=test, body=value, orelse=other):
                self._visit(test, place)
                self._visit(value, _if(place, test))
                self._visit(other, _if(place, _not(test)))
            case ast.BoolOp(values=[first, *others]):
                self._visit(first, place)
                for value in others:
                    self._visit(value, _if(place, first))
            case ast.While(test=test) | ast.For(iter=test) | ast.AsyncFor(iter=test):
                self._visit(test, place)
                maybe = replace(place, always=False)
                if isinstance(node, (ast.For, ast.AsyncFor)):
                    self._visit(node.target, place)
                self._loop(node.body, place if self._is_entered(test) else maybe)
                self._block(node.orelse, maybe)
            case ast.Try() if not {name for h in node.handlers for name in self._caught(h)} <= _NARROW:
                named = any("NameError" in self._caught(handler) for handler in node.handlers)
                attempt = replace(place, always=False, attempted=True, expected=place.expected or named)
                self._block(node.body, attempt)
                for handler in node.handlers:
                    self._visit(handler, attempt)
                self._block([*node.orelse], attempt)
                self._block(node.finalbody, place)
            case ast.With() | ast.AsyncWith() if any(_suppresses(item) for item in node.items):
                self._children(node, replace(place, always=False, attempted=True))
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                self._visit(node.generators[0].iter, place)
                self._children(node, replace(place, always=False))
            case ast.Call():
                self._called(node, place)
                self._children(node, place)
            case _:
                self._children(node, place)

    def _caught(self, handler: ast.ExceptHandler) -> list[str]:
        """Return the exceptions that a handler names; "" for a bare one."""
        if handler.type is None:
            return [""]
        kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
        return [self._program.dotted(kind) for kind in kinds]

    def _children(self, node: ast.AST, place: Place) -> None:
        for _, value in ast.iter_fields(node):
            if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
                self._block(value, place)
            elif isinstance(value, list):
                for child in value:
                    if isinstance(child, ast.AST):
                        self._visit(child, place)
            elif isinstance(value, ast.AST) and value not in self._program.places:
                self._visit(value, place)

    def _called(self, node: ast.Call, place: Place) -> None:
        name = self._program.dotted(node.func)
        method = node.func.attr if isinstance(node.func, ast.Attribute) else name.rpartition(".")[2]
        self._program.calls.append(Call(node=node, name=name, method=method, place=place))
        if place.always and name in self._functions and name not in self._sure:
            self._sure.append(name)


def _if(place: Place, test: ast.expr) -> Place:
    return replace(place, always=False, conditions=(*place.conditions, *_demands(test)))


def _not(test: ast.expr) -> ast.expr:
    return ast.copy_location(ast.UnaryOp(op=ast.Not(), operand=test), test)


def _demands(test: ast.expr) -> Iterator[ast.expr]:
    """Yield each part that must hold: ``a`` and ``b`` for ``a and b``, or ``not (not a or not b)``."""
    match test:
        case ast.BoolOp(op=ast.And(), values=values):
            yield from (part for value in values for part in _demands(value))
        case ast.UnaryOp(op=ast.Not(), operand=ast.BoolOp(op=ast.Or(), values=values)):
            yield from (part for value in values for part in _demands(_not(value)))
        case ast.UnaryOp(op=ast.Not(), operand=ast.UnaryOp(op=ast.Not(), operand=inner)):
            yield from _demands(inner)
        case _:
            yield test


def is_main(test: ast.expr) -> bool:
    """Return whether this is ``if __name__ == "__main__":`` or a true constant."""
    match test:
        case ast.Compare(left=ast.Name(id="__name__"), ops=[ast.Eq()], comparators=[ast.Constant()]):
            return True
        case ast.Constant(value=value):
            return bool(value)
    return False


def _suppresses(item: ast.withitem) -> bool:
    text = ast.dump(item.context_expr).lower()
    return any(word in text for word in ("suppress", "raises", "ignore"))


def _own(statement: ast.stmt) -> Iterator[ast.AST]:
    """Yield the nodes that run with a statement, not those of functions that it makes."""
    queue: list[ast.AST] = [statement]
    while queue:
        node = queue.pop()
        yield node
        if not isinstance(node, (*_FUNCTION, ast.Lambda)):
            queue += ast.iter_child_nodes(node)


def _outside(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> Iterator[ast.AST]:
    """Yield the parts of a function that its definition evaluates."""
    yield from getattr(node, "decorator_list", ())
    yield node.args
    if (returns := getattr(node, "returns", None)) is not None:
        yield returns
