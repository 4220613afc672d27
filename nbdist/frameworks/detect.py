"""Which frameworks a program imports, and whether they are there. Nothing is imported to find out."""

from __future__ import annotations

import ast
import importlib.util
import warnings
from collections.abc import Iterator

from nbdist.frameworks.base import Framework
from nbdist.frameworks.registry import FRAMEWORKS


def detect_framework(source: str) -> Framework | None:
    """The first framework that ``source`` imports; None when it imports none."""
    used = set(imported_modules(source))
    return next((framework for framework in FRAMEWORKS if framework.module in used), None)


def imported_modules(source: str) -> Iterator[str]:
    """The top-level modules that a program cannot do without: imported, and not inside a ``try``."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = ast.parse(source)
    yield from _imports(tree)


def is_installed(module: str) -> bool:
    """Whether ``import module`` would find something, for this interpreter and its path."""
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):
        return False


def _imports(node: ast.AST) -> Iterator[str]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in child.names)
        elif isinstance(child, ast.ImportFrom) and child.module and not child.level:
            yield child.module.partition(".")[0]
        elif not isinstance(child, ast.Try):
            yield from _imports(child)
