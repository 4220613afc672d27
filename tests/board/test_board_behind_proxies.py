"""The board behind a real Jupyter server with jupyter-server-proxy, and behind a proxy that takes its prefix
away."""

from __future__ import annotations

import http.client
import http.server
import json
import re
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urljoin, urlsplit

import pytest
from playwright.sync_api import Browser

from nbdist.board import ensure_board, reach, route_to_board
from nbdist.errors import UsageMistake
from tests.server.real_server import TOKEN, RealServer, real_server

if TYPE_CHECKING:
    from tests.board.conftest import Home

BASE = "/user/ann/"


def environ_of(server: RealServer) -> dict[str, str]:
    """Return the variables in the environment of a kernel of this server."""
    runtime = server.home.with_name("jupyter_runtime_dir")
    return {"JUPYTER_RUNTIME_DIR": str(runtime), "JPY_PARENT_PID": str(server.pid)}


def fetch(server: RealServer, path: str, token: str = TOKEN) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    headers = {"Host": "hub.example.org", **({"Authorization": f"token {token}"} if token else {})}
    for _ in range(3):
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        body = answer.read()
        if answer.status != 302:
            break
        path = urljoin(path, answer.headers["Location"])
    connection.close()
    return answer.status, body


@pytest.fixture(scope="module")
def jupyter(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealServer]:
    """Start a Jupyter server below a base URL, with jupyter-server-proxy and without nbdist's extension."""
    pytest.importorskip("jupyter_server_proxy")
    folder, remote = tmp_path_factory.mktemp("jupyter"), "--ServerApp.allow_remote_access=True"
    with real_server(folder, remote, base_url=BASE, extension="jupyter_server_proxy") as server:
        yield server


class StrippingProxy(http.server.ThreadingHTTPServer):
    """A proxy that serves ports below a prefix and hides that prefix from the server behind it."""

    prefix = "/api_serving"

    def __init__(self) -> None:
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                match = re.fullmatch(r"/api_serving/(\d+)(/.*)", self.path)
                if match is None:
                    self.send_error(404)
                    return
                connection = http.client.HTTPConnection("127.0.0.1", int(match[1]), timeout=30)
                connection.request("GET", match[2], headers={"Host": "aistudio.example.org"})
                answer = connection.getresponse()
                body = answer.read()
                connection.close()
                self.send_response(answer.status)
                for name in ("Content-Type", "Location"):
                    if name in answer.headers:
                        self.send_header(name, answer.headers[name])
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        super().__init__(("127.0.0.1", 0), Handler)

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


@pytest.fixture
def stripping() -> Iterator[StrippingProxy]:
    proxy = StrippingProxy()
    thread = threading.Thread(target=proxy.serve_forever)
    thread.start()
    yield proxy
    proxy.shutdown()
    thread.join()
    proxy.server_close()


def addresses_in(page: str) -> list[str]:
    return re.findall(r'(?:src|href)="?([^"\s>]+\.(?:js|css|ico))', page)


def test_a_kernel_of_a_jupyter_server_finds_the_way_through_it(jupyter: RealServer, home: Home) -> None:
    run = home.run()
    home.log(run, home.point(0, loss=1.5))
    board = ensure_board(home.path)

    target = reach(board, [run.run_id], environ=environ_of(jupyter))

    assert target.url.startswith(f"{BASE}proxy/absolute/{board.port}/")
    assert not target.direct
    assert board.token not in target.url
    status, page = fetch(jupyter, target.url)
    assert status == 200
    assets = addresses_in(page.decode())
    assert assets
    for asset in assets[:5]:
        assert fetch(jupyter, urljoin(target.url, asset))[0] == 200, asset
    tags = json.loads(fetch(jupyter, urljoin(target.url, "api/scalar/tags"))[1])["data"]
    assert tags == {"runs": ["rank0"], "tags": [["loss"]]}


