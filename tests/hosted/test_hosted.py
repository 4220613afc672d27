"""The same stories behind every host: a cell runs, is watched, stopped while the kernel is busy, and nobody
else sees it. Everything goes through the one port that the host forwards."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import websocket
from playwright.sync_api import Browser, Page

from nbdist.model import RunState
from nbdist.store.run_store import RunStore, is_run_locked, snapshot
from tests.browser.lab import new_page
from tests.hosted.connections import (
    Kernel,
    a_run_is_watched_and_stopped_while_its_kernel_is_busy,
    runs_of,
    socket_to,
)
from tests.hosted.services import HUB_PROXY, NGINX, Host, ask, behind_nginx, hub, until
from tests.hosted.stories import a_morning_in_a_notebook

pytestmark = pytest.mark.browser

in_a_hub = pytest.mark.skipif(
    not HUB_PROXY.exists(), reason="configurable-http-proxy: npm ci --prefix tests/hosted"
)
with_nginx = pytest.mark.skipif(NGINX is None, reason="nginx is not installed")


@pytest.fixture(scope="module")
def users(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Host]]:
    """Yield Ada and Bob, of one JupyterHub."""
    pytest.importorskip("jupyterhub")
    with hub(tmp_path_factory.mktemp("hub"), "ada", "bob@example.org") as hosts:
        yield hosts


@pytest.fixture(scope="module")
def one_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    with behind_nginx(tmp_path_factory.mktemp("nginx")) as host:
        yield host


@contextmanager
def logged_in(browser: Browser, host: Host) -> Iterator[Page]:
    with new_page(browser, width=1280, height=800) as page:
        host.log_in(page)
        yield page


@in_a_hub
def test_in_a_jupyterhub_two_users_see_their_own_runs_alone(users: list[Host]) -> None:
    ada, bob = users
    run_id = a_run_is_watched_and_stopped_while_its_kernel_is_busy(ada)

    assert run_id in [row["run_id"] for row in runs_of(ada)]
    assert runs_of(bob) == []
    assert bob.ask(f"nbdist/api/runs/{run_id}")[0] == 404
    # nor by the other's address, with one's own login
    for path in (f"nbdist/api/runs/{run_id}", "nbdist/api/runs", f"nbdist/visualdl/{run_id}/scalar"):
        assert ask(f"{ada.url}{path}", bob.token)[0] == 403
    with pytest.raises(websocket.WebSocketBadStatusException, match="403"):
        socket_to(Host(ada.url, bob.token, bob.folder), "nbdist/api/stream")
    assert ask(f"{ada.url}nbdist/api/runs/{run_id}", bob.token, "DELETE")[0] == 403


@in_a_hub
def test_the_culler_of_a_hub_waits_for_detached_runs(tmp_path: Path) -> None:
    pytest.importorskip("jupyterhub_idle_culler")
    a_detached_run_outlasts_the_culler(tmp_path, runs=1, seconds=25, idle=15)


def a_detached_run_outlasts_the_culler(folder: Path, *, runs: int, seconds: int, idle: int) -> None:
    cell = f"%%distributed -n 2 -d --no-check\nimport time\ntime.sleep({seconds})"
    with hub(folder, "ada", idle=idle) as (ada,):
        with Kernel(ada) as kernel:
            for code in ("%load_ext nbdist", *[cell] * runs):
                assert kernel.run(code)["status"] == "ok"
        # a question to the server would count as activity: look at files
        directories = RunStore(ada.folder / ".local/state/nbdist").directories()
        assert len(directories) == runs
        log = folder / "hub.log"
        until(lambda: not any(map(is_run_locked, directories)), seconds + 60)
        assert "Culling server" not in log.read_text()
        assert {snapshot(directory).state for directory in directories} == {RunState.FINISHED}
        until(lambda: "Culling server" in log.read_text(), idle + 60)


@in_a_hub
def test_a_page_of_a_jupyterhub(users: list[Host], browser: Browser, pictures: Path) -> None:
    ada, bob = users
    with logged_in(browser, ada) as page:
        a_morning_in_a_notebook(ada, page, pictures, "hub")
    with logged_in(browser, bob) as page:
        # what he sees by his own address is in the test above
        assert page.goto(f"{ada.url}lab").status == 403
        assert page.request.get(f"{ada.url}nbdist/api/runs").status == 403


@with_nginx
def test_behind_a_web_server_that_forwards_one_port(one_port: Host) -> None:
    a_run_is_watched_and_stopped_while_its_kernel_is_busy(one_port)
