"""``nbdist stacks``: a run that goes on, one that has ended, one that was never asked."""

from __future__ import annotations

import json

import pytest

from nbdist.cli.commands import main
from tests.conftest import RunCell
from tests.programs import until_ready

SLEEP = "import time\nprint('ready')\ntime.sleep(600)"
SAID = "ranks 0, 1 are in time.sleep at line 3"


def test_where_the_ranks_are_is_shown_while_they_run_and_afterwards(
    start_cell: RunCell, capsys: pytest.CaptureFixture[str]
) -> None:
    handle = start_cell("-n 2", SLEEP)
    until_ready(handle)

    assert main(["stacks"]) == 0
    assert SAID in capsys.readouterr().out

    assert main(["stacks", handle.run.label, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["sentence"], found["groups"][0]["ranks"]) == (SAID, [0, 1])

    handle.stop("enough")
    assert main(["stacks", "--threads"]) == 0
    assert SAID in capsys.readouterr().out


def test_a_run_that_was_never_asked_has_no_stacks(
    run_cell: RunCell, capsys: pytest.CaptureFixture[str]
) -> None:
    handle = run_cell("-n 1", "print('done')")

    assert main(["stacks"]) == 1
    assert f"no stacks have been taken of {handle.run.label}" in capsys.readouterr().out
