"""The points of a sweep, and the run of each."""

from __future__ import annotations

import pytest

from nbdist.model import RankSpec, RunSpec
from nbdist.model.spec import value_of
from nbdist.model.sweep import Sweep, filled, grid, names_in


@pytest.mark.parametrize(
    ("typed", "value"),
    [("64", 64), ("1e-3", 0.001), ("true", True), ("None", None), ("adam", "adam"), ("0x10", "0x10")],
)
def test_a_value_is_what_a_program_expects_of_it(typed: str, value: object) -> None:
    assert value_of(typed) == value
    assert type(value_of(typed)) is type(value)


def test_the_grid_has_every_combination_once() -> None:
    together = ({"lr": "0.1", "width": "64"}, {"lr": "0.01", "width": "128"})

    points = grid([together, ({"seed": "1"}, {"seed": "2"})])

    assert [tuple(point.values()) for point in points] == [
        ("0.1", "64", "1"),
        ("0.1", "64", "2"),
        ("0.01", "128", "1"),
        ("0.01", "128", "2"),
    ]


def test_names_in_braces_are_filled_and_others_stay() -> None:
    word = 'lr={lr},{{lr}},{other},{"a": 1}'

    assert names_in(word) == ["lr", "other"]
    assert filled(word, {"lr": "0.1"}) == 'lr=0.1,{lr},{other},{"a": 1}'


def test_each_point_has_a_run_of_its_own_and_a_sweep_comes_back_from_its_file() -> None:
    spec = RunSpec(
        run_id="20261123-120000-lenet-aaaa",
        name="lenet",
        created=1.0,
        program="/home/runs/20261123-120000-lenet-aaaa/cell.py",
        python="python",
        cwd="/",
        ranks=(RankSpec(rank=0, local_rank=0),),
        framework="none",
        backend="auto",
        args=("--lr", "{lr}"),
        checkpoints="/checkpoints/lenet-aaaa",
        detached=True,
    )
    sweep = Sweep(
        sweep_id="20261123-120000-lenet-bbbb",
        name="lenet",
        created=1.0,
        spec=spec,
        runs=("20261123-120000-lenet-1-cccc", "20261123-120000-lenet-2-dddd"),
        points=grid([({"lr": "0.1"}, {"lr": "0.01"})]),
        slots=(spec.ranks,),
    )

    run = sweep.run_of(1, created=2.0)

    assert (run.name, run.args) == ("lenet-2", ("--lr", "0.01"))
    assert run.program == "/home/runs/20261123-120000-lenet-2-dddd/cell.py"
    assert run.checkpoints == "/checkpoints/lenet-aaaa/2"
    assert not run.detached, "a run of a sweep ends with the process that starts it"
    assert run.sweep is not None
    assert run.sweep.values == {"lr": "0.01"}
    assert Sweep.from_dict(sweep.to_dict()) == sweep
    assert RunSpec.from_dict(run.to_dict()) == run
