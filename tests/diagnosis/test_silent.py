"""Mistakes that raise nothing get a warning with line and fix; right programs get none.

NBDIST_REPORTED=all runs every program, else one or two of each kind.
"""

from __future__ import annotations

import os
import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from nbdist.diagnosis.silent import MistakeReader
from nbdist.model import Run
from nbdist.panel import summary_text
from nbdist.store import RunDirectory
from nbdist.store.step_records import read_records
from nbdist.tables import read_table
from tests.conftest import RunCell
from tests.diagnosis.test_accuracy import record
from tests.fakes.runs import STARTED, a_spec, attempt_failed, attempt_started

PROGRAMS = read_table(__file__, "silent_programs")
BEGIN, MISTAKES, RIGHT = PROGRAMS["begin"], PROGRAMS["mistakes"], PROGRAMS["right"]
ALWAYS = {
    "paddle_calls_the_inner_model",
    "paddle_no_sampler",
    "torch_calls_the_inner_model",
    "torch_evaluates_everything_on_each_rank",
    "torch_never_sets_the_epoch",
    "torch_no_sampler",
}


def wanted(names: dict[str, str]) -> list[str]:
    return [name for name in names if name in ALWAYS or os.environ.get("NBDIST_REPORTED") == "all"]


def mistakes_of(run_cell: RunCell, name: str, program: str) -> tuple[str, str]:
    """Return the program, and its run's summary but for the first line; the run must succeed."""
    framework = name.partition("_")[0]
    if find_spec(framework) is None:
        pytest.skip(f"{framework} is not installed")
    source = BEGIN[framework] + program
    handle = run_cell("-n 2", source, limit=120)
    assert handle.status == "finished", handle.logs(0) + handle.logs(1)
    text = summary_text(handle.run, handle.directory, "en")
    detail = [str(record.notes) for record in read_records(handle.run, handle.directory).values()]
    assert len(detail) == 2, handle.logs(0)
    return source, "\n".join([*text.splitlines()[1:], "", *detail])


@pytest.mark.usefixtures("leaves_nothing")
@pytest.mark.parametrize("name", wanted(MISTAKES))
def test_a_mistake_that_raises_nothing_is_said(run_cell: RunCell, name: str) -> None:
    source, mistakes = mistakes_of(run_cell, name, MISTAKES[name])

    line = next(number for number, text in enumerate(source.split("\n"), 1) if text.endswith("# here"))
    expected = re.search(r"# expect: (.+)", source)
    assert expected[1].replace("{here}", f"cell line {line}") in mistakes
    # its only line about the program; others tell of the training
    assert mistakes.partition("\n\n")[0].count("cell line") == 1, mistakes


@pytest.mark.usefixtures("leaves_nothing")
@pytest.mark.parametrize("name", wanted(RIGHT))
def test_a_right_program_is_not_warned_about(run_cell: RunCell, name: str) -> None:
    _, mistakes = mistakes_of(run_cell, name, RIGHT[name])

    words, _, detail = mistakes.partition("\n\n")
    assert not re.search("same batches|same order|not averaged", words), f"{words}\n{detail}"


@pytest.mark.usefixtures("leaves_nothing")
def test_a_traceback_through_what_is_watched_shows_nothing_of_nbdist(run_cell: RunCell) -> None:
    if find_spec("torch") is None:
        pytest.skip("torch is not installed")
    fails = """
import traceback
class Broken(TensorDataset):
    def __getitem__(self, index):
        raise KeyError("label")
try:
    DDP(net())(torch.ones(4, 3))
except RuntimeError:
    traceback.print_exc()
next(iter(DataLoader(Broken(*data.tensors))))
"""
    handle = run_cell("-n 2", BEGIN["torch"] + fails, limit=120)

    # the other one may be ended before it says so much
    log = handle.logs(handle.failure.rank)
    assert "mat1 and mat2" in log
    assert "KeyError" in log
    assert "nbdist/worker" not in log
    assert log.count("in __next__") == 1


# what the ranks of one run have noted, without their processes


def notes(*digests: int, **more: Any) -> dict[str, Any]:
    """Return the notes of a rank about its first batches."""
    place = ["/home/ada/data.py", 7]
    return {"batches": list(digests), "place": place, "sampler": "RandomSampler", "share": None} | more


class Ranks:
    """The ranks of one run of four, with the test's notes."""

    def __init__(self, path: Path) -> None:
        self.directory = RunDirectory(path)
        self.now = 0.0
        self.reader = MistakeReader(self.directory, clock=lambda: self.now)
        self.run = Run.of(a_spec(ranks=4), STARTED)

    def note(self, rank: int, notes: object) -> None:
        file = self.directory.rank(rank).steps
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(record({"framework": "torch"}, notes))

    def look(self) -> list[str]:
        self.now += 1
        return [mistake.en for mistake in self.reader.look(self.run)]


@pytest.fixture
def ranks(tmp_path: Path) -> Ranks:
    return Ranks(tmp_path)


def test_batches_are_the_same_once_all_ranks_have_noted_them(ranks: Ranks) -> None:
    for rank in range(4):
        assert ranks.look() == []
        ranks.note(rank, notes(1, 2, 3))

    [mistake] = ranks.look()
    assert mistake.startswith(
        "every rank reads the same batches (DataLoader, data.py line 7): DistributedSampler"
    )
    ranks.note(0, {})
    assert ranks.look() == [mistake]


@pytest.mark.parametrize(
    ("noted", "last"),
    [
        pytest.param(notes(1, 2, 3), notes(1, 2, 4), id="one rank reads another batch"),
        pytest.param(notes(1, 1, 1), notes(1, 1, 1), id="constant data"),
        pytest.param(notes(1, 2, 1), notes(1, 2, 1), id="data of two batches"),
        pytest.param(notes(1, 2, 3), {}, id="one rank has read less"),
        pytest.param(notes(1, 2, 3, share=0), notes(1, 2, 3, share=1), id="random numbers for shares"),
        pytest.param(notes(1, 2, 3, place=[7]), notes(1, 2, 3), id="no place"),
        pytest.param({"batches": 7}, {"uncalled": 7, "same_order": "x"}, id="no notes"),
    ],
)
def test_notes_that_tell_nothing(ranks: Ranks, noted: dict[str, Any], last: dict[str, Any]) -> None:
    for rank in range(4):
        ranks.note(rank, last if rank == 3 else noted)

    assert ranks.look() == []


def test_a_later_attempt_begins_anew(ranks: Ranks) -> None:
    ranks.note(0, {"same_order": None})
    assert [mistake.partition(":")[0] for mistake in ranks.look()] == ["every epoch has the same order"]

    ranks.run = Run.of(a_spec(ranks=4), [*STARTED, attempt_failed(1, "a rank failed"), attempt_started(2)])

    assert ranks.look() == []
