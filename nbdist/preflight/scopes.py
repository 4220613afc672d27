"""Which names a program takes from nowhere, or uses before they are bound: Python's scopes, gone through in
the order of execution.

The check errs on the safe side: of a program that makes names in ways it cannot follow
(``exec``, ``globals()``, a star import) it assumes that the program defines every name.
"""

from __future__ import annotations

import ast
import builtins
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from nbdist.preflight.program import Place, Program

_FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)


def bound_names(statements: Iterable[ast.AST]) -> Iterator[tuple[str, int]]:
    """The names that statements bind in their own scope, each with a line."""
    queue = list(statements)
    while queue:
        node = queue.pop()
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.name, node.lineno
                queue += node.decorator_list
                continue
            case ast.Lambda():
                continue
            case ast.Name(ctx=ast.Store() | ast.Del()):
                yield node.id, node.lineno
            case ast.Import() | ast.ImportFrom():
                for alias in node.names:
                    yield alias.asname or alias.name.partition(".")[0], node.lineno
            case ast.ExceptHandler(name=str(name)):
                yield name, node.lineno
            case (
                ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)) | ast.MatchMapping(rest=str(name))
            ):
                yield name, node.lineno
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                # only := leaves a comprehension
                yield from (
                    (inner.target.id, inner.lineno)
                    for inner in ast.walk(node)
                    if isinstance(inner, ast.NamedExpr) and isinstance(inner.target, ast.Name)
                )
                continue
        queue += ast.iter_child_nodes(node)


def without_additions(body: Iterable[ast.stmt]) -> list[ast.AST]:
    """The statements, but for the targets of ``+=``, which need what they bind."""
    kept: list[ast.AST] = []
    for statement in body:
        if isinstance(statement, ast.AugAssign):
            kept.append(statement.value)
        elif isinstance(
            statement, (ast.For, ast.While, ast.If, ast.With, ast.AsyncFor, ast.AsyncWith, ast.Try)
        ):
            for _, value in ast.iter_fields(statement):
                parts = value if isinstance(value, list) else [value]
                statements = [part for part in parts if isinstance(part, ast.stmt)]
                handlers = [part for part in parts if isinstance(part, ast.ExceptHandler)]
                kept += without_additions(statements)
                for handler in handlers:
                    kept += [ast.ExceptHandler(name=handler.name, body=[], lineno=handler.lineno)]
                    kept += without_additions(handler.body)
                kept += [
                    p for p in parts if isinstance(p, ast.AST) and p not in statements and p not in handlers
                ]
        else:
            kept.append(statement)
    return kept


def bound_by_global(tree: ast.Module) -> set[str]:
    """What functions give the module by ``global``."""
    found: set[str] = set()
    for function in ast.walk(tree):
        if isinstance(function, _FUNCTION):
            sent = {n for s in statements_of(function.body) if isinstance(s, ast.Global) for n in s.names}
            if sent:
                found |= sent & {name for name, _ in bound_names(without_additions(function.body))}
    return found


def statements_of(body: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Every node of a function's body, but not those of functions and classes in it."""
    queue = list(body)
    while queue:
        node = queue.pop()
        yield node
        if not isinstance(node, (*_FUNCTION, ast.Lambda, ast.ClassDef)):
            queue += ast.iter_child_nodes(node)


def arguments_of(arguments: ast.arguments) -> list[ast.arg]:
    more = [argument for argument in (arguments.vararg, arguments.kwarg) if argument is not None]
    return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, *more]


