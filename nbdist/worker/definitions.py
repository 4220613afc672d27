"""Runs a cell's definitions in a spawned child of a rank, and not its training loop.

A child that ``multiprocessing`` spawns runs the parent's main file again, to find the classes and functions
that it receives. A script guards its work with ``if __name__ == "__main__"``, a cell rarely does. Without
that guard the child runs the imports, functions and classes, and the assignments whose names they use.
"""

from __future__ import annotations

import ast
import dis
import os
from collections.abc import Iterator
from types import CodeType, ModuleType
from typing import Any

_DEFINITION = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_ASSIGNMENT = (ast.Assign, ast.AnnAssign, ast.AugAssign)
# not LOAD_FAST: a parameter or a local of a function is no global of the module
_LOADS = frozenset({"LOAD_NAME", "LOAD_GLOBAL", "LOAD_FROM_DICT_OR_GLOBALS"})


def program() -> str:
    """Return the path of this run's cell."""
    return os.path.join(os.environ["NBDIST_RUN_DIR"], "cell.py")


def inputs() -> str:
    """Return the path of the names that the notebook pushes into this run; the file need not exist."""
    return os.path.join(os.environ["NBDIST_RUN_DIR"], "inputs.box")


def install(spawn: ModuleType) -> None:
    """Let children run ``spawned_main.py`` instead of the cell."""
    prepare = spawn.get_preparation_data

    def get_preparation_data(name: str) -> dict[str, Any]:
        data: dict[str, Any] = prepare(name)
        if data.get("init_main_from_path") == program():
            data["init_main_from_path"] = os.path.join(os.path.dirname(__file__), "spawned_main.py")
        return data

    spawn.get_preparation_data = get_preparation_data  # type: ignore[attr-defined]


def load(path: str, namespace: dict[str, Any]) -> None:
    """Run the definitions of the cell at ``path`` in ``namespace``, or all of a cell with a guard. Skip an
    assignment that fails, since it may need a rank's process group or device; using its name raises."""
    with open(path, "rb") as file:
        tree = ast.parse(file.read(), path)
    namespace["__file__"] = path
    if os.path.exists(inputs()):
        from nbdist.values.box import bring

        bring(inputs(), namespace)
    if _has_guard(tree):
        exec(compile(tree, path, "exec", dont_inherit=True), namespace)
        return
    for statement in select(tree):
        code = compile(ast.Module([statement], []), path, "exec", dont_inherit=True)
        try:
            exec(code, namespace)
        except Exception:
            if not isinstance(statement, _ASSIGNMENT):
                raise


def select(tree: ast.Module) -> list[ast.stmt]:
    """Return the definitions of a program, and the assignments that they need."""
    chosen = {index for index, statement in enumerate(tree.body) if _defines(statement)}
    grown = len(chosen)
    while grown:
        wanted = {name for index in chosen for name in _names_read(tree.body[index])}
        more = {
            index
            for index, statement in enumerate(tree.body)
            if isinstance(statement, _ASSIGNMENT) and _names_bound(statement) & wanted
        }
        grown = len(more - chosen)
        chosen |= more
    return [tree.body[index] for index in sorted(chosen)]


def _defines(statement: ast.stmt) -> bool:
    """Return whether it is a definition, or an ``if`` or ``try`` around definitions and assignments alone."""
    if isinstance(statement, _DEFINITION):
        return True
    if isinstance(statement, (ast.If, ast.Try)):
        inner = [s for s in ast.iter_child_nodes(statement) if isinstance(s, ast.stmt)]
        inner += [s for handler in getattr(statement, "handlers", ()) for s in handler.body]
        plain = (*_ASSIGNMENT, ast.Pass)
        return any(map(_defines, inner)) and all(_defines(s) or isinstance(s, plain) for s in inner)
    return False


def _names_read(statement: ast.stmt) -> Iterator[str]:
    """Yield the globals that a statement, or a function in it, may read."""
    for code in _codes(compile(ast.Module([statement], []), "<statement>", "exec")):
        for instruction in dis.get_instructions(code):
            if instruction.opname in _LOADS:
                yield instruction.argval


def _names_bound(statement: ast.stmt) -> set[str]:
    """Return the names that an assignment changes, such as ``TABLE`` in ``TABLE["a"] = 1``."""
    targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
    nodes = [node for target in targets if target for node in ast.walk(target)]
    return {node.id for node in nodes if isinstance(node, ast.Name)}


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _has_guard(tree: ast.Module) -> bool:
    """Return whether a top-level ``if`` compares ``__name__``."""
    return any(
        isinstance(statement, ast.If)
        and any(isinstance(node, ast.Name) and node.id == "__name__" for node in ast.walk(statement.test))
        for statement in tree.body
    )
