"""The HTTP surface, asked with what ``openapi.yaml`` allows and with what it does not.

``make fuzz-server`` asks much more; NBDIST_FUZZ_EXAMPLES says how much.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import yaml

from nbdist.board import stop_board
from nbdist.model import RunState
from nbdist.server.app import ROUTES, handler_named
from tests.fakes.directories import WrittenRun
from tests.fakes.runs import STARTED, a_spec, exited, run_ended
from tests.server.real_server import TOKEN, real_server

HERE = Path(__file__).parent
OPENAPI = Path(__file__).parents[2] / "nbdist/server/openapi.yaml"
EXAMPLES = os.environ.get("NBDIST_FUZZ_EXAMPLES", "4")
# VisualDL's pages are not ours to describe, and a WebSocket is no matter of HTTP
NOT_OURS = ("stream", "board", "headBoard", "askBoard")
OTHER = "20261120-141504-other-k3f9"


def test_the_addresses_are_those_that_are_described() -> None:
    described = yaml.safe_load(OPENAPI.read_text())["paths"]
    verbs = ("get", "head", "post", "put", "patch", "delete")

    promised = {
        (re.sub(r"\{\w+\}", "{}", path), verb)
        for path, entry in described.items()
        for verb in verbs
        if verb in entry
    }
    served = {
        ("/" + re.sub(r"\([^)]*\)", "{}", route), verb)
        for route, named in ROUTES.items()
        for verb in verbs
        if verb in vars(handler_named(named))
    }

    assert served == promised


def test_no_request_breaks_the_server_or_its_promises(tmp_path: Path) -> None:
    with real_server(tmp_path) as server:
        run = WrittenRun(server.home).happened(*STARTED, exited(0), exited(1), run_ended(RunState.FINISHED))
        run.printed(0, "a line\n" * 1000)
        run.recorded(0, loss=0.5)
        WrittenRun(server.home, a_spec(run_id=OTHER)).happened(*STARTED, exited(0, 1), exited(1))

        fuzzed = subprocess.run(
            [
                Path(sys.executable).with_name("schemathesis"),
                f"--config-file={HERE / 'schemathesis.toml'}",
                "run",
                OPENAPI,
                f"--url={server.url}",
                f"--header=Authorization: token {TOKEN}",
                f"--max-examples={EXAMPLES}",
                *(f"--exclude-operation-id={name}" for name in NOT_OURS),
                "--phases=examples,coverage,fuzzing",
                "--continue-on-failure",
            ],
            capture_output=True,
            text=True,
            cwd=tmp_path,
        )
        log = (tmp_path / "server.log").read_text()
        # a request may have opened VisualDL
        stop_board(server.home)

    assert fuzzed.returncode == 0, fuzzed.stdout[-8000:] + fuzzed.stderr[-2000:]
    assert "Traceback" not in log, log[-4000:]
