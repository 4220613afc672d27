"""Checks of names: those that nothing defines, and those that a newer version has removed.

For an undefined name the check says where the notebook has it from, and what to do about it. Values are
looked at only by their type and module, never copied: ranks are processes of their own, and what a cell needs
it should say itself.
"""

from __future__ import annotations

import ast
import difflib
import importlib.machinery
import os
import re
import sys
import types
import warnings
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, lru_cache

from nbdist.preflight.finding import Finding, Origin, Situation, found
from nbdist.preflight.machine import at_least
from nbdist.preflight.program import Place, Program
from nbdist.preflight.scopes import GIVEN, NOTEBOOK_BUILTINS, Missing, bound_names, missing_names
from nbdist.programs.removed import is_within, parts_of, rows
from nbdist.tables import read_table

_SHOWN = 4


def check_removed(program: Program, situation: Situation) -> list[Finding]:
    uses = _uses(program)
    findings = _of_module(uses, "paddle.fluid", parts_of("fluid"), "fluid", situation)
    if any(name.partition(".")[0] == "apex" for name, _, _ in uses) and not situation.installed("apex"):
        findings += _of_module(uses, "apex", parts_of("apex"), "apex", situation)
    seen: set[str] = set()
    for name, line, place in uses:
        for old, package, since, instead in rows():
            if is_within(name, old) and old not in seen:
                version = _version(package, situation)
                if version is None or not at_least(version, since):
                    continue
                seen.add(old)
                values = {"said": old, "package": package, "version": version, "instead": instead}
                findings.append(found("removed", line, place.always, **values))
    return findings


def _of_module(
    uses: list[tuple[str, int, Place]], module: str, table: dict[str, str], rule: str, situation: Situation
) -> list[Finding]:
    """One finding for a module that is gone, with what to write for those of its parts that are used."""
    inside = [use for use in uses if is_within(use[0], module)]
    if not inside:
        return []
    version = _version("paddlepaddle", situation) if rule == "fluid" else ""
    if version is None or (rule == "fluid" and not at_least(version, "2.5")):
        return []
    used = {old: table[old] for name, _, _ in inside if (old := _row(name.removeprefix(f"{module}."), table))}
    said = [f"{old} → {new}" for old, new in used.items()]
    left, listed = len(said) - _SHOWN, "; ".join(said[:_SHOWN])
    new = "paddle.nn, paddle.io" if rule == "fluid" else "torch.amp, torch.nn.parallel"
    what = f"{listed}, and {left} more" if left > 0 else listed or f"write it with  {new}"
    what_zh = f"{listed}，另有 {left} 处" if left > 0 else listed or f"改用  {new}"
    _, line, place = inside[0]
    return [found(rule, line, place.always, version=version or "", instead=what, instead_zh=what_zh)]


def _row(name: str, table: dict[str, str]) -> str:
    """The entry of a table that ``name`` is, or is a part of."""
    return next((old for old in table if is_within(name, old)), "")


def _uses(program: Program) -> list[tuple[str, int, Place]]:
    """Every dotted name that is imported or used, in the order of the lines; the whole of each chain."""
    found = [
        (name.removesuffix(".*"), statement.lineno, program.places[statement])
        for name, statement in program.imports()
    ]
    inner = {id(node.value) for node in program.places if isinstance(node, ast.Attribute)}
    for node, place in program.places.items():
        if isinstance(node, (ast.Attribute, ast.Name)) and id(node) not in inner:
            name = program.dotted(node)
            if _root(node) in program.several:
                continue
            if "." in name and isinstance(node.ctx, ast.Load) and not place.attempted:
                found.append((name, node.lineno, place))
    # a condition may ask for the version
    found = [use for use in found if use[2].plain]
    return sorted(found, key=lambda use: (use[1], use[0]))


