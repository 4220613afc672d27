"""Ranks that have left a loop, and others in a loop within it, or at a message that nothing sends."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.diagnosis.hang_cells import a_program, a_side, reason

EPOCH = """\
def windows(batch):
    for at in range(0, batch.size(1), 24):
        yield batch[:, at : at + 24]
def listed(batch):
    return [batch]
for batch in loader:
    prepare(batch)
    {0}
        backward(part)
barrier()
"""
WITHIN = (
    "rank 1 left the loop of line 6, rank 0 not: fewer rounds of it, or of line 8 within, which the data"
    " decide:  {0}"
)


@pytest.mark.parametrize(
    ("head", "told"),
    [
        pytest.param("for part in windows(batch):", True, id="a generator of the program"),
        pytest.param("for part in enumerate(windows(batch)):", True, id="that is counted"),
        pytest.param("for at in range(0, batch.size(1), 24):", True, id="by the size of a batch"),
        pytest.param("for part in batch.split(24):", True, id="the parts of a batch"),
        pytest.param("while ids.size(1) < most:", True, id="as long as there are too few"),
        pytest.param("for part in listed(batch):", False, id="a function that gives a list"),
        pytest.param("for at in range(STEPS):", False, id="a given number"),
        pytest.param("for part in parts:", False, id="a name"),
        pytest.param("while at < most:", False, id="a count"),
    ],
)
def test_a_loop_within_whose_rounds_the_data_decide_is_told(head: str, told: bool, tmp_path: Path) -> None:
    sides = a_side((0,), "backward", 9), a_side((1,), "barrier", 10)

    cause = reason(a_program(tmp_path, EPOCH.format(head)), *sides).cause.en

    assert cause.endswith(WITHIN.format(head)) is told


SUMS = """\
for name in {0}:
    reduce(losses[name])
backward(losses)
"""


@pytest.mark.parametrize(
    ("over", "told"),
    [("sorted(losses)", True), ("losses.items()", True), ("names", False), ("read(names)", False)],
)
def test_a_loop_over_what_may_have_other_entries_is_told(over: str, told: bool, tmp_path: Path) -> None:
    sides = a_side((0,), "reduce", 2), a_side((1,), "backward", 3)

    found = reason(a_program(tmp_path, SUMS.format(over)), *sides)

    assert (found.signature == "hang-loop-entries") is told
    assert not told or f"it goes over {over}, which may have other entries" in found.cause.en


DRAINED = """\
rows = iter(loader)
while True:
    try:
        row = next(rows)
    except {0}:
        break
    backward(row)
barrier()
"""


@pytest.mark.parametrize(
    ("error", "name"), [("StopIteration", "hang-loop-stream"), ("RuntimeError", "hang-loop-caught")]
)
def test_the_end_of_the_data_is_no_error_that_cut_a_step_short(error: str, name: str, tmp_path: Path) -> None:
    sides = a_side((0,), "backward", 7), a_side((1,), "barrier", 8)

    assert reason(a_program(tmp_path, DRAINED.format(error)), *sides).signature == name


EXCHANGES = """\
def validate(ops):
    for request in {0}:
        request.wait()
for step in range(9):
    validate(ops)
    all_reduce(step)
"""


@pytest.mark.parametrize(
    ("requests", "told"),
    [
        pytest.param("dist.batch_isend_irecv(ops)", True, id="messages"),
        pytest.param("[dist.irecv(x, 1) for x in ops]", True, id="of each peer"),
        pytest.param("[dist.all_reduce(x, async_op=True) for x in ops]", False, id="collectives"),
    ],
)
def test_a_message_that_the_other_rank_neither_sends_nor_takes_is_told(
    requests: str, told: bool, tmp_path: Path
) -> None:
    inside = a_side((0,), "request.wait", 5, 3)
    sources = a_program(tmp_path, EXCHANGES.format(requests))

    found = reason(sources, inside, a_side((1,), "all_reduce", 6))

    assert (found.signature == "hang-message-unmet") is told
    assert not told or found.cause.en.startswith("rank 0 waits at line 3 for a message that rank 1 neither")
