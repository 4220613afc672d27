"""What a loop asks for, and cannot have parted the ranks by."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from nbdist.diagnosis.hangs.deadlocks import why
from nbdist.diagnosis.places import CodeLocation, Sources
from nbdist.diagnosis.sides import Side
from nbdist.store.reports import Call
from tests.fakes.directories import WrittenRun
from tests.fakes.runs import a_spec

TRAINS = """\
def train(loader, step):
    for batch in loader:
        if {limit}:
            break
        loss = compute(batch)
        if loss is None:
            continue
        backward(loss)
        {count}
    return step
for epoch in range(9):
    step = {given}
    all_reduce(total)
"""


def a_program(folder: Path, text: str) -> Sources:
    written = WrittenRun(folder / "home", cell=text)
    return Sources.of(written.run, written.directory)


def at(rank: int, what: str, *way: tuple[int, str]) -> Side:
    calls = tuple(Call(file=a_spec().program, line=line, function=function) for line, function in way)
    return Side(ranks=(rank,), way=calls, place=CodeLocation(line=way[-1][0], what=what, waits=True))


def said(sources: Sources, *sides: Side) -> str:
    found = why(sides, sources, {})
    return found.cause.en if found is not None else ""


@pytest.mark.parametrize(
    ("limit", "count", "given", "named"),
    [
        pytest.param("step >= most", "step += 1", "train(loader, step)", False, id="a count of the rounds"),
        pytest.param("step == most", "step += 1", "train(loader, step)", False, id="it is to be equal to"),
        pytest.param(
            "state['n'] >= most", "state['n'] += 1", "train(loader, state)", False, id="one in a dictionary"
        ),
        pytest.param("bad > most", "bad += 1 - good", "train(loader, 0)", True, id="a count of some rounds"),
        pytest.param("step >= most()", "step += 1", "train(loader, step)", True, id="what each rank asks"),
        pytest.param("loss > most", "step += 1", "train(loader, step)", True, id="what the data says"),
        pytest.param("step >= most", "step += 1", "saved['step']", True, id="a count that was read"),
        pytest.param("step >= most", "step += 1", "load(path)", True, id="a count that was loaded"),
    ],
)
def test_a_limit_on_the_rounds_has_not_parted_the_ranks(
    limit: str, count: str, given: str, named: bool, tmp_path: Path
) -> None:
    sources = a_program(tmp_path, TRAINS.format(limit=limit, count=count, given=given))
    inside = at(0, "backward", (12, "<module>"), (8, "train"))

    told = said(sources, inside, at(1, "all_reduce", (13, "<module>")))

    assert "line 6  if loss is None:" in told
    assert (f"line 3  if {limit}:" in told) is named


ROUNDS = """\
def fit(loader):
    for batch in loader:
        if done:
            {leaves}
        if hard:
            continue
        backward(batch)
        report(batch)
        if late:
            {leaves}
{call}
"""


@pytest.mark.parametrize(
    ("leaves", "call", "named"),
    [
        pytest.param("return", "fit(loader)", False, id="a return that ends it all"),
        pytest.param("break", "fit(loader)", False, id="a break that ends it all"),
        pytest.param("continue", "fit(loader)", True, id="the next round"),
        pytest.param("return", "for _ in range(3): fit(loader)", True, id="the next epoch"),
    ],
)
def test_ranks_that_came_round_have_not_left_the_loop(
    leaves: str, call: str, named: bool, tmp_path: Path
) -> None:
    sources = a_program(tmp_path, ROUNDS.format(leaves=leaves, call=call))
    inside = at(0, "gather", (11, "<module>"), (8, "fit"))

    told = said(sources, inside, at(1, "backward", (11, "<module>"), (7, "fit")))

    assert "line 5  if hard:" in told
    assert ("line 3  if done:" in told) is named


RESUMES = """\
def run(loader, last):
    start = {start}
    for number in range(start, last):
        for batch in loader:
            backward(batch)
run(loader, 9)
barrier()
"""


@pytest.mark.parametrize(
    ("start", "named"),
    [
        pytest.param("restore(path)", True, id="what a checkpoint says"),
        pytest.param("state['epoch']", True, id="what is in it"),
        pytest.param("1", False, id="a number"),
    ],
)
def test_a_loop_that_begins_at_what_was_read_may_have_begun_elsewhere(
    start: str, named: bool, tmp_path: Path
) -> None:
    sources = a_program(tmp_path, RESUMES.format(start=start))
    inside = at(0, "backward", (6, "<module>"), (5, "run"))

    told = said(sources, inside, at(1, "barrier", (7, "<module>")))

    assert ("for number in range(start, last):  (line 3) began at other numbers" in told) is named


PRINTS = """\
def elapsed():
    return time.time() - began
def score(model):
    return model(batch)
for epoch in range(9):
    for batch in loader:
        if lucky:
            continue
        backward(batch)
        if rank == 0:
            print({says})
barrier()
"""


@pytest.mark.parametrize(
    ("says", "named"),
    [
        pytest.param("elapsed()", False, id="a function that only tells the time"),
        pytest.param("score(model)", True, id="one that calls the model"),
        pytest.param("imported()", True, id="one that is not known"),
    ],
)
def test_what_one_rank_prints_has_not_parted_them(says: str, named: bool, tmp_path: Path) -> None:
    sources = a_program(tmp_path, PRINTS.format(says=says))

    told = said(sources, at(0, "backward", (9, "<module>")), at(1, "barrier", (12, "<module>")))

    assert "line 7  if lucky:" in told
    assert ("line 10  if rank == 0:" in told) is named


def test_conditions_of_a_module_are_told_with_its_name(tmp_path: Path) -> None:
    sources = a_program(tmp_path, "for step in range(9):\n    backward(step)\n    report(step)\n")
    module = tmp_path / "monitor.py"
    module.write_text("def report(step):\n    if not values:\n        return\n    all_gather(values)\n")
    inside = at(0, "all_gather", (3, "<module>"))
    reports = Call(file=str(module), line=4, function="report")
    inside = replace(
        inside, way=(*inside.way, reports), place=replace(inside.place, line=4, file="monitor.py")
    )

    told = said(sources, inside, at(1, "backward", (2, "<module>")))

    assert "called all_gather (line monitor.py:4)" in told
    assert "monitor.py  if not values:" in told


READS = """\
def samples(rows):
    for row in rows:
        if {test}:
            {then}
        yield row
for batch in batched(samples(rows), 8):
    backward(batch)
barrier()
"""


@pytest.mark.parametrize(
    ("test", "then", "named"),
    [
        pytest.param("row.empty", "continue", True, id="by what is in it"),
        pytest.param("row.number % size != rank", "continue", False, id="those of the other ranks"),
        pytest.param("row.empty", "row = filler", False, id="none is left out"),
    ],
)
def test_a_generator_that_leaves_some_out_is_named(test: str, then: str, named: bool, tmp_path: Path) -> None:
    sources = a_program(tmp_path, READS.format(test=test, then=then))

    told = said(sources, at(0, "backward", (7, "<module>")), at(1, "barrier", (8, "<module>")))

    assert "rank 1 left the loop of line 6, rank 0 did not" in told
    assert ("from samples (line 1), which leaves some out at line 3  if row.empty:" in told) is named