def _root(node: ast.expr) -> str:
    """The name that a chain of attributes begins with."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _version(package: str, situation: Situation) -> str | None:
    if package == "python":
        return f"{sys.version_info[0]}.{sys.version_info[1]}"
    if package == "paddlepaddle":
        build = situation.build("paddle")
        return build.version if build is not None else None
    return situation.version(package)


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
        renamed = "" if value.__name__ == name else f" as {name}"
        return Origin(kind="import", code=f"import {value.__name__}{renamed}", cell=number)
    if callable(value) and hasattr(value, "__name__") and hasattr(value, "__module__"):
        module = str(value.__module__ or "")
        if statement is None and module and module not in ("__main__", "builtins"):
            renamed = "" if value.__name__ == name else f" as {name}"
            code = f"from {module} import {value.__name__}{renamed}"
            return Origin(kind="import", code=code, cell=number)
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
    statements = list(_parsed(cell))
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


@lru_cache(maxsize=4)
def _parsed(source: str) -> list[ast.stmt]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(source).body
    except (SyntaxError, ValueError, RecursionError):
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


_KERNEL = NOTEBOOK_BUILTINS | {"In", "Out", "_", "__", "___", "_ih", "_oh", "_dh"}
_BIG = 100_000
_FEW_NAMES = 4


def check_names(program: Program, situation: Situation, path: Sequence[str] = ()) -> list[Finding]:
    """A finding for each name, in the order of the lines. ``path`` is where ranks find modules."""
    first: dict[str, Missing] = {}
    uses: dict[str, int] = {}
    for missing in missing_names(program, _from_stars(program, path)):
        if missing.name in situation.given:
            continue
        if missing.name == "fluid" and situation.build("paddle") is not None:
            continue  # said with what to write today
        uses[missing.name] = uses.get(missing.name, 0) + 1
        known = first.get(missing.name)
        if known is None or (missing.place.always, -missing.line) > (known.place.always, -known.line):
            first[missing.name] = missing
    return [_finding(missing, program, situation) for missing in first.values()]


def undefined_names(source: ast.Module, path: Sequence[str] = ()) -> list[str]:
    """The names that a program uses and does not define, in the order of their first uses. ``path`` is where
    ranks find modules. Raises nothing for a program that cannot be followed: then there are none."""
    try:
        program = Program.of(source)
        missing = missing_names(program, _from_stars(program, path))
    except RecursionError:
        return []
    missing.sort(key=lambda one: one.line)
    return list(dict.fromkeys(one.name for one in missing if not one.deleted and one.name not in _KERNEL))


def _finding(missing: Missing, program: Program, situation: Situation) -> Finding:
    values = {"name": missing.name, "line": str(missing.later or "")}
    if missing.deleted:
        rule = "name-deleted"
    elif missing.name in _KERNEL:
        rule = "name-of-the-kernel"
    elif (origin := situation.origin(missing.name)) is not None:
        rule = _rule_of(origin)
        values |= {"code": origin.code, "type": origin.type, **_cell_values(origin)}
    elif missing.later is not None and missing.later > missing.line:
        rule = "name-too-early"
    else:
        rule, more = _unknown(missing.name, program)
        values |= more
    return found(rule, missing.line, missing.place.always, **values)


def _rule_of(origin: Origin) -> str:
    if origin.kind == "data":
        return "name-of-short-data" if origin.code else "name-of-data"
    return {"import": "name-imported", "definition": "name-defined", "ranks": "name-of-ranks"}[origin.kind]


def _cell_values(origin: Origin) -> dict[str, str]:
    if origin.cell is None:
        return {"cell": "the notebook", "cell_zh": "笔记本"}
    return {"cell": f"cell [{origin.cell}] of the notebook", "cell_zh": f"笔记本的单元 [{origin.cell}]"}


@cache
def _imports() -> dict[str, dict[str, str]]:
    return read_table(__file__, "imports")


def _unknown(name: str, program: Program) -> tuple[str, dict[str, str]]:
    known = _imports()
    common = known["paddle" if program.uses("paddle") and not program.uses("torch") else "torch"]
    if (code := common.get(name) or known["any"].get(name)) is not None:
        return "name-not-imported", {"code": code}
    own = {bound for bound, _ in bound_names(program.tree.body)} - {name}
    # a short name is near to many builtins
    own |= GIVEN if len(name) > _FEW_NAMES else set()
    near = difflib.get_close_matches(name, own, n=1, cutoff=0.8) if len(name) > 2 else []
    return ("name-misspelt", {"near": near[0]}) if near else ("name-unknown", {})


def _from_stars(program: Program, path: Sequence[str]) -> Iterable[str] | None:
    """The names that star imports bring, read from the modules' files; None when one cannot be read."""
    found: set[str] = set()
    for node in ast.walk(program.tree):
        if isinstance(node, ast.ImportFrom) and any(alias.name == "*" for alias in node.names):
            names = _public_names(node.module or "", path) if not node.level else None
            if names is None:
                return None
            found |= names
    return found


def _public_names(module: str, path: Sequence[str]) -> set[str] | None:
    """What a small Python file offers; None for everything else, which would have to be imported."""
    if "." in module:
        return None
    try:
        spec = importlib.machinery.PathFinder.find_spec(module, list(path) or None)
        if spec is None or not spec.origin or not spec.origin.endswith(".py"):
            return None
        if os.path.getsize(spec.origin) > _BIG:
            return None
        with open(spec.origin, "rb") as file:
            inner = Program.of(file.read().decode())
    except (OSError, SyntaxError, ValueError, ImportError):
        return None
    if inner.mentions("__all__", "__getattr__", "globals", "exec", "*"):
        return None
    stars = any(isinstance(n, ast.ImportFrom) and n.names[0].name == "*" for n in inner.tree.body)
    names = {name for name, _ in bound_names(inner.tree.body)}
    return None if stars else {name for name in names if not name.startswith("_")}
