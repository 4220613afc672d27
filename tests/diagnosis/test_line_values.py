"""The values of names in the failing line on each rank; those that differ come first."""

from __future__ import annotations

from pathlib import Path

import pytest

from nbdist.diagnosis import diagnose
from nbdist.diagnosis.report import aftermath
from nbdist.feed.explanation import explain_run
from nbdist.store.reports import Operand, RankAnswer, TakenStacks, write_stacks
from tests.fakes.directories import WrittenRun
from tests.fakes.runs import CREATED, STARTED, a_spec, errored, exited, rank_started, stalled

CELL = "batch = load(rank)\nfor step in range(4):\n    loss = model(batch, step)\n"
FAILED_AT = CREATED + 50
SHORT, LONG = "Tensor (3, 5) float32", "Tensor (4, 5) float32"
DIFFERS = f"batch differs: {SHORT} on rank 1, {LONG} on ranks 0, 2"


@pytest.fixture
def written(tmp_path: Path) -> WrittenRun:
    spec = a_spec(ranks=3)
    return WrittenRun(tmp_path / "home", spec, cell=CELL).happened(*STARTED, rank_started(2))


def failed(written: WrittenRun, on: int, *, later: float = 0.0, **names: str) -> WrittenRun:
    program = written.spec.program
    frames = [(program, 3, "<module>", "loss = model(batch, step)")]
    operands = [(program, 3, name, what) for name, what in names.items()]
    time = FAILED_AT + later
    written.raised(on, "ValueError", "no", frames=frames, operands=operands, time=time)
    return written.happened(errored(on, time=time), exited(on, 1, time=time))


def stood(written: WrittenRun, *ranks: int, line: int = 3, time: float = FAILED_AT + 1, **names: str) -> None:
    program = written.spec.program
    text = f'Thread 0x07 (most recent call first):\n  File "{program}", line {line} in <module>\n'
    values = tuple(Operand(file=program, line=3, name=name, what=what) for name, what in names.items())
    answers = tuple(RankAnswer(rank=rank, text=text, values=values) for rank in ranks)
    write_stacks(written.directory, TakenStacks(time=time, attempt=1, ranks=answers))


def shown(written: WrittenRun, language: str = "en") -> list[str]:
    failure = diagnose(written.run, written.directory)
    return [note.text(language) for note in failure.notes if "range(4)" not in note.en]


def test_a_name_that_differs_comes_first_in_one_line(written: WrittenRun) -> None:
    failed(written, 1, step="2", batch=SHORT)
    for rank in (0, 2):
        failed(written, rank, later=1.0, step="2", batch=LONG)

    assert shown(written)[:2] == [DIFFERS, "line 3 had step: 2 on ranks 0, 1, 2"]
    assert shown(written, "zh")[:2] == [
        f"batch 各进程不同：进程 1 上为 {SHORT}，进程 0, 2 上为 {LONG}",
        "第 3 行在进程 0–2 上的值：step: 2",
    ]


def test_ranks_that_stood_in_the_line_have_values_there_too(written: WrittenRun) -> None:
    failed(written, 1, batch=SHORT)
    stood(written, 0, 2, batch=LONG)

    assert shown(written)[0] == DIFFERS


@pytest.mark.parametrize(
    "where", [{"line": 2}, {"time": FAILED_AT - 20}], ids=["in another line", "long before the failure"]
)
def test_what_a_rank_had_elsewhere_is_not_compared(written: WrittenRun, where: dict[str, float]) -> None:
    failed(written, 1, batch=SHORT)
    stood(written, 0, 2, batch=LONG, **where)  # type: ignore[arg-type]

    assert shown(written)[0] == f"line 3 had batch: {SHORT}"


def test_ranks_that_hung_in_the_line_until_it_failed_still_had_their_values(written: WrittenRun) -> None:
    stood(written, 0, 2, batch=LONG, time=FAILED_AT - 20)
    written.happened(stalled(since=FAILED_AT - 40, time=FAILED_AT - 20))
    failed(written, 1, batch=SHORT)

    assert shown(written)[0] == DIFFERS


def test_the_number_of_a_rank_is_no_difference(written: WrittenRun) -> None:
    failed(written, 1, rank="1", step="2")
    stood(written, 0, rank="0", step="3")

    assert shown(written)[0] == "step differs: 2 on rank 1, 3 on rank 0"
    assert not [note for note in shown(written) if "rank differs" in note]


def test_of_many_values_only_the_first_are_listed(tmp_path: Path) -> None:
    more = [rank_started(rank) for rank in range(2, 6)]
    written = WrittenRun(tmp_path / "home", a_spec(ranks=6), cell=CELL).happened(*STARTED, *more)
    for rank in range(6):
        failed(written, rank, later=float(rank), step=str(rank + 7))

    note = "step differs: 7 on rank 0, 8 on rank 1, 9 on rank 2, 10 on rank 3, …"
    assert shown(written)[0] == note


def test_a_rank_without_values_of_its_own_leaves_those_of_the_others(written: WrittenRun) -> None:
    failed(written, 1)
    stood(written, 0, 2, batch=LONG)

    assert shown(written)[0] == f"line 3 had batch: {LONG} on ranks 0, 2"


def test_what_differs_stands_before_how_the_others_ended(written: WrittenRun) -> None:
    failed(written, 1, batch=SHORT)
    stood(written, 0, 2, batch=LONG)
    written.happened(exited(0, -9, ended=True), exited(2, -6, time=FAILED_AT + 2))
    failure = diagnose(written.run, written.directory)

    assert failure is not None
    assert aftermath(failure)[0] == DIFFERS
    explained = explain_run(written.run, written.directory).failure
    assert explained.untrusted.after[0] == DIFFERS
