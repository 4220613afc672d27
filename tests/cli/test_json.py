"""The output of --json: it fits ``json.schema.json``, and within a version no field goes."""

from __future__ import annotations

import json
import math
import re
import shlex
import signal
import time
from collections.abc import Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from nbdist.cli import verb_results
from nbdist.cli.commands import main
from nbdist.doctor.examination_report import Entry, Level, Report
from nbdist.model import RunState
from nbdist.runner import RunHandle
from nbdist.store import RunDirectory, RunStore
from nbdist.verbs.machines import Examined
from tests.cli.conftest import Shell, read_until
from tests.fakes.directories import WrittenRun
from tests.fakes.runs import CREATED, a_spec, errored, exited, run_ended, stalled
from tests.programs import until

SCHEMA = json.loads((files("nbdist.verbs") / "json.schema.json").read_text())
FIELDS = Path(__file__).parents[1] / "fixtures" / "json-1.txt"
PAGE = Path(__file__).parents[2] / "docs" / "json.md"
OPENAPI = files("nbdist.server") / "openapi.yaml"
FAILS = """\
import os, time
print("ready")
open("said-" + os.environ["RANK"], "w").close()
if os.environ["RANK"] == "1":
    while not os.path.exists("said-0"): time.sleep(0.01)
    raise ValueError("no such file")
time.sleep(60)
"""
WAITS = "import os, time\nprint('ready')\nwhile not os.path.exists('go'): time.sleep(0.01)\nprint('done')\n"


def check(command: str, text: str) -> Any:
    """Parse the output of a command, and check it against its schema."""
    data = json.loads(text)
    Draft202012Validator({**SCHEMA, "$ref": f"#/$defs/{command}"}).validate(data)
    return data


