"""Names that nothing in a program defines, and their source in the notebook.

A check reads the type and module of the notebook's values and copies none: ranks are separate processes, and
a cell should name its needs.
"""

from __future__ import annotations

import ast
import builtins
import difflib
import importlib.machinery
import os
import re
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from nbdist.preflight.finding import Finding, Origin, Situation, finding_of, imports
from nbdist.preflight.program import Program
from nbdist.programs.sources import parsed

if TYPE_CHECKING:
    from nbdist.preflight.scopes import Missing

# IPython's additions to its own builtins, which no rank has
NOTEBOOK_BUILTINS = frozenset({"get_ipython", "__IPYTHON__"})
_OF_MODULES = (
    "name",
    "file",
    "doc",
    "spec",
    "package",
    "loader",
    "cached",
    "annotations",
    "module",
    "qualname",
)
GIVEN = (frozenset(dir(builtins)) - NOTEBOOK_BUILTINS).union(
    ["display", "update_display", "WindowsError", "__builtins__"], (f"__{name}__" for name in _OF_MODULES)
)
"""Names that every program has."""
_KERNEL = NOTEBOOK_BUILTINS | {"In", "Out", "_", "__", "___", "_ih", "_oh", "_dh"}
_BIG = 100_000
_FEW_LETTERS = 4
_SHORT = 60
_MOST_CELLS = 400
_MAGIC = "run_cell_magic"
_RUN_IN_KERNEL = ("time", "capture")
_RULES = {"import": "name-imported", "definition": "name-defined", "ranks": "name-of-ranks"}


def check_names(program: Program, situation: Situation, path: Sequence[str] = ()) -> list[Finding]:
    """Return a finding for each name, in line order. ``path`` is where ranks find modules."""
    first: dict[str, Missing] = {}
    for missing in _missing(program, path):
        # fluid alone is a removed name
        if missing.name in situation.given or (missing.name == "fluid" and situation.build("paddle")):
            continue
        known = first.get(missing.name)
        if known is None or (missing.place.always, -missing.line) > (known.place.always, -known.line):
            first[missing.name] = missing
    return [_finding(missing, program, situation) for missing in first.values()]


def undefined_names(source: ast.Module, path: Sequence[str] = ()) -> list[str]:
    """Return the undefined names of a program in order of use; none if it nests too deeply."""
    try:
        missing = _missing(Program.of(source), path)
    except RecursionError:
        return []
    missing.sort(key=lambda use: use.line)
    return list(dict.fromkeys(use.name for use in missing if not use.deleted and use.name not in _KERNEL))


def _missing(program: Program, path: Sequence[str]) -> list[Missing]:
    # pyflakes, which %load_ext does without
    from nbdist.preflight.scopes import missing_names

    return missing_names(program, _from_stars(program, path))


def _finding(missing: Missing, program: Program, situation: Situation) -> Finding:
    values = {"name": missing.name, "line": str(missing.later or "")}
    if missing.deleted:
        rule = "name-deleted"
    elif missing.name in _KERNEL:
        rule = "name-of-the-kernel"
    elif (origin := situation.origin(missing.name)) is not None:
        rule = _RULES.get(origin.kind) or ("name-of-short-data" if origin.code else "name-of-data")
        cell = ("the notebook", "笔记本")
        if origin.cell is not None:
            cell = (f"cell [{origin.cell}] of the notebook", f"笔记本的单元格 [{origin.cell}]")
        values |= {"code": origin.code, "type": origin.type, "cell": cell[0], "cell_zh": cell[1]}
    elif missing.later is not None and missing.later > missing.line:
        rule = "name-too-early"
    else:
        rule, more = _unknown(missing.name, program)
        values |= more
    return finding_of(rule, missing.line, missing.place.always, **values)


def _unknown(name: str, program: Program) -> tuple[str, dict[str, str]]:
    framework = "paddle" if program.uses("paddle") and not program.uses("torch") else "torch"
    if code := imports(framework).get(name):
        return "name-not-imported", {"code": code}
    own = {bound for bound, _ in bound_names(program.tree.body)} - {name}
    # a short name resembles many builtins
    own |= GIVEN if len(name) > _FEW_LETTERS else set()
    near = difflib.get_close_matches(name, own, n=1, cutoff=0.8) if len(name) > 2 else []
    return ("name-misspelt", {"near": near[0]}) if near else ("name-unknown", {})


def _from_stars(program: Program, path: Sequence[str]) -> set[str] | None:
    """Return the names that star imports bring, by the modules' files; None if one is unknown."""
    names: set[str] = set()
    for node in ast.walk(program.tree):
        if isinstance(node, ast.ImportFrom) and any(alias.name == "*" for alias in node.names):
            public = _public_names(node.module or "", path) if not node.level else None
            if public is None:
                return None
            names |= public
    return names


def _public_names(module: str, path: Sequence[str]) -> set[str] | None:
    """Return the public names of a small Python file; None for any module that must be imported."""
    try:
        spec = importlib.machinery.PathFinder.find_spec(module, list(path) or None)
        if spec is None or not spec.origin or not spec.origin.endswith(".py") or "." in module:
            return None
        if os.path.getsize(spec.origin) > _BIG:
            return None
        with open(spec.origin, "rb") as file:
            inner = Program.of(file.read().decode())
    except (OSError, SyntaxError, ValueError, ImportError):
        return None
    stars = any(isinstance(node, ast.ImportFrom) and node.names[0].name == "*" for node in inner.tree.body)
    if stars or inner.mentions("__all__", "__getattr__", "globals", "exec", "*"):
        return None
    return {name for name, _ in bound_names(inner.tree.body) if not name.startswith("_")}


