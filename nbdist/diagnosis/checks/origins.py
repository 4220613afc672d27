"""Where a notebook has a name from: its namespace, and the cells that it has run.

Values are looked at only by their type and module, never copied: ranks are processes of their own, and
what a cell needs it should say itself.
"""

from __future__ import annotations

import ast
import re
import types
import warnings
from collections.abc import Mapping, Sequence

from nbdist.diagnosis.checks.bindings import bound_names
from nbdist.diagnosis.checks.situation import Origin

_SHORT = 60
_MOST_CELLS = 400
_MAGIC = "run_cell_magic"
_RUN_IN_KERNEL = ("time", "capture")


def origin_of(name: str, namespace: Mapping[str, object], cells: Sequence[str]) -> Origin | None:
    """Where ``name`` comes from; None when the notebook does not have it.

    ``cells`` are the inputs of the notebook by their numbers, as IPython has turned them into Python.
    """
    number, statement = _maker(name, cells)
    if name not in namespace:
        return _of_ranks(name, cells)
    value = namespace[name]
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        return Origin(kind="import", code=_import(statement, name), cell=number)
    if isinstance(value, types.ModuleType):
        return Origin(kind="import", code=_import_of(value.__name__, name), cell=number)
    if callable(value) and hasattr(value, "__name__") and hasattr(value, "__module__"):
        module = str(value.__module__ or "")
        if statement is None and module and module not in ("__main__", "builtins"):
            return Origin(kind="import", code=_from(module, str(value.__name__), name), cell=number)
    if isinstance(value, (types.FunctionType, type)):
        return Origin(kind="definition", cell=number, type="class" if isinstance(value, type) else "function")
    return Origin(kind="data", code=_short(statement), cell=number, type=type(value).__name__)


def _maker(name: str, cells: Sequence[str]) -> tuple[int | None, ast.stmt | None]:
    """The latest cell that binds ``name``, and the statement that does."""
    word = re.compile(rf"\b{re.escape(name)}\b")
    for number in range(len(cells) - 1, max(-1, len(cells) - _MOST_CELLS), -1):
        if not word.search(cells[number]):
            continue
        for statement in reversed(_of_kernel(cells[number])):
            if name in {bound for bound, _ in bound_names([statement])}:
                return number, statement
    return None, None


def _of_ranks(name: str, cells: Sequence[str]) -> Origin | None:
    """An earlier cell of ranks that had the name: its processes have ended, and it with them."""
    for number in range(len(cells) - 1, max(-1, len(cells) - _MOST_CELLS), -1):
        if _MAGIC in cells[number] and name in cells[number]:
            inner = _parsed(_program_of("distributed", _parsed(cells[number])))
            if name in {bound for bound, _ in bound_names(inner)}:
                return Origin(kind="ranks", cell=number)
    return None


def _of_kernel(cell: str) -> list[ast.stmt]:
    """What a cell lets the kernel run, in a magic that runs it, too."""
    statements = _parsed(cell)
    for magic in _RUN_IN_KERNEL if _MAGIC in cell else ():
        statements += _parsed(_program_of(magic, statements))
    return statements


def _program_of(magic: str, statements: Sequence[ast.stmt]) -> str:
    """The program in ``get_ipython().run_cell_magic('distributed', '-n 2', 'import torch…')``."""
    for node in (n for statement in statements for n in ast.walk(statement)):
        match node:
            case ast.Call(
                func=ast.Attribute(attr="run_cell_magic"),
                args=[ast.Constant(value=name), _, ast.Constant(value=str(text))],
            ) if name == magic:
                return text
    return ""


def _parsed(source: str) -> list[ast.stmt]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(source).body
    except (SyntaxError, ValueError):
        return []


def _import(statement: ast.Import | ast.ImportFrom, name: str) -> str:
    """The one import out of a statement that brings ``name``."""
    for alias in statement.names:
        if (alias.asname or alias.name.partition(".")[0]) == name:
            renamed = f" as {alias.asname}" if alias.asname else ""
            if isinstance(statement, ast.Import):
                return f"import {alias.name}{renamed}"
            return f"from {'.' * statement.level}{statement.module or ''} import {alias.name}{renamed}"
    return ast.unparse(statement)


def _import_of(module: str, name: str) -> str:
    return f"import {module}" if module == name else f"import {module} as {name}"


def _from(module: str, own: str, name: str) -> str:
    return f"from {module} import {own}" + (f" as {name}" if name != own else "")


def _short(statement: ast.stmt | None) -> str:
    """The statement, where it is an assignment that can be written down in the cell as it stands."""
    if not isinstance(statement, ast.Assign) or any(
        isinstance(n, ast.Call) for n in ast.walk(statement.value)
    ):
        return ""
    if any(isinstance(n, ast.Name) for n in ast.walk(statement.value)):
        return ""
    text = ast.unparse(statement)
    return text if len(text) <= _SHORT else ""
