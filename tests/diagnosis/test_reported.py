"""Programs that fail as people reported of other projects, and the score of each report.

Their headers state a right cause and fix, ``# here`` marks the lines that must be named.
``benchmarks/diagnosis-score.md`` has each score. A program whose score changes, even for the better, fails
until that page follows. The reports come from recorded runs where there is a recording. With
NBDIST_REPORTED=all every program runs (``make test-diagnosis``), with NBDIST_REPORTED=record it is also
recorded: write a new one to ``reported/`` first.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from dataclasses import astuple
from pathlib import Path

import pytest

from nbdist.diagnosis import diagnose
from nbdist.diagnosis.report import error_text
from nbdist.diagnosis.stacks import last_stacks
from nbdist.feed.stalling import StallReader, hung_lines
from nbdist.feed.summary import run_report
from nbdist.model import Run
from nbdist.store import RunDirectory, read_events
from nbdist.store.run_store import read_spec, replayed
from tests.conftest import RunCell
from tests.diagnosis.recordings import laid_out, program_of, record
from tests.diagnosis.score import CAUSES, PAGE, Expected, Said, Score, recorded, score, totals
from tests.diagnosis.test_programs import skip_where_it_cannot_run

RECORDED = Path(__file__).parent / "recorded_reported"
FILES = {path.stem: path.read_text() for path in (Path(__file__).parent / "reported").glob("*.py")}
PROGRAMS = {path.stem: program_of(path.stem, RECORDED) for path in sorted(RECORDED.glob("*.json"))} | FILES
WANTED = os.environ.get("NBDIST_REPORTED", "")
# seconds for which a run must have stood still, so that what is said of it is what a person reads
_SETTLED = 6.0
_LONGEST = 120.0


def what_it_says(run: Run, directory: RunDirectory) -> Said:
    """Return the screen's text about a run that hangs, or has ended."""
    if run.stalled is not None and not run.state.terminal:
        view, stacks = StallReader(directory).look(run), last_stacks(run, directory)
        if view is None or stacks is None:
            return Said(report="")
        return Said(report="\n".join(hung_lines(view, "en")), ranks=frozenset(stacks.behind), hinted=True)
    failure = diagnose(run, directory)
    if failure is None:
        return Said(report="")
    error = error_text(failure) or "\n".join(failure.tail)
    ranks = frozenset({failure.rank, *failure.early_exits, *failure.absent})
    report = run_report(run, directory)
    return Said(report=report, ranks=ranks, error=error, hinted=failure.hint is not None)


def _stands(run: Run, expected: Expected) -> bool:
    """Return whether the run has ended or, of one that is to hang, has stood still for long enough."""
    if run.state.terminal or not expected.hangs:
        return run.state.terminal
    return run.stalled is not None and time.time() - run.stalled > _SETTLED


@pytest.mark.usefixtures("leaves_nothing")
@pytest.mark.parametrize("name", PROGRAMS if WANTED else [])
def test_the_report_is_as_good_as_recorded(
    name: str, start_cell: RunCell, record_property: Callable[[str, object], None]
) -> None:
    source = PROGRAMS[name]
    skip_where_it_cannot_run(source, source)
    expected = Expected.of(source)
    handle = start_cell(expected.run, source)

    deadline = time.monotonic() + _LONGEST
    while not _stands(handle.run, expected) and time.monotonic() < deadline:
        time.sleep(0.1)
    diagnosis = what_it_says(handle.run, handle.directory)
    if WANTED == "record":
        record(name, handle.directory, RECORDED)

    scored = score(diagnosis, expected)
    record_property("score", (name, *astuple(scored)))
    logs = "\n".join(handle.logs(rank) for rank in range(handle.run.spec.world_size))
    assert scored == recorded(PAGE.read_text()).get(name), f"{diagnosis.report}\n\n{logs}"


@pytest.mark.parametrize("name", sorted(path.stem for path in RECORDED.glob("*.json")))
def test_the_report_on_a_recorded_run_is_as_good_as_the_page_says(name: str, tmp_path: Path) -> None:
    directory = laid_out(name, tmp_path / "home" / "runs", RECORDED)
    # as its events have it: the processes of a run that hangs are no more
    run = replayed(read_spec(directory), read_events(directory.journal))

    diagnosis = what_it_says(run, directory)

    assert score(diagnosis, Expected.of(PROGRAMS[name])) == recorded(PAGE.read_text())[name], diagnosis.report


def test_the_page_has_a_row_for_each_program_and_the_right_totals() -> None:
    page = PAGE.read_text()

    scores = recorded(page)

    assert sorted(scores) == sorted(PROGRAMS)
    assert {score.cause for score in scores.values()} <= set(CAUSES)
    assert totals(scores.values()) in page


@pytest.mark.parametrize("name", PROGRAMS)
def test_each_program_says_where_it_was_reported_and_what_a_report_must_say(name: str) -> None:
    source = PROGRAMS[name]

    expected = Expected.of(source)

    assert expected.lines
    assert re.search(r'^"""[\w.-]+/[\w.-]+#\d+: ', source, re.MULTILINE)
    for words in (expected.cause, expected.fix, expected.never):
        re.compile(words)


ASKED = """# expect: rank 1
# cause: dtype
# fix: float\\(
# never: %pip
x = half(x)  # here
"""
KNOWN = "run-x: rank 1 failed first: E at line 5 of the cell\n\n  cell line 5\nE: no\n\n"


@pytest.mark.parametrize(
    ("diagnosis", "expected"),
    [
        pytest.param(
            Said(report=KNOWN + "cause: a dtype\nfix: x.float()", ranks=frozenset({1}), error="E: no"),
            Score("right", "right", "right", "right"),
            id="all right",
        ),
        pytest.param(
            Said(report=KNOWN + "cause: a dtype\nfix: %pip it", ranks=frozenset({1}), error="E: no"),
            Score("right", "right", "misleading", "no"),
            id="misleading, though the cause is right",
        ),
        pytest.param(
            Said(report="x: rank 1, line 5\nE: dtype", ranks=frozenset({1}), error="E: dtype"),
            Score("right", "right", "itself", "no"),
            id="only the exception",
        ),
        pytest.param(
            Said(report=KNOWN + "cause: unknown", ranks=frozenset({1}), error="E: no", hinted=True),
            Score("right", "right", "vague", "no"),
            id="other words",
        ),
        pytest.param(
            Said(report=KNOWN, ranks=frozenset({1}), error="E: no"),
            Score("right", "right", "cryptic", "no"),
            id="no words",
        ),
        pytest.param(
            Said(report="rank 0, line 50\n  cell line 5", ranks=frozenset({0})),
            Score("wrong", "wrong", "lost", "no"),
            id="another place",
        ),
    ],
)
def test_a_report_is_judged_by_what_nbdist_says_in_it(diagnosis: Said, expected: Score) -> None:
    assert score(diagnosis, Expected.of(ASKED)) == expected
