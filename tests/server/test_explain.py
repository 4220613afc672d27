"""``GET api/runs/ID/explain``: what ``nbdist explain --json`` prints."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from nbdist.cli.commands import main
from nbdist.model import RunState
from tests.fakes.directories import WrittenRun
from tests.fakes.runs import RUN_ID, STARTED, errored, exited, run_ended

Ask = Callable[..., Any]


def failed(home: Path) -> WrittenRun:
    written = WrittenRun(home).happened(*STARTED).raised(1, "ValueError", "no such file")
    return written.happened(errored(1), exited(1, 1), run_ended(RunState.FAILED, "rank 1 failed"))


async def test_a_page_gets_what_the_command_prints(ask: Ask, home: Path, capsys: Any) -> None:
    failed(home)

    answer = await ask(f"api/runs/{RUN_ID}/explain")

    assert main(["explain", "--json"]) == 0
    assert json.loads(answer.body) == json.loads(capsys.readouterr().out)
    assert json.loads(answer.body)["failure"]["untrusted"]["message"] == "ValueError: no such file"


async def test_it_speaks_the_language_that_is_asked_for(ask: Ask, home: Path) -> None:
    failed(home)

    chinese = await ask(f"api/runs/{RUN_ID}/explain", params={"language": "zh"})
    unknown = await ask(f"api/runs/{RUN_ID}/explain", params={"language": "la"})

    assert "最先失败" in json.loads(chinese.body)["failure"]["headline"]
    assert unknown.code == 400


async def test_a_run_that_cannot_be_read_is_not_found(ask: Ask, home: Path) -> None:
    failed(home).directory.spec.write_text("{")

    assert (await ask(f"api/runs/{RUN_ID}/explain")).code == 404
    assert (await ask("api/runs/20261120-141503-other-k3f9/explain")).code == 404