def check_lines(text: str) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Parse the lines of logs, and the object behind them."""
    *lines, end = [check("logs", line) for line in text.splitlines()]
    return lines, end


def fields_of(schema: Mapping[str, Any], at: str) -> Iterator[str]:
    """Yield the promised fields below a place, as ``explain.failure.rank``."""
    if "$ref" in schema:
        yield from fields_of(SCHEMA["$defs"][schema["$ref"].rpartition("/")[2]], at)
    for name in schema.get("required", ()):
        yield f"{at}.{name}"
        yield from fields_of(schema["properties"][name], f"{at}.{name}")
    for part in (*schema.get("anyOf", ()), *schema.get("allOf", ())):
        yield from fields_of(part, at)
    for inside in ("items", "additionalProperties"):
        if isinstance(schema.get(inside), dict):
            yield from fields_of(schema[inside], f"{at}[]")


def test_within_a_version_no_field_goes() -> None:
    commands = [name for name in SCHEMA["$defs"] if name.islower()]
    promised = sorted({field for name in commands for field in fields_of(SCHEMA["$defs"][name], name)})

    recorded = FIELDS.read_text().split()

    assert not set(recorded) - set(promised), "a field of version 1 is gone: it takes a version 2"
    assert promised == recorded, "there are new fields: add them to the fixture"


def test_the_servers_description_names_the_same_fields() -> None:
    published = yaml.safe_load(OPENAPI.read_text())["components"]["schemas"]["Explanation"]

    assert published["required"] == SCHEMA["$defs"]["Explanation"]["required"]


def failed(written: WrittenRun) -> WrittenRun:
    written.raised(1, "ValueError", "no such file", frames=[(written.spec.program, 1, "<module>", "")])
    return written.happened(errored(1), exited(1, 1), run_ended(RunState.FAILED, "rank 1 failed"))


def test_the_status_of_a_failed_run_has_its_failure(
    written: WrittenRun, capsys: pytest.CaptureFixture[str]
) -> None:
    failed(written)

    assert main(["status", "--json"]) == 0

    (view,) = check("status", capsys.readouterr().out)
    assert (view["version"], view["failure"]["rank"]) == (1, 1)
    assert view["failure"]["message"] == "ValueError: no such file"


def test_a_run_that_stalls_is_explained_with_its_status(
    written: WrittenRun, capsys: pytest.CaptureFixture[str]
) -> None:
    written.happened(stalled())

    assert main(["explain", "--json"]) == 0
    assert check("explain", capsys.readouterr().out)["stall"]["seconds"] > 0
    assert main(["status", "--json"]) == 0
    assert check("status", capsys.readouterr().out)[0]["stall"]["since"] > 0
    assert main(["explain"]) == 0
    assert "No progress for" in capsys.readouterr().out


def test_metrics_are_the_last_points_of_each_run(
    written: WrittenRun, capsys: pytest.CaptureFixture[str]
) -> None:
    for step in range(5):
        for rank in (0, 1):
            with written.directory.rank(rank).metrics.open("a") as file:
                values = {"loss": step + rank, "grad": math.nan}
                file.write(json.dumps({"t": CREATED, "step": 10 * step, "v": values}) + "\n")

    assert main(["metrics", "lenet", "lenet", "--json", "--last", "2"]) == 0

    first, second = check("metrics", capsys.readouterr().out)
    assert first == second
    assert first["metrics"]["loss"] == [{"step": 30, "value": 3.5}, {"step": 40, "value": 4.5}]
    assert first["metrics"]["grad"][-1] == {"step": 40, "value": "nan"}
    assert main(["metrics"]) == 0
    assert "loss  4.5 (40)" in capsys.readouterr().out


def test_runs_are_compared_with_what_differs_and_what_does_not(
    written: WrittenRun, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written.recorded(0, loss=math.nan)
    other = WrittenRun(home, a_spec(run_id="20261120-141503-other-m2a1", name="other", retries=2))
    other.recorded(0, loss=0.5)

    assert main(["compare", "lenet", "other", "--json"]) == 0
    compared = check("compare", capsys.readouterr().out)
    values = {(row["group"], row["name"]): row["values"] for row in compared["rows"]}
    assert (values["last", "loss"], values["best", "loss"]) == (["nan", 0.5], [None, 0.5])
    assert all(row["differs"] for row in compared["rows"])
    assert compared["against"] == written.spec.run_id

    assert main(["compare", "lenet", "--all", "--json"]) == 0
    compared = check("compare", capsys.readouterr().out)
    assert [run["label"] for run in compared["runs"]] == ["other-m2a1", "lenet-k3f9"]
    assert any(not row["differs"] for row in compared["rows"])

    assert main(["compare"]) == 0
    assert "--retries" in capsys.readouterr().out


def test_one_run_alone_cannot_be_compared(written: WrittenRun, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare"]) == 2
    assert "there is no second run to compare" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "code", "moment", "late"),
    [
        pytest.param(["--until", "failed,step=9"], 0, "failed", False, id="it has come"),
        pytest.param([], 0, "ended", False, id="the end"),
        pytest.param(["--until", "finished,step=9"], 1, None, False, id="it will not come"),
    ],
)
def test_wait_says_which_moment_has_come(
    written: WrittenRun,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    code: int,
    moment: str | None,
    late: bool,
) -> None:
    failed(written)

    assert main(["wait", *words, "--json"]) == code

    data = check("wait", capsys.readouterr().out)
    assert (data["moment"], data["late"], data["state"]) == (moment, late, "failed")
    assert main(["wait", *words]) == code
    assert capsys.readouterr().out.strip() == (moment or "")


def test_wait_ends_when_the_time_is_over(written: WrittenRun, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["wait", "--timeout", "0.1s", "--json"]) == 124

    data = check("wait", capsys.readouterr().out)
    assert (data["moment"], data["late"], data["live"]) == (None, True, True)


def test_logs_say_from_where_to_read_on(written: WrittenRun, capsys: pytest.CaptureFixture[str]) -> None:
    written.printed(0, "a\nb\n").printed(1, "c\n")

    assert main(["logs", "--json"]) == 0
    lines, end = check_lines(capsys.readouterr().out)
    assert [(line["rank"], line["offset"], line["untrusted"]["text"]) for line in lines] == [
        (0, 0, "a"),
        (0, 2, "b"),
        (1, 0, "c"),
    ]
    assert end["next"] == "0:4,1:2"

    written.printed(1, "d\n")
    assert main(["logs", "--json", "--since", end["next"]]) == 0
    lines, end = check_lines(capsys.readouterr().out)
    assert [(line["rank"], line["untrusted"]["text"]) for line in lines] == [(1, "d")]

    assert main(["logs", "--json", "--rank", "0", "--since", "2", "--grep", "b"]) == 0
    lines, _ = check_lines(capsys.readouterr().out)
    assert [line["untrusted"]["text"] for line in lines] == ["b"]
    assert main(["logs", "--json", "--tail", "1"]) == 0
    lines, _ = check_lines(capsys.readouterr().out)
    assert [line["untrusted"]["text"] for line in lines] == ["b", "d"]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["logs", "--since", "5"], "write  nbdist logs --json --since"),
        (["logs", "--json", "--since", "x"], "write what --json has printed as next:  --since 0:4096,1:80"),
        (["metrics", "--last", "0"], "--last 0: write a number of points"),
        (["compare", "lenet", "--step", "x"], "--step x: write a step"),
        (["wait", "--until", "done"], "is none of running, stalled, failed"),
        (["wait", "--timeout", "soon"], "--timeout soon: write a time"),
    ],
    ids=" ".join,
)
def test_what_cannot_be_asked_says_what_to_write(
    written: WrittenRun, capsys: pytest.CaptureFixture[str], words: list[str], expected: str
) -> None:
    assert main(words) == 2

    shown = capsys.readouterr()
    assert shown.out == ""
    assert expected in shown.err


def test_what_there_is_about_machines_fits_the_schema(capsys: pytest.CaptureFixture[str]) -> None:
    entry = Entry(section="python", title="Python", level=Level.OK, what="3.12")

    verb_results.show_examined(Examined(report=Report(entries=(entry,), seconds=0.5), mended=(), json=True))
    assert check("doctor", capsys.readouterr().out)["version"] == 1


def test_the_lines_to_paste_can_be_typed(written: WrittenRun, capsys: pytest.CaptureFixture[str]) -> None:
    failed(written).printed(0, "a\n")
    block = PAGE.read_text().split("```sh\n")[1].split("```")[0]
    block = re.sub(r"\$\(tail .*\)", "0:0,1:0", block).replace("$run", written.run.label)
    lines = [shlex.split(line.partition("#")[0].partition(">")[0]) for line in block.splitlines()]
    looks = [words[1:] for words in lines if words[1] in ("wait", "explain", "metrics", "logs", "status")]

    assert len(lines) == 10
    assert len(looks) == 6
    for words in looks:
        assert main(words) == 0, words
        shown = capsys.readouterr().out
        if words[0] == "logs":
            check_lines(shown)
        else:
            check(words[0], shown)


def test_run_prints_one_object_and_all_else_is_elsewhere(shell: Shell) -> None:
    shell.script("train.py", FAILS)

    done = shell.run("run", "-n", "2", "--json", "train.py")

    data = check("run", done.stdout)
    assert done.stdout.count("\n") == 1
    assert (done.returncode, data["exit_code"], data["state"]) == (1, 1, "failed")
    assert (data["failure"]["rank"], data["failure"]["line"]) == (1, 6)
    assert "[0] ready" in done.stderr
    assert "rank 1 failed first" in done.stderr
    again = check("explain", shell.run("explain", "--json").stdout)
    assert data == again | {"exit_code": 1}


def test_a_detached_run_is_an_object_at_once_and_its_stacks_are_one(shell: Shell) -> None:
    shell.script("train.py", WAITS)

    data = check("run", shell.run("run", "-d", "-n", "1", "--json", "train.py").stdout)
    handle = shell.until_printed("ready")
    stacks = check("stacks", shell.run("stacks", "--json").stdout)

    assert (data["run_id"], data["live"], data["exit_code"]) == (handle.run_id, True, 0)
    assert (stacks["version"], stacks["live"]) == (1, True)
    handle.stop()


def test_an_interrupted_run_is_an_object_too(shell: Shell) -> None:
    shell.script("train.py", WAITS)
    running = shell.start("run", "-n", "1", "--json", "train.py")
    shell.until_printed("ready")

    running.send_signal(signal.SIGINT)
    done = shell.finish(running)

    data = check("run", done.stdout)
    assert (done.returncode, data["exit_code"], data["state"]) == (130, 130, "stopped")


def test_logs_are_followed_as_objects_until_the_run_ends(shell: Shell) -> None:
    shell.script("train.py", WAITS)
    shell.run("run", "-d", "-n", "1", "train.py")
    following = shell.start("logs", "--json", "-f")

    seen = read_until(following, "ready")
    (shell.folder / "go").touch()

    lines, end = check_lines(seen + shell.finish(following).stdout)
    assert [line["untrusted"]["text"] for line in lines] == ["ready", "done"]
    assert end["state"] == "finished"


def test_wait_wakes_soon_after_the_failure(shell: Shell) -> None:
    shell.script("train.py", FAILS.replace("    raise", "    time.sleep(0.5)\n    raise"))
    run_id = json.loads(shell.run("run", "-d", "-n", "2", "--json", "train.py").stdout)["run_id"]
    handle = RunHandle(RunDirectory(shell.home / "runs" / run_id))

    came = handle.wait(20, until="failed,step=5")
    woken = time.time()

    errored_at = [rank.errored for rank in handle.run.ranks if rank.errored is not None]
    assert came == "failed"
    assert woken - min(errored_at) < 10.0
    assert handle.wait(20) == "failed"
    until(lambda: not shell.left())
    assert RunStore(shell.home).directories() == [handle.directory]
