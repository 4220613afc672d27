"""A value that a rank got from another one's collective."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.diagnosis.clue_cells import cause_of

TESTS = """\
results = [None]
if trainer.is_global_zero:
    results = trainer.test(model)
dist.broadcast_object_list(results, src=0)
print(results[0]["test_acc"])
"""
NO_NUMBER = "string indices must be integers, not 'str'"


@pytest.mark.parametrize(
    ("kind", "message", "cell", "told"),
    [
        pytest.param("TypeError", NO_NUMBER, TESTS, True, id="by a trainer"),
        pytest.param(
            "TypeError", NO_NUMBER, TESTS.replace("trainer.test(model)", "gather(x)"), True, id="a collective"
        ),
        pytest.param("KeyError", "'test_acc'", TESTS, False, id="a key"),
        pytest.param("TypeError", NO_NUMBER, TESTS.replace("trainer.test(", "score("), False, id="alone"),
        pytest.param(
            "TypeError",
            NO_NUMBER,
            TESTS.replace("results = [", "own = Trainer(devices=1); results = ["),
            False,
            id="a trainer for one",
        ),
        pytest.param(
            "TypeError",
            NO_NUMBER,
            TESTS.replace("trainer.is_global_zero", "tests"),
            False,
            id="not by the rank",
        ),
        pytest.param(
            "TypeError", NO_NUMBER, TESTS.replace("print(results", "print(others"), False, id="not it"
        ),
    ],
)
def test_a_value_of_another_collective_is_told_by_the_if(
    tmp_path: Path, kind: str, message: str, cell: str, told: bool
) -> None:
    cause = cause_of(tmp_path, kind, message, 5, cell=cell)

    assert cause.startswith("results is not what broadcast_object_list (line 4) was given") is told
