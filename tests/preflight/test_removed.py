"""Names that a newer version of a framework has removed."""

from __future__ import annotations

import pytest

from nbdist.programs.removed import removed_name, removed_row


@pytest.mark.parametrize(
    ("error", "name"),
    [
        pytest.param("ModuleNotFoundError: No module named 'torch._six'", "torch._six", id="a module"),
        pytest.param(
            "ModuleNotFoundError: No module named 'paddle.fluid.layers'", "paddle.fluid", id="a part of one"
        ),
        pytest.param(
            "AttributeError: module 'torch.distributed' has no attribute 'deprecated'",
            "torch.distributed.deprecated",
            id="an attribute",
        ),
        pytest.param(
            "ImportError: cannot import name 'inf' from 'torch._six' (unknown location)",
            "torch._six",
            id="a name of a module",
        ),
    ],
)
def test_the_name_that_an_error_misses_has_its_row(error: str, name: str) -> None:
    row = removed_name(error)

    assert row["name"] == name


def test_the_longest_name_of_the_table_decides_what_to_write() -> None:
    row = removed_row("paddle.fluid.dygraph.nn.Conv2D.forward")

    assert row.instead == "paddle.nn.Conv2D"


def test_a_name_that_was_never_there_has_no_row() -> None:
    assert removed_name("ModuleNotFoundError: No module named 'mine'") is None
    assert removed_row("torchvision.fluid") is None