# what IPython adds to the builtins of its own process, and no rank has
NOTEBOOK_BUILTINS = frozenset({"get_ipython", "__IPYTHON__"})
GIVEN = (frozenset(dir(builtins)) - NOTEBOOK_BUILTINS) | {
    "display",
    "update_display",
    "__name__",
    "__file__",
    "__doc__",
    "__spec__",
    "__package__",
    "__loader__",
    "__builtins__",
    "__cached__",
    "__annotations__",
    "WindowsError",
}
_OF_PYTHON_2 = frozenset(
    {
        "basestring",
        "buffer",
        "cmp",
        "file",
        "long",
        "raw_input",
        "reduce",
        "reload",
        "unichr",
        "unicode",
        "xrange",
    }
)
_PYTHONS = frozenset({"version_info", "PY2", "PY3", "hexversion", "python_version"})
_OPAQUE = frozenset({"exec", "execfile", "globals", "locals", "runpy.run_path", "runpy.run_module"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """A use of a name that is not defined there. ``later`` is the line that defines it after this use, or
    deleted it before (``deleted``); None where no line does."""

    name: str
    line: int
    place: Place
    later: int | None = None
    deleted: bool = False


@dataclass(slots=True)
class _Scope:
    kind: str
    bound: set[str] = field(default_factory=set)
    outside: set[str] = field(default_factory=set)
    """Names that a ``global`` statement sends to the module."""


def missing_names(program: Program, stars: Iterable[str] | None = ()) -> list[Missing]:
    """The uses of names that the ranks will not have. ``stars`` are the names that the program's star
    imports bring; None where that cannot be known."""
    if stars is None or _is_opaque(program):
        return []
    found = _Reader(program, set(stars)).read()
    asked = _asked_for(program)
    attributes = (node for node in program.places if isinstance(node, ast.Attribute))
    if program.words & _PYTHONS or any(program.dotted(node) == "sys.version" for node in attributes):
        asked |= _OF_PYTHON_2
    return [missing for missing in found if missing.name not in asked]


def _asked_for(program: Program) -> set[object]:
    """The names in ``if "scaler" in dir()``."""
    return {
        node.left.value
        for node in program.places
        if isinstance(node, ast.Compare) and isinstance(node.left, ast.Constant)
    }


def _asks_for_python(test: ast.expr) -> bool:
    """Whether a condition asks which Python runs: names of another one are right under it."""
    names = {getattr(node, "attr", None) or getattr(node, "id", None) for node in ast.walk(test)}
    return {"sys", "version"} <= names or not names.isdisjoint(_PYTHONS)


def _is_opaque(program: Program) -> bool:
    if any(call.name in _OPAQUE or (call.name == "vars" and not call.node.args) for call in program.calls):
        return True
    attributes = (node for node in program.places if isinstance(node, ast.Attribute))
    return program.mentions("__builtins__", "builtins") or any(
        program.dotted(node) == "sys.modules" for node in attributes
    )


class _Reader:
    def __init__(self, program: Program, stars: set[str]) -> None:
        self._program = program
        body = program.tree.body
        self._lines: dict[str, int] = {}
        for name, line in bound_names(without_additions(body)):
            self._lines[name] = min(line, self._lines.get(name, line))
        self._free = GIVEN | stars | bound_by_global(program.tree)
        self._now: set[str] = set()
        self._deleted: dict[str, int] = {}
        self._found: list[Missing] = []
        self._waiting: list[tuple[ast.AST, list[_Scope]]] = []
        self._late_annotations = sys.version_info >= (3, 14) or any(
            isinstance(node, ast.ImportFrom)
            and node.module == "__future__"
            and any(alias.name == "annotations" for alias in node.names)
            for node in body
        )

    def read(self) -> list[Missing]:
        module = [_Scope("module")]
        for statement in self._program.tree.body:
            self._visit(statement, module)
        while self._waiting:
            function, scopes = self._waiting.pop(0)
            self._body(function, scopes)
        return self._found

    def _visit(self, node: ast.AST, scopes: list[_Scope]) -> None:
        match node:
            case ast.Name(id=name, ctx=ast.Load()):
                self._load(name, node, scopes)
            case ast.Name(id=name, ctx=ast.Store()):
                self._bind(name, scopes)
            case ast.Name(id=name, ctx=ast.Del()):
                self._delete(name, node, scopes)
            case ast.Import() | ast.ImportFrom():
                for name, _ in bound_names([node]):
                    self._bind(name, scopes)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
                self._function(node, scopes)
            case ast.ClassDef():
                self._class(node, scopes)
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                self._comprehension(node, scopes)
            case ast.Assign():
                self._all([node.value, *node.targets], scopes)
            case ast.AugAssign(target=ast.Name(id=name)):
                self._load(name, node.target, scopes)
                self._all([node.value, node.target], scopes)
            case ast.AnnAssign():
                local = scopes[-1].kind == "function"
                annotation = [] if local or self._late_annotations else [node.annotation]
                target = [node.target] if node.value or not isinstance(node.target, ast.Name) else []
                self._all([*annotation, *filter(None, [node.value]), *target], scopes)
            case ast.For() | ast.AsyncFor():
                self._all([node.iter, node.target, *node.body, *node.orelse], scopes)
            case ast.NamedExpr():
                self._visit(node.value, scopes)
                while scopes[-1].kind == "comprehension":
                    scopes = scopes[:-1]
                self._visit(node.target, scopes)
            case ast.ExceptHandler() | ast.MatchAs() | ast.MatchStar() | ast.MatchMapping():
                taken = node.rest if isinstance(node, ast.MatchMapping) else node.name
                if taken:
                    self._bind(taken, scopes)
                self._all(ast.iter_child_nodes(node), scopes)
            case _:
                if type(node).__name__ == "TypeAlias":
                    self._bind(node.name.id, scopes)  # type: ignore[attr-defined]
                    return  # its value is evaluated at its first use
                self._all(ast.iter_child_nodes(node), scopes)

    def _all(self, nodes: Iterable[ast.AST], scopes: list[_Scope]) -> None:
        for node in nodes:
            self._visit(node, scopes)

    def _function(self, node: ast.AST, scopes: list[_Scope]) -> None:
        arguments: ast.arguments = node.args  # type: ignore[attr-defined]
        self._all(getattr(node, "decorator_list", ()), scopes)
        self._all([default for default in (*arguments.defaults, *arguments.kw_defaults) if default], scopes)
        typed = [*getattr(node, "type_params", ())]
        if not self._late_annotations and not typed:
            notes = [argument.annotation for argument in arguments_of(arguments)]
            self._all([note for note in (*notes, getattr(node, "returns", None)) if note], scopes)
        if name := getattr(node, "name", ""):
            self._bind(name, scopes)
        self._waiting.append((node, list(scopes)))

    def _body(self, node: ast.AST, scopes: list[_Scope]) -> None:
        body = node.body if isinstance(node.body, list) else [node.body]  # type: ignore[attr-defined]
        scope = _Scope("function")
        for inner in statements_of(body):
            if isinstance(inner, (ast.Global, ast.Nonlocal)):
                scope.outside |= set(inner.names) if isinstance(inner, ast.Global) else set()
        scope.bound = {name for name, _ in bound_names(body)} - scope.outside
        scope.bound |= {argument.arg for argument in arguments_of(node.args)}  # type: ignore[attr-defined]
        scope.bound |= {parameter.name for parameter in getattr(node, "type_params", ())}
        self._all(body, [*scopes, scope])

    def _class(self, node: ast.ClassDef, scopes: list[_Scope]) -> None:
        typed = _Scope("function", {parameter.name for parameter in getattr(node, "type_params", ())})
        around = [*scopes, typed] if typed.bound else scopes
        self._all([*node.decorator_list, *node.bases, *node.keywords], around)
        own = {name for name, _ in bound_names(node.body)}
        # __class__ is there for the methods
        scope = _Scope("class", own | {"__module__", "__qualname__"})
        self._all(node.body, [*around, _Scope("function", {"__class__"}), scope])
        self._bind(node.name, scopes)

    def _comprehension(self, node: ast.AST, scopes: list[_Scope]) -> None:
        generators: list[ast.comprehension] = node.generators  # type: ignore[attr-defined]
        self._visit(generators[0].iter, scopes)
        scope = _Scope("comprehension", {name for g in generators for name, _ in bound_names([g.target])})
        inside = [*scopes, scope]
        for number, generator in enumerate(generators):
            self._all([*([generator.iter] if number else []), *generator.ifs], inside)
        for name in ("key", "value", "elt"):
            if (part := getattr(node, name, None)) is not None:
                self._visit(part, inside)

    def _bind(self, name: str, scopes: list[_Scope]) -> None:
        if all(scope.kind == "module" or name in scope.outside for scope in scopes[-1:]):
            self._now.add(name)
            self._deleted.pop(name, None)

    def _delete(self, name: str, node: ast.Name, scopes: list[_Scope]) -> None:
        self._load(name, node, scopes)
        if scopes[-1].kind == "module" and self._program.places.get(node, Place()).always:
            self._now.discard(name)
            self._deleted[name] = node.lineno

    def _load(self, name: str, node: ast.expr, scopes: list[_Scope]) -> None:
        for scope in reversed(scopes[1:]):
            if name in scope.outside:
                break
            if name in scope.bound and (scope.kind != "class" or scope is scopes[-1]):
                return
        if name in self._now or name in self._free:
            return
        place = self._program.places.get(node, Place(always=False))
        if place.expected or any(map(_asks_for_python, place.conditions)):
            return
        here = len(scopes) == 1 or all(scope.kind == "class" for scope in scopes[1:])
        later = self._lines.get(name)
        if later is None:
            self._found.append(Missing(name=name, line=node.lineno, place=place))
        elif here and place.always:
            deleted = self._deleted.get(name)
            self._found.append(
                Missing(
                    name=name, line=node.lineno, place=place, later=deleted or later, deleted=bool(deleted)
                )
            )
