"""The doctor and a Ray: what its dashboard answers, and what a job of it says of the nodes."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from nbdist.doctor import Level
from nbdist.doctor.node_probe import MARK
from nbdist.doctor.ray import RayJob, find_ray
from nbdist.engines.ray import RayApi

TOKEN = "a-token-of-a-test"
HELLO = {"job": "", "port": 1, "python": "3.11.7", "time": 1.0, "packages": {}, "gpus": 0, "host": "h"}


class Dashboard(ThreadingHTTPServer):
    """In the place of Ray's: it knows one token, and one job, which says what the test lets it say."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answers)
        self.submitted: dict[str, Any] = {}
        self.stopped = False
        self.status = "RUNNING"
        self.says: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def log(self) -> str:
        """As a job would say it that has found the file which it is told of."""
        told = json.loads(self.submitted["runtime_env"]["env_vars"]["NBDIST_DOCTOR"])
        for number in range(told["nodes"]):
            Path(told["look"]["mine"].format(node=number)).write_text(told["token"])
        return "".join(f"{line}\n" for line in ["something of Ray's own", *self.says])


class _Answers(BaseHTTPRequestHandler):
    server: Dashboard

    def do_GET(self) -> None:
        if self.path == "/api/version":
            self._answer({"ray_version": "2.60.0"})
        elif self.path.endswith("/logs"):
            self._answer({"logs": self.server.log()})
        else:
            self._answer({"status": self.server.status, "message": "it went wrong"})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.path.endswith("/stop"):
            self.server.stopped = True
        else:
            self.server.submitted = json.loads(body)
        self._answer({"stopped": True})

    def _answer(self, value: object) -> None:
        allowed = self.headers.get("Authorization") == f"Bearer {TOKEN}"
        self.send_response(200 if allowed else 401 if "Authorization" not in self.headers else 403)
        self.end_headers()
        self.wfile.write(json.dumps(value if allowed else {}).encode())

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def dashboard() -> Iterator[Dashboard]:
    with Dashboard() as up:
        thread = threading.Thread(target=up.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        yield up
        up.shutdown()
        thread.join()


def said(what: str, **more: Any) -> str:
    return MARK + json.dumps({"say": what, **more})


def test_a_ray_that_answers_is_well(dashboard: Dashboard) -> None:
    entries, api = find_ray(dashboard.url, {"RAY_AUTH_TOKEN": TOKEN})

    assert {entry.level for entry in entries} == {Level.OK}
    assert "Ray 2.60.0" in [entry.what for entry in entries]
    assert api is not None


@pytest.mark.parametrize(
    ("token", "what"),
    [
        pytest.param("", "wants a token", id="none"),
        pytest.param("wrong", "does not accept the token", id="a wrong one"),
    ],
)
def test_a_token_that_is_missing_or_wrong_is_named(
    dashboard: Dashboard, tmp_path: Path, token: str, what: str
) -> None:
    # a home without the file in which Ray keeps its own
    environment = {"HOME": str(tmp_path), "RAY_AUTH_TOKEN": token}

    (entry,), api = find_ray(dashboard.url, environment)

    assert (entry.title, entry.level) == ("token", Level.ERROR)
    assert what in entry.what
    assert "RAY_AUTH_TOKEN" in entry.fix
    assert api is None


@pytest.mark.parametrize(
    ("address", "what"),
    [
        pytest.param("http://127.0.0.1:1", "no Ray answers at http://127.0.0.1:1", id="nobody there"),
        pytest.param("ray://head:10001", "that is for Ray's own clients", id="another protocol"),
        pytest.param("", "--on ray", id="none at all"),
    ],
)
def test_an_address_that_leads_nowhere_says_what_to_write(address: str, what: str) -> None:
    (entry,), api = find_ray(address, {})

    assert (entry.title, entry.level) == ("address", Level.ERROR)
    assert what in f"{entry.what}: {entry.fix}"
    assert "--ray http://" in entry.fix
    assert api is None


def test_the_nodes_are_looked_at_by_a_job_that_is_ended(dashboard: Dashboard, tmp_path: Path) -> None:
    looked = {"seen": 0.0, "wrote": "", "folder": True, "names": {}, "unreachable": {}}
    dashboard.says = [said("cluster", gpus={"h1": 2}), said("hello", name="h1", number=0, **HELLO)]
    dashboard.says += ["nbdist-no-python h2", said("looked", name="h1", **looked), said("done")]
    job = RayJob(RayApi(dashboard.url, TOKEN), nodes=2, home=tmp_path, wait=5.0)

    words = job.run()

    assert sorted(words.nodes) == ["h1", "h2"]
    assert not words.nodes["h2"].has_python
    assert words.nodes["h1"].late is not None
    assert job.gpus == {"h1": 2}
    assert dashboard.stopped
    assert list(tmp_path.rglob("here")) == []


@pytest.mark.parametrize(
    ("status", "says", "waits", "noise"),
    [
        pytest.param(
            "RUNNING", [said("waits", reason="asks for 9 nodes")], "asks for 9 nodes", "", id="waits"
        ),
        pytest.param("FAILED", [], "", "it went wrong", id="fails"),
    ],
)
def test_a_job_that_does_not_come_to_look_says_why(
    dashboard: Dashboard, tmp_path: Path, status: str, says: list[str], waits: str, noise: str
) -> None:
    dashboard.status, dashboard.says = status, says

    words = RayJob(RayApi(dashboard.url, TOKEN), nodes=2, home=tmp_path, wait=5.0).run()

    assert (words.waits, words.noise, words.nodes) == (waits, noise, {})
    assert dashboard.stopped
