"""``GET api/runs/ID/explain`` and ``/report``: the texts of ``nbdist explain --json`` and ``--copy``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nbdist.cli.commands import main
from nbdist.model import RunState
from tests.fakes.directories import WrittenRun
from tests.fakes.runs import RUN_ID, STARTED, errored, exited, run_ended

Ask = Callable[..., Any]


@pytest.fixture
def failed(home: Path) -> WrittenRun:
    written = WrittenRun(home).happened(*STARTED).raised(1, "ValueError", "<b>no such file</b>")
    return written.happened(errored(1), exited(1, 1), run_ended(RunState.FAILED, "rank 1 failed"))


async def test_a_page_gets_what_the_command_prints(ask: Ask, failed: WrittenRun, capsys: Any) -> None:
    answer = await ask(f"api/runs/{RUN_ID}/explain")

    assert main(["explain", "--json"]) == 0
    assert json.loads(answer.body) == json.loads(capsys.readouterr().out)
    assert json.loads(answer.body)["failure"]["untrusted"]["message"] == "ValueError: <b>no such file</b>"


async def test_a_report_is_plain_text(ask: Ask, failed: WrittenRun, capsys: Any) -> None:
    answer = await ask(f"api/runs/{RUN_ID}/report")

    assert main(["explain", "--copy"]) == 0
    assert answer.body.decode() == capsys.readouterr().out
    assert "ValueError: <b>no such file</b>" in answer.body.decode()
    assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize("kind", ["explain", "report"])
async def test_it_speaks_the_language_of_the_request(ask: Ask, failed: WrittenRun, kind: str) -> None:
    chinese = await ask(f"api/runs/{RUN_ID}/{kind}", params={"language": "zh"})
    unknown = await ask(f"api/runs/{RUN_ID}/{kind}", params={"language": "la"})

    assert "最先失败" in chinese.body.decode("unicode_escape" if kind == "explain" else "utf-8")
    assert unknown.code == 400


@pytest.mark.parametrize("kind", ["explain", "report"])
async def test_a_run_that_cannot_be_read_is_not_found(ask: Ask, failed: WrittenRun, kind: str) -> None:
    failed.directory.spec.write_text("{")

    assert (await ask(f"api/runs/{RUN_ID}/{kind}")).code == 404
    assert (await ask(f"api/runs/20261120-141503-other-k3f9/{kind}")).code == 404