def origin_of(name: str, namespace: Mapping[str, object], cells: Sequence[str]) -> Origin | None:
    """Return the source of ``name``; None if the notebook has none. ``cells``: inputs by number."""
    if name not in namespace:
        return _of_ranks(name, cells)
    number, statement = _maker(name, cells)
    value = namespace[name]
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        return Origin(kind="import", code=_import(statement, name), cell=number)
    if isinstance(value, types.ModuleType) or callable(value):
        own, module = getattr(value, "__name__", ""), str(getattr(value, "__module__", None) or "")
        renamed = "" if own == name else f" as {name}"
        if isinstance(value, types.ModuleType):
            return Origin(kind="import", code=f"import {own}{renamed}", cell=number)
        if own and statement is None and module not in ("", "__main__", "builtins"):
            return Origin(kind="import", code=f"from {module} import {own}{renamed}", cell=number)
    if isinstance(value, (types.FunctionType, type)):
        return Origin(kind="definition", cell=number, type="class" if isinstance(value, type) else "function")
    return Origin(kind="data", code=_short(statement), cell=number, type=type(value).__name__)


def _with_name(name: str, cells: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Yield the cells that contain the name with their numbers, the latest first."""
    word = re.compile(rf"\b{re.escape(name)}\b")
    for number in range(len(cells) - 1, max(-1, len(cells) - _MOST_CELLS), -1):
        if word.search(cells[number]):
            yield number, cells[number]


def _maker(name: str, cells: Sequence[str]) -> tuple[int | None, ast.stmt | None]:
    """Return the latest cell that binds ``name``, and its statement."""
    for number, cell in _with_name(name, cells):
        for statement in reversed(_of_kernel(cell)):
            if name in {bound for bound, _ in bound_names([statement])}:
                return number, statement
    return None, None


def _of_ranks(name: str, cells: Sequence[str]) -> Origin | None:
    """Return an earlier cell of ranks that bound the name; its processes have ended."""
    for number, cell in _with_name(name, cells):
        inner = parsed(_program_of("distributed", parsed(cell).body)).body if _MAGIC in cell else []
        if name in {bound for bound, _ in bound_names(inner)}:
            return Origin(kind="ranks", cell=number)
    return None


def _of_kernel(cell: str) -> list[ast.stmt]:
    """Return the statements that the kernel runs, including those in magics that it runs."""
    statements = list(parsed(cell).body)
    for magic in _RUN_IN_KERNEL if _MAGIC in cell else ():
        statements += parsed(_program_of(magic, statements)).body
    return statements


def _program_of(magic: str, statements: Sequence[ast.stmt]) -> str:
    """Return the program in ``get_ipython().run_cell_magic('distributed', '-n 2', 'import torch…')``."""
    for node in (node for statement in statements for node in ast.walk(statement)):
        match node:
            case ast.Call(
                func=ast.Attribute(attr="run_cell_magic"),
                args=[ast.Constant(value=name), _, ast.Constant(value=str(text))],
            ) if name == magic:
                return text
    return ""


def _import(statement: ast.Import | ast.ImportFrom, name: str) -> str:
    """Return the one import of a statement that binds ``name``."""
    for alias in statement.names:
        if (alias.asname or alias.name.partition(".")[0]) == name:
            renamed = f" as {alias.asname}" if alias.asname else ""
            if isinstance(statement, ast.Import):
                return f"import {alias.name}{renamed}"
            return f"from {'.' * statement.level}{statement.module or ''} import {alias.name}{renamed}"
    return ast.unparse(statement)


def _short(statement: ast.stmt | None) -> str:
    """Return a short assignment of constants, as it stands; empty for any other statement."""
    if not isinstance(statement, ast.Assign):
        return ""
    needs = any(isinstance(node, (ast.Call, ast.Name)) for node in ast.walk(statement.value))
    text = ast.unparse(statement)
    return text if len(text) <= _SHORT and not needs else ""


def bound_names(statements: Iterable[ast.AST]) -> Iterator[tuple[str, int]]:
    """Yield the names that statements bind in their own scope, each with a line."""
    queue = list(statements)
    while queue:
        node = queue.pop()
        yield from ((name, node.lineno) for name in binds(node))  # type: ignore[attr-defined]
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                queue += node.decorator_list
            case ast.Lambda():
                pass
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                # only := leaves a comprehension
                queue += [inner.target for inner in ast.walk(node) if isinstance(inner, ast.NamedExpr)]
            case _:
                queue += ast.iter_child_nodes(node)


def binds(node: ast.AST) -> Iterator[str]:
    """Yield the names that this node itself binds."""
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
            yield name
        case ast.Import() | ast.ImportFrom():
            yield from (alias.asname or alias.name.partition(".")[0] for alias in node.names)
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)):
            yield name
        case ast.MatchStar(name=str(name)) | ast.MatchMapping(rest=str(name)):
            yield name
