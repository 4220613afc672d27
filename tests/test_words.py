"""The words of the code: docstrings begin with a verb or a noun, and names say what they hold."""

from __future__ import annotations

import ast
import subprocess
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.test_readme import ROOT

FORBIDDEN = ("What", "Whether", "Which", "Who", "Where", "When", "Of", "How", "Why", "With", "That")
VAGUE = ("one", "found", "said", "told", "asked", "there")
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


@pytest.fixture(scope="module")
def trees() -> dict[str, ast.Module]:
    """The parsed Python files of the repository, by path."""
    command = ["git", "ls-files", "--", "nbdist/*.py", "tests/*.py", "benchmarks/*.py", "notebooks/*.py"]
    paths = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT).stdout.split()
    return {path: ast.parse((ROOT / path).read_text(encoding="utf-8")) for path in paths}


def names_in(tree: ast.Module) -> Iterator[str]:
    """Yield the name of each variable and parameter, as often as it stands in the file."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg


def test_docstrings_begin_with_a_verb_or_a_noun(trees: dict[str, ast.Module]) -> None:
    docstrings = (
        (path, ast.get_docstring(node) or "")
        for path, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, DOCUMENTED)
    )

    assert [(path, text) for path, text in docstrings if text.split(" ")[0].rstrip(",") in FORBIDDEN] == []


def test_names_say_what_they_hold(trees: dict[str, ast.Module]) -> None:
    counts = Counter(name for tree in trees.values() for name in names_in(tree) if name in VAGUE)

    assert counts.total() < 100, counts


def test_no_two_modules_share_a_name(trees: dict[str, ast.Module]) -> None:
    names = Counter(
        path.rpartition("/")[2]
        for path in trees
        if path.startswith("nbdist/") and not path.endswith(("/__init__.py", "/__main__.py"))
    )

    assert [name for name, count in names.items() if count > 1] == []
