"""Texts of the environment that a program takes for numbers."""

from __future__ import annotations

import pytest

from nbdist.preflight import Situation, check

IMPORT = "import os\n"


def lines(cell: str) -> list[int | None]:
    return [one.line for one in check(IMPORT + cell, Situation()) if one.rule.name == "rank-is-text"]


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        pytest.param("rank = os.environ['RANK']\nif rank == 0: print()", [3], id="a name"),
        pytest.param("if os.environ['LOCAL_RANK'] == 0: print()", [2], id="itself"),
        pytest.param("r = os.getenv('PADDLE_TRAINER_ID', 0)\nprint(0 != r)", [3], id="the number first"),
        pytest.param("r = os.environ.get('RANK')\nprint(r in (0, 1))", [3], id="one of several"),
        pytest.param("rank = int(os.environ['RANK'])\nprint(rank == 0)", [], id="made a number"),
        pytest.param("rank = os.environ['RANK']\nprint(rank == '0')", [], id="with a text"),
        pytest.param(
            "rank = os.environ['RANK']\nrank = int(rank)\nprint(rank == 0)", [], id="made a number later"
        ),
        pytest.param(
            "rank = os.environ['RANK']\ndef f(rank):\n    return rank == 0",
            [],
            id="an argument of a function",
        ),
        pytest.param("flag = os.environ['DEBUG']\nprint(flag == 0)", [], id="another variable"),
    ],
)
def test_a_text_that_is_compared_with_a_number_is_told(cell: str, expected: list[int]) -> None:
    assert lines(cell) == expected
