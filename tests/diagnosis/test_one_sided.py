"""Values that one rank alone has right, and that all decide by."""

from __future__ import annotations

from pathlib import Path

import pytest

from nbdist.diagnosis.hangs.deadlocks import why
from nbdist.diagnosis.places import CodeLocation, Sources
from nbdist.diagnosis.sides import Side
from nbdist.diagnosis.signatures import Hint
from nbdist.store.reports import Call
from tests.fakes.directories import WrittenRun
from tests.fakes.runs import a_spec

SAVES = """\
def validate(loader):
    total = count(loader)
    {reduces}
    return total / 2
def fit():
    best = 9
    for epoch in range(9):
        loss = validate(loader)
        if {test}:
            barrier()
        train(epoch)
fit()
"""


def reason_in_fit(tmp_path: Path, cell: str, *waits: tuple[str, int]) -> Hint:
    """What parted ranks that wait in these calls at these lines of ``fit()``, which the last line calls."""
    written = WrittenRun(tmp_path / "home", cell=cell)
    last = (cell.count("\n"), "<module>")
    sides = [
        Side(
            ranks=(rank,),
            way=tuple(
                Call(file=a_spec().program, line=at, function=name) for at, name in (last, (line, "fit"))
            ),
            place=CodeLocation(line=line, what=what, waits=True),
        )
        for rank, (what, line) in enumerate(waits)
    ]
    found = why(sides, Sources.of(written.run, written.directory), {})
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("reduces", "test", "told"),
    [
        pytest.param("dist.reduce(total, dst=0)", "loss < best", True, id="to one rank"),
        pytest.param("dist.all_reduce(total)", "loss < best", False, id="to all ranks"),
        pytest.param("np.add.reduce(total)", "loss < best", False, id="no collective"),
        pytest.param("dist.reduce(total, 0); dist.broadcast(total, 0)", "loss < best", False, id="shared"),
        pytest.param("dist.reduce(total, 0)", "worse > best", False, id="not what is asked for"),
    ],
)
def test_a_sum_that_one_rank_alone_has_is_named(reduces: str, test: str, told: bool, tmp_path: Path) -> None:
    cell = SAVES.format(reduces=reduces, test=test)
    found = reason_in_fit(tmp_path, cell, ("barrier", 10), ("train", 11))

    assert found.signature == "hang-branch"
    assert ("reduce() at line 3 gives its sum to dst" in found.cause.en) is told
    assert found.fix.en.startswith("all_reduce() at line 3 in place of reduce()") is told


STOPS = """\
def fit():
    best, seen = 9, 0
    for epoch in range(9):
        loss = validate(loader)
        if rank == 0:
            print(loss)
            if loss < best:
                {sets}
        {sends}
        if epoch - seen > 3:
            break
        train(epoch)
    barrier()
fit()
"""


@pytest.mark.parametrize(
    ("sets", "sends", "told"),
    [
        pytest.param("best, seen = loss, epoch", "pass", True, id="on one rank"),
        pytest.param("best = loss", "pass", False, id="another value"),
        pytest.param("best, seen = loss, epoch", "dist.broadcast(seen, 0)", False, id="sent"),
        pytest.param("best, seen = loss, epoch", "seen = given(best)", False, id="set for all later"),
    ],
)
def test_a_value_that_one_rank_alone_sets_is_named(sets: str, sends: str, told: bool, tmp_path: Path) -> None:
    cell = STOPS.format(sets=sets, sends=sends)
    found = reason_in_fit(tmp_path, cell, ("train", 12), ("barrier", 13))

    assert found.signature == "hang-loop-left"
    assert ("seen is set on some ranks alone: line 8, within  if rank == 0:" in found.cause.en) is told
