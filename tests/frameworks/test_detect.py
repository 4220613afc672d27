"""The framework that a cell imports, found without running it."""

from __future__ import annotations

import ast
import sys

import pytest

from nbdist.frameworks.environment import frameworks_of, imported_modules, is_installed


@pytest.mark.parametrize(
    ("source", "name"),
    [
        pytest.param("import torch", "torch", id="torch"),
        pytest.param("import torch.distributed as dist", "torch", id="a part of torch"),
        pytest.param("from torch.nn import Linear", "torch", id="a name of torch"),
        pytest.param("import os, paddle", "paddle", id="paddle among others"),
        pytest.param("from paddle.distributed import fleet", "paddle", id="a part of paddle"),
        pytest.param("def train():\n    import torch\n", "torch", id="inside a function"),
        pytest.param("if True:\n    import paddle\n", "paddle", id="inside a condition"),
        pytest.param("import paddle\nimport torch", "torch", id="both"),
        pytest.param("import torchvision", None, id="a name that only begins alike"),
        pytest.param("from . import torch", None, id="a neighbour of that name"),
        pytest.param("from .torch import x", None, id="a part of a neighbour"),
        pytest.param("torch = 'import torch'", None, id="a text that says so"),
        pytest.param("# import torch", None, id="a comment that says so"),
        pytest.param("try:\n    import torch\nexcept ImportError:\n    pass", None, id="one it can miss"),
        pytest.param("print(1)", None, id="none"),
        pytest.param("", None, id="an empty cell"),
    ],
)
def test_the_framework_of_a_cell_is_found(source: str, name: str | None) -> None:
    assert next(iter(frameworks_of(ast.parse(source))), None) == name


def test_every_module_that_a_program_needs_is_found() -> None:
    source = "import a.b, c\nfrom d.e import f\ntry:\n    import g\nexcept ImportError:\n    pass\n"

    assert imported_modules(ast.parse(source)) == ["a", "c", "d"]


@pytest.mark.parametrize(
    ("module", "installed"),
    [
        pytest.param("antigravity", True, id="of the standard library"),
        pytest.param("paddle", True, id="installed"),
        pytest.param("no_such_module_anywhere", False, id="not installed"),
    ],
)
def test_what_is_installed_is_found_without_importing_it(module: str, installed: bool) -> None:
    imported = module in sys.modules  # by another test

    assert is_installed(module) is installed
    assert (module in sys.modules) is imported
