"""Messages from and to Ray, without a Ray."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from nbdist.engines.engine import Phase
from nbdist.engines.options import find_address, find_token, parse_address
from nbdist.engines.ray import (
    STARTS,
    TROUBLE,
    WAITS,
    Ray,
    RayApi,
    carried,
    entrypoint,
    line,
    status_of,
    why_it_waits,
)
from nbdist.engines.ray_driver import Node, take_environment
from nbdist.errors import LaunchError, UsageMistake
from nbdist.model import Reason, RunState
from nbdist.store.paths import RunDirectory
from nbdist.text import reason_text
from tests.engines.conftest import until
from tests.fakes.ray_head import RayHead, ray_head
from tests.fakes.runs import on_two_nodes

TOKEN = "0123456789abcdef"


@pytest.mark.parametrize(
    ("written", "address"),
    [
        ("head", "http://head:8265"),
        ("head:9000", "http://head:9000"),
        ("http://10.0.0.1:8265/", "http://10.0.0.1:8265"),
        ("https://lab.example/ray/", "https://lab.example/ray"),
        ("[::1]:8265", "http://[::1]:8265"),
    ],
)
def test_an_address_is_completed(written: str, address: str) -> None:
    assert parse_address(written) == address


@pytest.mark.parametrize(
    ("written", "instead"),
    [
        pytest.param("ray://head:10001", "--ray http://head:8265", id="for Ray's clients"),
        pytest.param("auto", "--ray http://head:8265", id="auto"),
        pytest.param("http://", "--ray http://head:8265", id="no host"),
        pytest.param("head:port", "--ray http://head:8265", id="no number"),
        pytest.param("http://me:secret@head", "RAY_AUTH_TOKEN", id="a password"),
        pytest.param("http://head; touch x", "--ray http://head:8265", id="a shell's words"),
    ],
)
def test_what_is_no_address_is_refused_with_what_to_type(written: str, instead: str) -> None:
    with pytest.raises(UsageMistake, match=instead) as refused:
        parse_address(written)

    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("written", "environ", "address"),
    [
        pytest.param("a", {"RAY_ADDRESS": "http://b:1"}, "http://a:8265", id="what is asked for comes first"),
        pytest.param(
            "",
            {"RAY_API_SERVER_ADDRESS": "http://c:1", "RAY_ADDRESS": "b:6379"},
            "http://c:1",
            id="as Ray does",
        ),
        pytest.param("", {"RAY_ADDRESS": "http://b:1"}, "http://b:1", id="the other name"),
    ],
)
def test_an_address_is_found(written: str, environ: Mapping[str, str], address: str) -> None:
    assert find_address(written, environ) == address


@pytest.mark.parametrize(
    ("environ", "advice"),
    [
        pytest.param({}, "which one", id="nothing"),
        pytest.param(
            {"RAY_ADDRESS": "10.0.0.1:6379"}, "RAY_ADDRESS=10.0.0.1:6379", id="within a job of Ray's"
        ),
    ],
)
def test_without_an_address_it_is_said_what_to_type(environ: Mapping[str, str], advice: str) -> None:
    with pytest.raises(UsageMistake, match=advice) as refused:
        find_address("", environ)

    assert "--ray http://head:8265" in str(refused.value)


def test_a_token_is_found_where_ray_looks_for_it(tmp_path: Path) -> None:
    (tmp_path / ".ray").mkdir()
    (tmp_path / ".ray" / "auth_token").write_text("of the home\n")
    (tmp_path / "other").write_text("of a file")
    home = {"HOME": str(tmp_path)}

    assert find_token(home) == "of the home"
    assert find_token(home | {"RAY_AUTH_TOKEN_PATH": str(tmp_path / "other")}) == "of a file"
    assert find_token(home | {"RAY_AUTH_TOKEN": "said"}) == "said"
    assert find_token(home | {"RAY_AUTH_MODE": "disabled"}) == ""
    assert find_token({"HOME": str(tmp_path / "nowhere")}) == ""


LOST = line(WAITS, Reason("ray-lost-node", node="n1"))


@pytest.mark.parametrize(
    ("answer", "log", "phase", "reason"),
    [
        pytest.param("PENDING", "", Phase.WAITING, "Ray has not started it yet", id="not begun"),
        pytest.param("RUNNING", "", Phase.WAITING, "Ray is looking for nodes", id="no word yet"),
        pytest.param("RUNNING", f"x\n{LOST}\n", Phase.WAITING, "Ray lost the node n1", id="waits"),
        pytest.param("RUNNING", f"{WAITS}a\n{STARTS}n1, n2\nx\n", Phase.RUNNING, "", id="has its nodes"),
        pytest.param("RUNNING", f"{STARTS}n1\n{WAITS}a\n", Phase.WAITING, "a", id="begins again"),
        pytest.param("RUNNING", f"{STARTS}n1\n{TROUBLE}b\n", Phase.RUNNING, "", id="about to end"),
        pytest.param("SUCCEEDED", "", Phase.OVER, "the job finished", id="completed"),
        pytest.param("FAILED", f"{TROUBLE}no such\n", Phase.OVER, "no such", id="says why"),
        pytest.param("STOPPED", "", Phase.OVER, "Ray job j was stopped outside nbdist", id="stopped"),
        pytest.param("ELSE", "", Phase.UNKNOWN, "Ray reports the job as ELSE", id="of a newer Ray"),
    ],
)
def test_how_a_job_stands_is_read(answer: str, log: str, phase: Phase, reason: str) -> None:
    status = status_of({"status": answer, "message": "m"}, log, "j")

    assert status.phase is phase
    assert reason_text(status.reason).removesuffix(" of the run") == reason


@pytest.mark.parametrize(
    ("error_type", "outcome"),
    [
        pytest.param("JOB_ENTRYPOINT_COMMAND_ERROR", None, id="the run itself"),
        pytest.param("JOB_SUPERVISOR_ACTOR_DIED", RunState.FAILED, id="its head's node"),
    ],
)
def test_only_an_end_from_outside_is_an_outcome(error_type: str, outcome: RunState | None) -> None:
    answer = {"status": "FAILED", "message": "it died", "error_type": error_type}

    assert status_of(answer, "", "j").outcome is outcome


@pytest.mark.parametrize(
    ("nodes", "totals", "words"),
    [
        pytest.param(
            3,
            [{"CPU": 2.0}] * 2,
            "it asks for 3 nodes with 2 CPUs each, and 2 of 2 nodes in Ray have that",
            id="few",
        ),
        pytest.param(
            1, [{"CPU": 1.0}], "it asks for 1 node with 2 CPUs, and 0 of 1 node in Ray have that", id="small"
        ),
        pytest.param(2, [{"CPU": 4.0}] * 2, "waiting for 2 free nodes with 2 CPUs each", id="busy"),
    ],
)
def test_why_a_job_waits_is_said_in_words(nodes: int, totals: list[dict[str, float]], words: str) -> None:
    assert words in reason_text(why_it_waits(nodes, "CPU", 2.0, totals))


def test_what_belongs_to_this_machine_stays_here() -> None:
    here = {"RAY_AUTH_TOKEN": "x", "HOME": "/h", "SLURM_JOB_ID": "1", "FLAG": "1", "TERM": "xterm"}

    assert carried(here, {}) == {"FLAG": "1"}
    assert carried(here, {"TERM": "dumb"}) == {"FLAG": "1", "TERM": "xterm"}


SPEC = on_two_nodes("ray", python=sys.executable)


def run_directory(folder: Path, name: str = "20261121-120000-x-abcd") -> RunDirectory:
    (folder / name).mkdir()
    directory = RunDirectory(folder / name)
    directory.spec.write_text("{}")
    return directory


@pytest.mark.parametrize(
    ("hidden", "problem"),
    [
        pytest.param(True, "Ray's head does not see the run's directory", id="no shared directory"),
        pytest.param(False, "has ray 0.0.0", id="no Python with this Ray"),
    ],
)
def test_the_line_that_ray_runs_says_what_is_missing(tmp_path: Path, hidden: bool, problem: str) -> None:
    directory = run_directory(tmp_path)
    line = entrypoint(directory, SPEC, "0.0.0")
    if hidden:
        directory.spec.unlink()

    done = subprocess.run(["/bin/sh", "-c", line], capture_output=True, text=True, env={"PATH": os.defpath})

    assert done.returncode == 1
    status = status_of({"status": "FAILED"}, done.stdout, "j")
    assert problem in reason_text(status.reason)
    assert status.outcome is RunState.FAILED


def test_no_value_is_read_by_the_shell(tmp_path: Path) -> None:
    evil = "$(touch evil) `touch evil`; touch evil 'x\" &"
    directory = run_directory(tmp_path, evil)
    python = tmp_path / evil / "python"
    python.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    python.chmod(0o755)

    done = subprocess.run(
        ["/bin/sh", "-c", entrypoint(directory, replace(SPEC, python=str(python)), "1.0$(touch evil)")],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={"PATH": "/nowhere"},
    )

    assert done.stdout.splitlines()[-1] == str(directory.path), done.stderr
    assert list(tmp_path.glob("**/evil")) == []


@pytest.mark.parametrize(
    ("missing", "problem"),
    [
        pytest.param("spec.json", "does not see", id="no shared directory"),
        pytest.param("node.py", "does not see", id="no nbdist"),
        pytest.param("python", "which is the Python of the ranks", id="no Python"),
        pytest.param("", "", id="all there"),
    ],
)
def test_a_node_says_what_it_lacks(tmp_path: Path, missing: str, problem: str) -> None:
    for name in ("spec.json", "node.py", "python"):
        (tmp_path / name).touch(mode=0o700)
    if missing:
        (tmp_path / missing).unlink()
    needed = [str(tmp_path / "spec.json"), str(tmp_path / "node.py")]

    answer = Node().problem(needed, str(tmp_path / "python"))

    assert problem in answer
    assert bool(answer) is bool(missing)


REFUSALS = [
    pytest.param(401, "Unauthorized", "wants a token: %env RAY_AUTH_TOKEN", id="no token"),
    pytest.param(403, "Forbidden", "does not accept the token", id="another token"),
    pytest.param(404, "Not Found", "is not the dashboard of a Ray", id="something else"),
    pytest.param(500, "Traceback\nValueError: no agent\n", "no agent (HTTP 500)", id="an error of Ray's"),
    pytest.param(200, "<html>", "not as Ray's dashboard does", id="a page"),
    pytest.param(302, "", "leads on to http://evil/", id="leads elsewhere"),
]


@pytest.mark.parametrize(("status", "text", "advice"), REFUSALS)
def test_a_refusal_says_what_to_do_and_leaves_nothing(
    tmp_path: Path, status: int, text: str, advice: str
) -> None:
    with ray_head(headers={"Location": "http://evil/"}) as head:
        head.says("/api/version", text, status)
        with pytest.raises(LaunchError) as refused:
            RayApi(head.address, TOKEN).version()

    assert advice in str(refused.value).replace("ValueError: ", "")
    assert TOKEN not in str(refused.value)
    assert [who for _, who, _ in head.heard] == [f"Bearer {TOKEN}"]


def test_nobody_there_is_said() -> None:
    with ray_head() as head:
        gone = head.address

    with pytest.raises(
        LaunchError, match=r"no Ray answers at http://127\.0\.0\.1:.*refused.*--ray http://head:8265"
    ):
        RayApi(gone, "").version()


def test_a_ray_that_does_not_answer_is_not_waited_for() -> None:
    with (
        ray_head(mute=frozenset({"/api/version"})) as head,
        pytest.raises(LaunchError, match=r"did not answer in 0\.2 s"),
    ):
        RayApi(head.address, "", patience=0.2).version()


def on(head: RayHead) -> Ray:
    return Ray([f"address={head.address}"])


def test_secrets_reach_a_job_by_a_file_of_its_user_alone(tmp_path: Path) -> None:
    directory = run_directory(tmp_path)
    environment = {"RAY_AUTH_TOKEN": TOKEN, "API_KEY": "s3cret"}

    with ray_head() as head:
        head.says("/api/jobs/", {"submission_id": "j"})
        job = on(head).submit(directory, SPEC, environment)

    (_, who, body) = head.heard[-1]
    assert who == f"Bearer {TOKEN}"
    assert json.loads(body)["submission_id"] == job
    assert {TOKEN, "s3cret"} & set(re.findall(r"\w+", body)) == set()
    files = {path: path.read_text() for path in directory.path.rglob("*") if path.is_file()}
    assert not [path for path, text in files.items() if TOKEN in text]
    assert [path for path, text in files.items() if "s3cret" in text] == [directory.job_environment]
    assert directory.job_environment.stat().st_mode & 0o077 == 0


def test_the_driver_takes_the_environment_and_leaves_no_file(tmp_path: Path) -> None:
    directory = run_directory(tmp_path)
    environment = {"API_KEY": "s3cret", "NAME": "caf\udce9"}

    with ray_head() as head:
        head.says("/api/jobs/", {"submission_id": "j"})
        on(head).submit(directory, SPEC, environment)

    assert take_environment(directory) == environment
    assert not directory.job_environment.exists()


def test_a_ray_that_takes_no_jobs_yet_is_asked_again(tmp_path: Path) -> None:
    with ray_head() as head, ThreadPoolExecutor(1) as pool:
        head.says("/api/jobs/", "No available agent to submit job, please try again later.", 500)
        submitted = pool.submit(on(head).submit, run_directory(tmp_path), SPEC, {})
        until(lambda: any(path == "POST /api/jobs/" for path, _, _ in head.heard))
        head.says("/api/jobs/", {"submission_id": "j"})

        assert submitted.result(60).startswith("nbdist-")


def test_a_job_that_ray_has_forgotten_is_known_to_be() -> None:
    with ray_head() as head:
        assert on(head).status("j", SPEC).phase is Phase.FORGOTTEN


def test_a_ray_that_has_gone_is_no_mistake_in_the_address() -> None:
    with ray_head() as head:
        engine = on(head)

    status = engine.status("j", SPEC)

    assert status.phase is Phase.UNKNOWN
    assert reason_text(status.reason).startswith(f"no Ray answers at {head.address} (")
    assert "--ray" not in reason_text(status.reason)


def test_a_job_that_has_its_nodes_is_not_asked_again_for_what_it_says() -> None:
    with ray_head() as head:
        head.says("/api/jobs/j", {"status": "RUNNING"})
        head.says("/api/jobs/j/logs", {"logs": f"{STARTS}10.0.0.1\n"})
        engine = on(head)
        phases = [engine.status("j", SPEC).phase for _ in range(3)]

    assert phases == [Phase.RUNNING] * 3
    assert [path for path, _, _ in head.heard].count("GET /api/jobs/j/logs") == 1


def test_ray_has_no_kind_word_for_the_supervisors() -> None:
    with ray_head() as head:
        head.says("/api/jobs/j/stop", {"stopped": True})
        stopped = [on(head).stop("j", gently=gently) for gently in (True, False)]

    assert stopped == [False, True]
    assert [path for path, _, _ in head.heard] == ["POST /api/jobs/j/stop"]