def test_through_the_proxy_nobody_gets_in_without_the_token(jupyter: RealServer, home: Home) -> None:
    run = home.run()
    board = ensure_board(home.path)
    url = reach(board, [run.run_id], environ=environ_of(jupyter)).url

    assert fetch(jupyter, url, token="")[0] in (200, 403)  # the login page
    assert b"VisualDL" not in fetch(jupyter, url, token="")[1]
    other = url.replace(board.path([run.run_id], "").split("/")[1], "0" * 64)
    assert fetch(jupyter, other)[0] in (403, 404)


def test_a_proxy_that_takes_its_prefix_away_gets_pages_with_it(stripping: StrippingProxy, home: Home) -> None:
    run = home.run()
    home.log(run, home.point(0, loss=1.5))
    environ = {"NBDIST_PROXY_URL": f"{stripping.origin}/api_serving/%PORT%/"}

    url = reach(ensure_board(home.path), [run.run_id], environ=environ).url

    assert url.startswith(stripping.origin)
    with urllib.request.urlopen(url) as answer:
        page, where = answer.read().decode(), answer.url
    assets = addresses_in(page)
    assert assets
    assert all(urlsplit(urljoin(where, asset)).path.startswith("/api_serving/") for asset in assets)
    for asset in [*assets[:5], "api/scalar/tags"]:
        with urllib.request.urlopen(urljoin(where, asset)) as answer:
            assert answer.status == 200


@pytest.mark.browser
def test_the_page_comes_up_through_either_proxy(
    browser: Browser, jupyter: RealServer, stripping: StrippingProxy, home: Home
) -> None:
    run = home.run()
    home.log(run, *(home.point(step, loss=1 / (step + 1)) for step in range(20)))
    board = ensure_board(home.path)
    origin = f"http://127.0.0.1:{jupyter.port}"
    template = {"NBDIST_PROXY_URL": f"{stripping.origin}/api_serving/%PORT%/"}
    page = browser.new_page()
    page.set_default_timeout(40_000)
    wrong: list[str] = []
    page.on("response", lambda answer: wrong.append(answer.url) if answer.status >= 400 else None)

    page.goto(f"{origin}{BASE}login?token={TOKEN}")
    for environ, prefix in ((environ_of(jupyter), origin), (template, "")):
        page.goto(prefix + reach(board, [run.run_id], environ=environ).url)
        page.get_by_title("rank0").wait_for()
        page.wait_for_selector("canvas")

    page.close()
    assert wrong == []


def test_where_no_way_is_known_the_port_of_this_machine_is_named(home: Home, tmp_path: Path) -> None:
    board = ensure_board(home.path)

    target = reach(board, ["run"], environ={"JUPYTER_RUNTIME_DIR": str(tmp_path)})

    assert target.direct
    assert target.url == board.url(["run"])


def test_a_hosted_notebook_without_a_proxy_is_told_what_it_needs(home: Home, tmp_path: Path) -> None:
    environ = {"JUPYTER_RUNTIME_DIR": str(tmp_path), "JUPYTERHUB_SERVICE_PREFIX": "/user/ann/"}

    target = reach(ensure_board(home.path), ["run"], environ=environ)

    assert target.url == ""
    assert "%pip install jupyter-server-proxy" in target.problem


def test_a_template_without_a_port_is_a_mistake(home: Home) -> None:
    with pytest.raises(UsageMistake, match="has no %PORT%"):
        reach(ensure_board(home.path), ["run"], environ={"NBDIST_PROXY_URL": "https://host/x/"})


def test_a_web_server_of_ours_alone_gets_in(home: Home) -> None:
    route = route_to_board(home.path, "/user/ann/nbdist/visualdl")

    def get(path: str, **headers: str) -> int:
        connection = http.client.HTTPConnection(route.host, route.port, timeout=30)
        connection.request("GET", path, headers=headers)
        return connection.getresponse().status

    alive = f"{route.public_path}/{home.run().run_id}/alive"
    assert get(alive, **route.headers) == 204
    assert get(alive) in (403, 404)
