"""Runs in a spawned child of a rank what it needs of the program: its definitions, not its training loop.

A child that ``multiprocessing`` spawns runs the parent's main file again, to find the classes and
functions it is sent. A script guards its work with ``if __name__ == "__main__"``; a cell hardly ever
does. So where the program has no such guard, the child runs its imports, functions and classes, and those
assignments whose names they use.
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
# a name that a function takes as a parameter or binds itself is none of the module's
_LOADS = frozenset({"LOAD_NAME", "LOAD_GLOBAL", "LOAD_FROM_DICT_OR_GLOBALS"})


def program() -> str:
    """Return the cell of this run, as a path."""
    return os.path.join(os.environ["NBDIST_RUN_DIR"], "cell.py")


def inputs() -> str:
    """Return where the names lie that the notebook gives this run, if it does."""
    return os.path.join(os.environ["NBDIST_RUN_DIR"], "inputs.box")


def install(spawn: ModuleType) -> None:
    """Let children start from ``spawned_main.py`` in place of a cell that has no guard, or that has names
    from the notebook: by the name of the file that a child runs first (``init_main_from_path``)."""
    prepare = spawn.get_preparation_data

    def get_preparation_data(name: str) -> dict[str, Any]:
        data: dict[str, Any] = prepare(name)
        own = data.get("init_main_from_path") == program()
        if own and (os.path.exists(inputs()) or not _is_guarded(program())):
            data["init_main_from_path"] = os.path.join(os.path.dirname(__file__), "spawned_main.py")
        return data

    spawn.get_preparation_data = get_preparation_data  # type: ignore[attr-defined]


def load(path: str, namespace: dict[str, Any]) -> None:
    """Run the definitions of the cell at ``path`` in ``namespace``, all of a cell that has a guard, with the
    names that the notebook gives it. An assignment that fails is passed over, since it may need what only a
    rank has (its process group, its device); a use of its name raises the NameError."""
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
    """Return the statements of a program that define something, and those its definitions lean on."""
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
    """Yield the globals that a statement may read, now or when what it defines is called."""
    for code in _codes(compile(ast.Module([statement], []), "<statement>", "exec")):
        for instruction in dis.get_instructions(code):
            if instruction.opname in _LOADS:
                yield instruction.argval


def _names_bound(statement: ast.stmt) -> set[str]:
    """Return the names an assignment changes, ``TABLE`` in ``TABLE["a"] = 1`` among them."""
    targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
    nodes = [node for target in targets if target for node in ast.walk(target)]
    return {node.id for node in nodes if isinstance(node, ast.Name)}


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _is_guarded(path: str) -> bool:
    """Return whether a child may run the program at ``path`` as it stands."""
    try:
        with open(path, "rb") as file:
            return _has_guard(ast.parse(file.read(), path))
    except (OSError, SyntaxError):
        return True


def _has_guard(tree: ast.Module) -> bool:
    """Return whether a top-level ``if`` compares ``__name__``."""
    return any(
        isinstance(statement, ast.If)
        and any(isinstance(node, ast.Name) and node.id == "__name__" for node in ast.walk(statement.test))
        for statement in tree.body
    )
