"""``nbdist mcp``, by the client of the Python SDK."""

from __future__ import annotations

import asyncio
import os
import random
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil
import pytest
from mcp import Client, StdioServerParameters

from nbdist import config, processes
from nbdist.cli.commands import main, make_server
from nbdist.model import RunState
from tests.fakes.directories import WrittenRun
from tests.fakes.runs import STARTED, a_spec, exited, run_ended

FAILS = """\
import os, time
for step in range(200):
    print("step", step)
open("said-" + os.environ["RANK"], "w").close()
if os.environ["RANK"] == "1":
    while not os.path.exists("said-0"): time.sleep(0.01)
    raise ValueError("no such file")
time.sleep(60)
"""
WAITS = "import time\nprint('step 1/9 loss 0.5')\ntime.sleep(600)\n"


def server_in(folder: Path, allowed: str) -> StdioServerParameters:
    """Start a server in the folder as an agent does, which allows these tools."""
    words = ["-m", "nbdist", "mcp", "--allow", allowed]
    return StdioServerParameters(command=sys.executable, args=words, env=dict(os.environ), cwd=folder)


async def answer(client: Client, tool: str, **arguments: Any) -> Mapping[str, Any]:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    assert result.structured_content is not None
    return result.structured_content


@pytest.mark.usefixtures("leaves_nothing")
def test_an_agent_starts_follows_explains_and_stops_runs(home: Path, tmp_path: Path) -> None:
    (tmp_path / "waits.py").write_text(WAITS)
    server = server_in(tmp_path, "start,stop")

    async def work() -> None:
        async with Client(server) as client:
            tools = (await client.list_tools()).tools
            assert {tool.name for tool in tools if not tool.annotations.read_only_hint} == {
                *("start", "stop", "stacks")
            }
            assert len(tools) == 9

            begun = await answer(client, "start", cell=FAILS, options="-n 2 --name fails")
            waiting = await answer(client, "start", script="waits.py")
            assert (await answer(client, "wait", run=begun["run_id"]))["moment"] == "ended"
            failure = (await answer(client, "explain", run="fails"))["failure"]
            assert (failure["rank"], failure["line"], failure["untrusted"]["kind"]) == (1, 7, "ValueError")
            assert await all_lines(client, "fails") == {
                (rank, f"step {n}") for rank in (0, 1) for n in range(200)
            }

            # one call that waits holds no other up
            ended = asyncio.create_task(answer(client, "wait", run=waiting["run_id"], until="ended"))
            assert (await answer(client, "wait", run="waits", until="step=1"))["moment"] == "step=1"
            assert "waits.py" in (await answer(client, "stacks", run="waits"))["untrusted"]["text"]
            assert (await answer(client, "stop", run=waiting["run_id"]))["state"] == "stopped"
            assert (await ended)["moment"] == "ended"
            assert "has already ended" in (await answer(client, "stop", run="waits"))["error"]

    asyncio.run(work())


async def all_lines(client: Client, run: str) -> set[tuple[int, str]]:
    """Read the lines of the ranks by offset, without the traceback."""
    lines: list[tuple[int, str]] = []
    since, more = "0", True
    while more:
        reply = await answer(client, "logs", run=run, since=since)
        lines += [(line["rank"], line["text"]) for line in reply["untrusted"]["lines"]]
        since, more = reply["next"], reply["more"]
    steps = [line for line in lines if line[1].startswith("step")]
    assert len(set(steps)) == len(steps)
    return set(steps)


VALUES: Mapping[str, tuple[object, ...]] = {
    "run": ("", "lenet", "k3f9", "ended", "../..", "\x1b[2J", "e" * 300, 7, None),
    "rank": (None, 0, 1, -1, 10**12, "x"),
    "since": ("", "0", "0:0,1:0", "0:5+2", "1:99999999", "9:9:9", "-1"),
    "tail": (1, 0, -5, 10**18, "many"),
    "grep": ("", "step", "(", ".*"),
    "last": (1, -1, 10**18, None),
    "until": ("ended", "running", "step=3", "", "step=", "never"),
    "timeout": (0, 0.01, -3, "soon"),
    "script": ("", "waits.py", "-m os", "--no-python true", "nothing.py"),
    "cell": ("", "print(1)", "%%distributed -n 2\nprint(1)", "x = ("),
    "options": ("", "-n 2", "--log-dir .", "-n x"),
    "unknown": (1,),
}


def state_of(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Return the times and contents of all files below."""
    return {
        str(path): (path.lstat().st_mtime_ns, path.read_bytes() if path.is_file() else b"")
        for path in folder.rglob("*")
    }


def test_without_an_allowance_no_call_changes_anything(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Make two hundred calls. ``doctor`` is left out: it imports frameworks, in processes that end."""
    monkeypatch.delenv(config.TOOLS_ALLOW, raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "waits.py").write_text(WAITS)
    WrittenRun(home).happened(*STARTED).printed(0, "step 1 loss 0.5\n" * 900).recorded(1, loss=0.5)
    ended = WrittenRun(home, a_spec(run_id="20261120-141504-ended-a2b3", name="ended"))
    ended.happened(*STARTED, exited(0), exited(1, 1), run_ended(RunState.FAILED, "rank 1 failed"))
    chance = random.Random(24)
    before, children = state_of(tmp_path), psutil.Process().children(recursive=True)

    async def work() -> int:
        answered = 0
        async with Client(make_server()) as client:
            tools = [tool for tool in (await client.list_tools()).tools if tool.name != "doctor"]
            for _ in range(200):
                tool = chance.choice(tools)
                names = [*tool.input_schema["properties"], *(["unknown"] if chance.random() < 0.05 else [])]
                given = {name: chance.choice(VALUES[name]) for name in names if chance.random() < 0.8}
                if tool.name == "wait":
                    given.setdefault("timeout", 0)
                result = await client.call_tool(tool.name, given)
                answered += not result.is_error and "error" not in (result.structured_content or {})
        return answered

    assert asyncio.run(work()) > 40
    assert state_of(tmp_path) == before
    assert psutil.Process().children(recursive=True) == children
    assert not list(processes.marked("NBDIST_HOME", str(home)))


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--allow", "fly"], "--allow fly: there are start, stop, stacks: write  --allow start,stop"),
        (["start"], "write  nbdist mcp [--allow NAMES]"),
    ],
    ids=["an unknown name", "no flag"],
)
def test_a_mistake_says_what_to_type(
    words: list[str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["mcp", *words]) == 2

    assert expected in capsys.readouterr().err


def test_without_the_sdk_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)

    assert main(["mcp"]) == 1

    assert capsys.readouterr().err == (
        'nbdist: the Python SDK of MCP is not installed here: pip install "nbdist[mcp]"\n'
    )
