"""What an ``if`` for some ranks made different on them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.diagnosis.failed_cells import cause_of

ON_RANK_0 = """\
def train():
    if rank == 0:
        steps = 5
    for step in range(3):
        print(steps)
"""
OF_MODULE = """\
if rank == 0:
    steps = 5
print(steps)
"""


@pytest.mark.parametrize(
    ("cell", "line", "lines"),
    [
        pytest.param(ON_RANK_0, 5, "3", id="in a function"),
        pytest.param(OF_MODULE, 3, "2", id="in the module"),
        pytest.param(
            ON_RANK_0.replace("    for", "    elif is_master:\n        steps = 6\n    for"),
            7,
            "3, 5",
            id="in two branches",
        ),
        pytest.param(OF_MODULE.replace("rank == 0", "verbose"), 3, "", id="an if that is not for ranks"),
        pytest.param("steps = 1\n" + OF_MODULE + "del steps\n", 4, "", id="set on all ranks, too"),
        pytest.param("if rank == 0:\n    steps = 5\n    print(steps)\n", 3, "", id="the same if"),
    ],
)
def test_a_name_that_some_ranks_alone_set_is_shown_with_the_if(
    tmp_path: Path, cell: str, line: int, lines: str
) -> None:
    kind, message = "NameError", "name 'steps' is not defined"

    function = "train" if cell.startswith("def train") else "<module>"
    cause = cause_of(tmp_path, kind, message, line, cell=cell, function=function)

    if lines:
        assert cause.startswith(f"steps is set only at line {lines}, where this rank does not come")
        assert "if rank == 0:" in cause
    else:
        assert cause == ""


def test_a_local_variable_is_shown_like_a_name_of_the_module(tmp_path: Path) -> None:
    message = "cannot access local variable 'steps' where it is not associated with a value"

    cause = cause_of(tmp_path, "UnboundLocalError", message, 5, cell=ON_RANK_0, function="train")

    assert cause.startswith("steps is set only at line 3")


MODELS = """\
model = Net()
if rank == 0:
    freeze(model)
    print(count(model))
model = DDP(model)
"""
DIFFER = "DDP expects same model across all ranks, but Rank 1 has 4 params, while rank 0 has 6"


@pytest.mark.parametrize(
    ("cell", "is_known"),
    [
        pytest.param(MODELS, True, id="layers frozen on rank 0 alone"),
        pytest.param(MODELS.replace("freeze(model)", "pass"), False, id="only a print"),
        pytest.param(MODELS.replace("rank == 0", "large"), False, id="an if that is not for ranks"),
    ],
)
def test_models_that_differ_are_shown_with_the_if_that_changed_one(
    tmp_path: Path, cell: str, is_known: bool
) -> None:
    cause = cause_of(tmp_path, "RuntimeError", DIFFER, 5, cell=cell)

    assert ("line 2" in cause and "if rank == 0:" in cause) is is_known
