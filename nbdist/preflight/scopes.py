"""Names that a program uses but does not define, or not yet: by pyflakes' scopes and the order of execution.

In doubt a name counts as defined: a program that makes names untraceably (``exec``, ``globals()``, an unknown
star import) has none missing.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pyflakes import messages
from pyflakes.checker import Annotation, Checker, ClassScope, FunctionScope, Scope

from nbdist.preflight.missing_names import GIVEN, binds, bound_names
from nbdist.preflight.program import Place, Program

_OF_PYTHON_2 = frozenset({"basestring", "buffer", "cmp", "file", "long", "raw_input", "reduce", "reload"})
_OF_PYTHON_2 |= {"unichr", "unicode", "xrange"}
_PYTHONS = frozenset({"version_info", "PY2", "PY3", "hexversion", "python_version"})
_OPAQUE = frozenset({"exec", "execfile", "globals", "locals", "runpy.run_path", "runpy.run_module"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """A use of an undefined name. ``later`` is the line that defines it after this use, or ``deleted`` it
    before; None for no such line."""

    name: str
    line: int
    place: Place
    later: int | None = None
    deleted: bool = False


def missing_names(program: Program, stars: Iterable[str] | None = ()) -> list[Missing]:
    """Return the uses of names that ranks lack. ``stars`` are star imports' names; None if unknown."""
    if stars is None or _is_opaque(program):
        return []
    reader = _Reader(program.tree, GIVEN.union(stars))
    defined = _asked_for(program) | _made_by_global(program)
    if program.words >= {"sys", "version"} or not program.words.isdisjoint(_PYTHONS):
        defined |= _OF_PYTHON_2
    lines, unbound = _first_lines(program.tree), _unbound(program)
    missing = []
    for node, scopes in reader.uses:
        name, place = node.id, program.places.get(node, Place(always=False))
        if name in defined or place.expected or reader.is_local(name, scopes):
            continue
        inside = any(isinstance(scope, FunctionScope) for scope in scopes)
        deleted = max((line for line in unbound.get(name, ()) if line < node.lineno), default=0)
        if name not in lines and name not in unbound:
            missing.append(Missing(name=name, line=node.lineno, place=place))
        elif place.always and not inside and (deleted or name not in unbound):
            line, later = node.lineno, deleted or lines[name]
            missing.append(Missing(name=name, line=line, place=place, later=later, deleted=bool(deleted)))
    return missing


class _Reader(Checker):  # type: ignore[misc]
    """The uses of unbound names, with their scopes, which are complete in the end.

    It skips annotations that no rank evaluates. ``global`` binds nothing by itself.
    """

    NONLOCAL = Checker.ignore

    def __init__(self, tree: ast.Module, given: frozenset[str]) -> None:
        self.given = given
        self.uses: list[tuple[ast.Name, list[Scope]]] = []
        self.sent: dict[int, set[str]] = {}
        super().__init__(tree, withDoctest=False)

    @property
    def builtIns(self) -> frozenset[str]:
        return self.given

    @builtIns.setter
    def builtIns(self, names: object) -> None:
        """Ignore pyflakes' own: those of this process, and a kernel has more than a rank."""

    def GLOBAL(self, node: ast.Global) -> None:
        self.sent.setdefault(id(self.scope), set()).update(node.names)

    def is_local(self, name: str, scopes: list[Scope]) -> bool:
        """Return whether a scope around the use binds the name later, below the use or in a loop."""
        return any(
            name in scope and not isinstance(scope[name], Annotation)
            for scope in scopes
            if not isinstance(scope, ClassScope) or scope is scopes[-1]
            if name not in self.sent.get(id(scope), ())
        )

    def report(self, kind: type, *arguments: Any, **_: object) -> None:
        if kind in (messages.UndefinedName, messages.ImportStarUsage) and isinstance(arguments[0], ast.Name):
            self.uses.append((arguments[0], self.scopeStack[1:]))

    def handleStringAnnotation(self, *_: object) -> None: ...

    def handle_annotation_always_deferred(self, *_: object) -> None: ...

    def ANNASSIGN(self, node: ast.AnnAssign) -> None:
        if isinstance(self.scope, FunctionScope):
            self.handleNode(node.value, node)
            self.handleNode(node.target, node)
        else:
            super().ANNASSIGN(node)


def _first_lines(tree: ast.Module) -> dict[str, int]:
    """Return the first line that binds each module name; ``+=`` needs an earlier one."""
    targets = [node.target for node in ast.walk(tree) if _binds_nothing(node)]  # type: ignore[attr-defined]
    needed = {(target.id, target.lineno) for target in targets if isinstance(target, ast.Name)}
    lines: dict[str, int] = {}
    for name, line in bound_names(tree.body):
        if (name, line) not in needed:
            lines[name] = min(line, lines.get(name, line))
    return lines


def _binds_nothing(node: ast.AST) -> bool:
    return isinstance(node, ast.AugAssign) or (isinstance(node, ast.AnnAssign) and node.value is None)


def _made_by_global(program: Program) -> set[str]:
    """Return the names that functions make global and bind by more than ``+=``."""
    nodes = list(program.places)
    added = {node.target for node in nodes if _binds_nothing(node)}  # type: ignore[attr-defined]
    bound = {name for node in nodes if node not in added for name in binds(node)}
    return bound & {name for node in nodes if isinstance(node, ast.Global) for name in node.names}


def _unbound(program: Program) -> dict[str, list[int]]:
    """Return the names that ``del`` or ``except … as`` unbinds, with the lines of sure deletions."""
    lines: dict[str, list[int]] = {}
    for node, place in program.places.items():
        if isinstance(node, ast.ExceptHandler) and node.name:
            lines.setdefault(node.name, [])
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Del):
            sure = place.always and not place.function
            lines.setdefault(node.id, []).extend([node.lineno] if sure else [])
    return lines


def _asked_for(program: Program) -> set[object]:
    """Return the names in ``if "scaler" in dir()``."""
    return {
        node.left.value
        for node in program.places
        if isinstance(node, ast.Compare) and isinstance(node.left, ast.Constant)
    }


def _is_opaque(program: Program) -> bool:
    if any(call.name in _OPAQUE or (call.name == "vars" and not call.node.args) for call in program.calls):
        return True
    attributes = (node for node in program.places if isinstance(node, ast.Attribute))
    return program.mentions("__builtins__", "builtins") or any(
        program.dotted(node) == "sys.modules" for node in attributes
    )
