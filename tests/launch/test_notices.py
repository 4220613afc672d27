"""Notices of a run: what is sent where, in which form, and how often."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from email import message_from_bytes
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from nbdist.feed.notice import form_of, send
from nbdist.launch.binding import NOTIFY
from nbdist.model import RunState
from tests.programs import until

NOTICE = {
    "event": "failed",
    "label": "lenet-k3f9",
    "title": "nbdist: lenet-k3f9 Failed",
    "text": "ValueError",
}


DING = {"msgtype": "text", "text": {"content": "ValueError"}}
NTFY = {"topic": "mine", "title": NOTICE["title"], "message": "ValueError"}


@pytest.mark.parametrize(
    ("url", "place", "message"),
    [
        ("https://open.feishu.cn/hook/x", "", {"msg_type": "text", "content": {"text": "ValueError"}}),
        ("https://oapi.dingtalk.com/robot/send?access_token=x", "", DING),
        ("https://qyapi.weixin.qq.com/cgi-bin/webhook/send?key=x", "", DING),
        ("https://hooks.slack.com/services/x", "", {"text": "ValueError"}),
        ("https://discord.com/api/webhooks/1/x", "", {"content": "ValueError"}),
        ("https://ntfy.sh/mine", "https://ntfy.sh/", NTFY),
        ("https://example.org/hook", "", NOTICE),
    ],
)
def test_each_service_gets_its_form(url: str, place: str, message: dict[str, Any]) -> None:
    assert form_of(url, NOTICE) == (place or url, message)


def test_mail_goes_by_sendmail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "sendmail"
    program.write_text(f"#!/bin/sh\ncat > {tmp_path}/mail\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")

    send("mailto:ada@example.org", NOTICE)

    mail = message_from_bytes((tmp_path / "mail").read_bytes())
    assert (mail["To"], mail["Subject"], mail.get_payload().strip()) == (
        "ada@example.org",
        "nbdist: lenet-k3f9 Failed",
        "ValueError",
    )


@pytest.fixture
def posted() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """A service, and what it has received."""
    received: list[dict[str, Any]] = []

    class Service(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Keep quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Service)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/hook", received
    server.shutdown()
    server.server_close()


def test_a_failure_is_told_once_with_its_rank_and_line_and_no_secret(run_cell, posted) -> None:
    url, received = posted
    program = "import os\nif os.environ['RANK'] == '1':\n    raise ValueError(os.environ['API_KEY'])\n"

    run_cell(f"-n 2 --framework none -d --env API_KEY=s3cr3tvalue --notify {url}", program)

    until(lambda: bool(received), limit=30)
    (notice,) = received
    assert (notice["event"], notice["rank"], notice["line"]) == ("failed", 1, 3)
    assert notice["exception"] == "ValueError"
    assert "s3cr3tvalue" not in json.dumps(notice)


def test_an_end_is_told_with_its_metrics_and_ranks_do_not_see_the_address(run_cell, posted) -> None:
    url, received = posted
    program = f"import nbdist, os\nnbdist.log(step=1, loss=0.25)\nprint(os.environ.get({NOTIFY!r}))\n"

    handle = run_cell(f"-n 2 --framework none --notify {url}", program)

    until(lambda: bool(received), limit=30)
    assert [(notice["event"], notice["metrics"]) for notice in received] == [("finished", {"loss": 0.25})]
    assert handle.logs(0) == "None\n"
    assert url not in (handle.directory.spec.read_text() + handle.directory.supervisor_log.read_text())


def test_without_a_network_the_run_ends_as_soon_and_a_line_says_so(run_cell) -> None:
    handle = run_cell("-n 1 --framework none --notify http://127.0.0.1:9/secret", "pass")

    assert handle.run.state is RunState.FINISHED
    until(lambda: "was not sent" in handle.directory.supervisor_log.read_text(), limit=30)
    assert "secret" not in handle.directory.supervisor_log.read_text()
