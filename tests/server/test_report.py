"""``GET api/runs/ID/report``: what ``nbdist explain --copy`` prints."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from nbdist.cli.commands import main
from nbdist.model import RunState
from tests.fakes.directories import WrittenRun
from tests.fakes.runs import RUN_ID, STARTED, errored, exited, run_ended

Ask = Callable[..., Any]


def failed(home: Path) -> WrittenRun:
    written = WrittenRun(home).happened(*STARTED).raised(1, "ValueError", "<b>no such file</b>")
    return written.happened(errored(1), exited(1, 1), run_ended(RunState.FAILED, "rank 1 failed"))


async def test_a_page_gets_what_the_command_prints_as_plain_text(ask: Ask, home: Path, capsys: Any) -> None:
    failed(home)

    answer = await ask(f"api/runs/{RUN_ID}/report")

    assert main(["explain", "--copy"]) == 0
    assert answer.body.decode() == capsys.readouterr().out
    assert "ValueError: <b>no such file</b>" in answer.body.decode()
    assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"


async def test_it_speaks_the_language_that_is_asked_for(ask: Ask, home: Path) -> None:
    failed(home)

    chinese = await ask(f"api/runs/{RUN_ID}/report", params={"language": "zh"})

    assert "最先失败" in chinese.body.decode()
    assert (await ask(f"api/runs/{RUN_ID}/report", params={"language": "la"})).code == 400


async def test_a_run_that_cannot_be_read_has_no_report(ask: Ask, home: Path) -> None:
    failed(home).directory.spec.write_text("{")

    assert (await ask(f"api/runs/{RUN_ID}/report")).code == 404
