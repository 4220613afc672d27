"""A rank that takes more memory than it may is ended and named; where that cannot be, nothing starts."""

from __future__ import annotations

import re

import pytest

from nbdist import control_groups
from nbdist.diagnosis.failure import first_failure
from nbdist.diagnosis.report import failure_headline
from nbdist.errors import UsageMistake
from nbdist.model import RankExited, RunState
from nbdist.store import RunStore
from tests.fakes.directories import WrittenRun
from tests.fakes.runs import STARTED, exited, run_ended

problem = control_groups.memory_problem()


@pytest.mark.skipif(problem == "", reason="here memory can be limited")
def test_where_memory_cannot_be_limited_nothing_starts_and_the_reason_is_said(start_cell, home) -> None:
    with pytest.raises(UsageMistake, match=re.escape(f"--memory does not work here ({problem})")):
        start_cell("-n 2 --memory 1G", "print('no')")

    assert RunStore(home).directories() == []


@pytest.mark.skipif(problem != "", reason=f"no memory can be limited here: {problem}")
def test_a_rank_that_takes_too_much_is_ended_and_named(run_cell, leaves_nothing) -> None:
    cell = "import os, time\nblock = bytearray(10**9) if os.environ['RANK'] == '1' else time.sleep(600)"

    handle = run_cell("-n 2 --memory 400M", cell)

    failure = first_failure(handle.run, handle.directory)
    assert (failure.rank, failure.limit) == (1, 400_000_000)
    assert failure.hint.signature == "exit-memory-limit"
    supervisor = handle.run.supervisor
    assert control_groups.find_group(supervisor.pid, supervisor.start_time) is None


def test_the_headline_names_the_limit(home) -> None:
    killed = RankExited(
        time=STARTED[-1].time + 9, rank=1, code=-9, ended=False, oom=True, limit=16_000_000_000
    )
    run = WrittenRun(home).happened(
        *STARTED, killed, exited(0, code=-15, ended=True), run_ended(RunState.FAILED)
    )

    failure = first_failure(run.run, run.directory)

    assert failure_headline(failure) == "rank 1 failed first: SIGKILL (over its memory limit of 16.0 GB)"
    assert "raise  --memory" in failure.hint.text()
