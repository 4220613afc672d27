"""Access to the extension: nobody without a login, nobody unauthorized, no page of another site."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest
from jupyter_server.auth import Authorizer
from tornado.httpclient import HTTPClientError

from nbdist.server.app import ROUTES, handler_named
from nbdist.store import RunStore
from tests.fakes.directories import WrittenRun
from tests.fakes.runs import RUN_ID, STARTED

VERBS = [
    ("GET", "api/status"),
    ("GET", "api/runs"),
    ("GET", f"api/runs/{RUN_ID}"),
    ("GET", f"api/runs/{RUN_ID}/summary"),
    ("GET", f"api/runs/{RUN_ID}/explain"),
    ("GET", f"api/runs/{RUN_ID}/report"),
    ("DELETE", f"api/runs/{RUN_ID}"),
    ("PATCH", f"api/runs/{RUN_ID}"),
    ("POST", f"api/runs/{RUN_ID}/stop"),
    ("POST", f"api/runs/{RUN_ID}/stacks"),
    ("POST", f"api/runs/{RUN_ID}/profile"),
    ("GET", f"api/runs/{RUN_ID}/profile"),
    ("POST", f"api/runs/{RUN_ID}/debug"),
    ("POST", f"api/runs/{RUN_ID}/ranks/0/interrupt"),
    ("GET", f"api/runs/{RUN_ID}/ranks/0/log"),
    ("HEAD", f"api/runs/{RUN_ID}/ranks/0/log"),
    ("GET", f"api/runs/{RUN_ID}/ranks/0/media/0"),
    ("POST", f"api/sweeps/{RUN_ID}/stop"),
    ("GET", "api/devices"),
    ("GET", "api/options"),
    ("POST", "api/board"),
    ("POST", "api/compare"),
    ("GET", "api/stream"),
    ("GET", f"visualdl/{RUN_ID}/scalar"),
    ("HEAD", f"visualdl/{RUN_ID}/scalar"),
    ("POST", f"visualdl/{RUN_ID}/scalar"),
]
CHANGES = [(method, path) for method, path in VERBS if method in ("POST", "PATCH", "DELETE")]


class AsksNobody(Authorizer):
    """An authorizer that refuses what the test names, and records the requests."""

    refused: frozenset[str] = frozenset()
    actions: list[tuple[str, str]] = []  # noqa: RUF012

    def is_authorized(self, handler: Any, user: Any, action: str, resource: str) -> bool:
        self.actions.append((action, resource))
        return action not in self.refused


@pytest.fixture
def jp_server_config(jp_server_config: dict[str, Any]) -> dict[str, Any]:
    AsksNobody.refused = frozenset()
    AsksNobody.actions = []
    jp_server_config["ServerApp"]["authorizer_class"] = AsksNobody
    return jp_server_config


def test_every_verb_of_every_address_is_in_the_table() -> None:
    known = {(method.lower(), path) for method, path in VERBS}
    here = ("get", "head", "post", "put", "patch", "delete")
    for route, named in ROUTES.items():
        example = route.replace("s/([^/]+)", f"s/{RUN_ID}", 1).replace("([^/]+)", "0")
        example = example.replace("(.*)", f"{RUN_ID}/scalar")
        own = {verb for verb in here if verb in vars(handler_named(named))}
        assert own == {method for method, path in known if path == example}, route


async def test_nobody_gets_in_without_a_login(ask: Callable[..., Any], home: Any) -> None:
    run = WrittenRun(home).happened(*STARTED)

    for method, path in VERBS:
        answer = await ask(path, method, headers={"Authorization": "token wrong"})

        # a browser that opens VisualDL is sent to the login
        assert answer.code in ((302, 403) if path.startswith("visualdl") else (403,)), (method, path)
        assert RUN_ID.encode() not in answer.body, (method, path)
    assert not list(run.directory.control.iterdir())


async def test_nobody_gets_in_who_is_not_authorized(ask: Callable[..., Any], home: Any) -> None:
    run = WrittenRun(home).happened(*STARTED)
    AsksNobody.refused = frozenset({"read", "write", "execute"})

    answers = {(method, path): (await ask(path, method)).code for method, path in VERBS}

    assert answers == dict.fromkeys(VERBS, 403)
    assert [resource for _, resource in AsksNobody.actions] == ["nbdist"] * len(VERBS)
    assert not list(run.directory.control.iterdir())


async def test_who_may_only_read_stops_nothing_and_deletes_nothing(
    ask: Callable[..., Any], home: Any
) -> None:
    WrittenRun(home).happened(*STARTED)
    AsksNobody.refused = frozenset({"write"})

    answers = [await ask(path, method) for method, path in CHANGES if "visualdl" not in path]

    assert [answer.code for answer in answers] == [403] * len(answers)
    assert (await ask("api/runs")).code == 200


async def a_browser(jp_fetch: Callable[..., Any], token: str) -> dict[str, str]:
    """Return the headers of a browser that has logged in: cookies, and no token."""
    answer = await jp_fetch("nbdist", "api", "status", params={"token": token}, headers={"Authorization": ""})
    cookies = [cookie.partition(";")[0] for cookie in answer.headers.get_list("Set-Cookie")]
    return {"Authorization": "", "Cookie": "; ".join(cookies)}


async def test_a_browser_changes_nothing_without_the_xsrf_token(
    ask: Callable[..., Any], jp_fetch: Callable[..., Any], jp_serverapp: Any, home: Any
) -> None:
    run = WrittenRun(home).happened(*STARTED)
    browser = await a_browser(jp_fetch, jp_serverapp.identity_provider.token)
    assert (await ask("api/runs", headers=dict(browser))).code == 200

    answers = {(way, path): (await ask(path, way, headers=dict(browser))).code for way, path in CHANGES}

    assert answers == dict.fromkeys(CHANGES, 403)
    assert not list(run.directory.control.iterdir())
    assert run.directory.spec.exists()


async def test_a_browser_with_the_xsrf_token_stops_a_run(
    ask: Callable[..., Any], jp_fetch: Callable[..., Any], jp_serverapp: Any, home: Any
) -> None:
    run = WrittenRun(home).happened(*STARTED)
    browser = await a_browser(jp_fetch, jp_serverapp.identity_provider.token)
    browser["Cookie"] += f"; _xsrf={'ab' * 16}"
    browser["X-XSRFToken"] = "ab" * 16

    answer = await ask(f"api/runs/{RUN_ID}/stop", "POST", {"reason": "enough"}, headers=browser)

    assert answer.code == 202, answer.body
    (request,) = run.directory.control.iterdir()
    assert json.loads(request.read_text())["reason"] == {"code": "said", "text": "enough"}


@pytest.mark.parametrize("origin", ["https://elsewhere.example", "null"])
async def test_a_page_of_another_site_opens_no_stream(
    jp_ws_fetch: Callable[..., Any], jp_fetch: Callable[..., Any], jp_serverapp: Any, origin: str
) -> None:
    browser = await a_browser(jp_fetch, jp_serverapp.identity_provider.token)

    with pytest.raises(HTTPClientError, match="403"):
        await jp_ws_fetch("nbdist", "api", "stream", headers={**browser, "Origin": origin})


LONG = "20261120-141503-" + 20_000 * "a" + "-k3f9"
NO_IDS = (
    LONG,
    "%00",
    "..",
    "../..",
    "%2e%2e",
    "..%2f..%2fetc",
    f"..%2fruns%2f{RUN_ID}",
    f"{RUN_ID}%2f..%2f{RUN_ID}",
    f"{RUN_ID}%00",
    f"{RUN_ID}%0a",
    f"{RUN_ID}.",
    RUN_ID.upper(),
    "/etc/passwd",
    "~root",
    "20261120-141503-" + "x" * 200 + "-k3f9",
    quote("٢0261120-141503-lenet-k3f9"),
)
BELOW_A_RUN = (
    ("GET", ""),
    ("GET", "/summary"),
    ("DELETE", ""),
    ("POST", "/stop"),
    ("POST", "/stacks"),
    ("GET", "/ranks/0/log"),
)


async def test_what_is_no_id_of_a_run_leads_nowhere(
    ask: Callable[..., Any],
    http_server_client: Any,
    jp_auth_header: dict[str, str],
    jp_base_url: str,
    home: Any,
) -> None:
    run = WrittenRun(home).happened(*STARTED)
    codes = {}

    for run_id in NO_IDS:
        for method, below in BELOW_A_RUN:
            path = f"{jp_base_url}nbdist/api/runs/{run_id}{below}"
            body = "" if method == "POST" else None
            try:
                answer = await http_server_client.fetch(
                    path, method=method, body=body, headers=jp_auth_header, raise_error=False
                )
            except ValueError:
                continue  # even the client takes it for no address
            codes[method, path] = answer.code

    assert {path: code for path, code in codes.items() if code not in (400, 404, 405)} == {}
    for run_id in (LONG, "%00", f"{RUN_ID}%00"):
        assert (await ask("api/board", "POST", body={"run_ids": [run_id]})).code == 400
        assert (await ask("api/runs", params={"before": run_id})).code == 400
    assert run.directory.spec.exists()
    assert not list(run.directory.control.iterdir())


async def test_a_link_in_the_place_of_a_run_leads_nowhere(ask: Callable[..., Any], home: Any) -> None:
    run = WrittenRun(home).happened(*STARTED)
    link = RunStore(home).runs / "20261120-141504-other-k3f9"
    link.symlink_to(run.directory.path)

    assert (await ask(f"api/runs/{link.name}")).code == 404
    rows = {row["run_id"]: row for row in json.loads((await ask("api/runs")).body)["runs"]}
    assert rows[link.name]["headline"] == "not read: it is a link, or no directory"
    assert rows[link.name]["state"] == "lost"


async def test_a_run_of_another_user_is_refused(ask: Callable[..., Any], home: Any) -> None:
    if os.geteuid():
        pytest.skip("only root can give a directory to another user")
    run = WrittenRun(home).happened(*STARTED)
    os.chown(run.directory.path, 65534, 65534)

    answers = [await ask(path, method) for method, path in VERBS if f"api/runs/{RUN_ID}" in path]

    assert {answer.code for answer in answers} == {404}
    (row,) = json.loads((await ask("api/runs")).body)["runs"]
    assert (row["state"], row["headline"]) == ("lost", "not read: it belongs to user nobody, not to you")


async def test_a_log_that_is_a_link_is_not_followed(
    ask: Callable[..., Any], home: Any, tmp_path: Any
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("a secret")
    run = WrittenRun(home).happened(*STARTED)
    run.directory.rank(0).log.symlink_to(secret)

    answer = await ask(f"api/runs/{RUN_ID}/ranks/0/log")

    assert b"secret" not in answer.body


async def test_a_home_of_another_user_is_refused_whatever_is_asked(
    ask: Callable[..., Any], open_page: Callable[..., Any], home: Any
) -> None:
    if os.geteuid():
        pytest.skip("only root can give a directory to another user")
    run = WrittenRun(home).happened(*STARTED)
    os.chown(home, 12_345, 12_345)

    answers = {path: await ask(path, method, **more) for method, path, more in ABOUT_RUNS}
    page = await open_page()
    await page.say("runs")
    content = await page.hear()
    await page.say("watch", run_id=RUN_ID, **{"from": "tail"})

    assert {answer.code for answer in answers.values()} == {403}
    message = json.loads(answers["api/runs"].body)["message"]
    assert message.startswith(f"{home} belongs to user 12345, not to you: look as that user:")
    assert content["kind"] == "problem"
    assert "belongs to user 12345" in content["message"]
    assert "belongs to user 12345" in (await page.hear())["message"]
    assert not list(run.directory.control.iterdir())
    assert not (home / "board").exists()


ABOUT_RUNS = [
    ("GET", "api/runs", {}),
    ("GET", f"api/runs/{RUN_ID}", {}),
    ("DELETE", f"api/runs/{RUN_ID}", {}),
    ("POST", f"api/runs/{RUN_ID}/stop", {}),
    ("POST", f"api/runs/{RUN_ID}/stacks", {}),
    ("POST", f"api/runs/{RUN_ID}/debug", {"body": {"ranks": [0], "command": "p 1"}}),
    ("POST", f"api/runs/{RUN_ID}/ranks/0/interrupt", {}),
    ("GET", f"api/runs/{RUN_ID}/ranks/0/log", {}),
    ("POST", f"api/sweeps/{RUN_ID}/stop", {}),
    ("POST", "api/board", {"body": {"run_ids": [RUN_ID]}}),
    ("GET", f"visualdl/{RUN_ID}/", {}),
]
