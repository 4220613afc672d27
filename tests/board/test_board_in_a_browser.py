"""The board as a person sees it: the curves, new points soon, in JupyterLab's page, no request to others."""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

import playwright.sync_api as playwright
import pytest
from playwright.sync_api import Browser, Page

from nbdist.board import ensure_board
from nbdist.store import RunDirectory
from tests.programs import until

if TYPE_CHECKING:
    from tests.board.conftest import Home


pytestmark = pytest.mark.browser

FIRST_CHART = "document.querySelector('canvas')?.toDataURL()"


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    page = browser.new_page(viewport={"width": 1200, "height": 760}, locale="de-DE")
    page.set_default_timeout(20_000)
    yield page
    page.close()


@pytest.fixture
def run(home: Home) -> RunDirectory:
    run = home.run()
    for rank in (0, 1):
        curve = (home.point(step, loss=math.exp(-step / 80) + rank / 10) for step in range(300))
        home.log(run, *curve, rank=rank)
    return run


def has_points(response: playwright.Response) -> bool:
    return "/api/scalar/list" in response.url and response.ok


def drawn(page: Page) -> str:
    """Return the chart as an image, once two polls in a row have left it unchanged."""
    before = ""
    end = time.monotonic() + 20
    while time.monotonic() < end:
        with page.expect_response(has_points):
            pass
        now = page.evaluate(FIRST_CHART)
        if now and now == before:
            return str(now)
        before = now
    raise AssertionError("the chart does not come to rest")


def keep_picture(page: Page, name: str) -> None:
    """Keep a picture for a person: NBDIST_PICTURES names a directory."""
    if directory := os.environ.get("NBDIST_PICTURES"):
        page.screenshot(path=Path(directory) / name)


def test_the_curves_of_both_ranks_are_shown_and_grow(page: Page, home: Home, run: RunDirectory) -> None:
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    hosts: set[str | None] = set()
    page.on("request", lambda request: hosts.add(urlsplit(request.url).hostname))

    page.goto(ensure_board(home.path).url([run.run_id]))

    page.get_by_title("rank0").wait_for()
    page.get_by_title("rank1").wait_for()
    page.get_by_text("loss", exact=True).first.wait_for()
    before = drawn(page)
    start = time.monotonic()
    home.log(run, home.point(400, t=time.time(), loss=2.0))
    page.wait_for_function("before => " + FIRST_CHART + " !== before", arg=before)
    assert time.monotonic() - start < 20  # unchanged, a point takes up to 35 s
    keep_picture(page, "alone.png")
    assert errors == []
    assert hosts == {"127.0.0.1"}


def test_a_page_from_elsewhere_cannot_frame_the_board(
    page: Page, home: Home, run: RunDirectory, tmp_path: Path
) -> None:
    framing = tmp_path / "elsewhere"
    framing.mkdir()
    (framing / "index.html").write_text(
        f'<iframe src="{ensure_board(home.path).url([run.run_id])}"></iframe>'
    )
    with ThreadingHTTPServer(
        ("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=framing)
    ) as server:
        threading.Thread(target=server.serve_forever).start()
        with page.expect_console_message(lambda message: "frame-ancestors" in message.text):
            page.goto(f"http://elsewhere.localhost:{server.server_port}/")
        until(lambda: page.wait_for_timeout(50) or page.frames[1].url)
        server.shutdown()

    assert page.frames[1].url.startswith("chrome-error:")


def test_several_runs_are_compared_in_one_page(page: Page, home: Home, run: RunDirectory) -> None:
    other = home.run("20261120-151503-lenet-p2x7")
    home.log(other, *(home.point(step, loss=1 / (step + 1)) for step in range(300)))
    home.log(home.run("20261120-161503-unasked-a1b2"), home.point(0, loss=1))

    page.goto(ensure_board(home.path).url([run.run_id, other.run_id]))

    for name in ("lenet-k3f9/rank0", "lenet-k3f9/rank1", "lenet-p2x7/rank0"):
        page.get_by_title(name).wait_for()
    assert page.get_by_title("unasked").count() == 0
    drawn(page)
    keep_picture(page, "several.png")


def test_the_page_opens_with_the_whole_and_rank_0_and_has_the_others(
    page: Page, home: Home, run: RunDirectory
) -> None:
    curves: set[str] = set()

    def note(request: playwright.Request) -> None:
        address = urlsplit(request.url)
        if address.path.endswith("/api/scalar/list"):
            curves.add(parse_qs(address.query)["run"][0])

    page.on("request", note)
    page.goto(ensure_board(home.path).url([run.run_id]))
    page.get_by_title("rank1").wait_for()
    drawn(page)
    curves.clear()
    while len(curves) < 4:
        page.wait_for_event("request", timeout=20_000)
    drawn(page)
    assert curves == {"rank0", "mean", "min", "max"}

    with page.expect_response(lambda response: "/api/scalar/list?run=rank1" in response.url):
        page.get_by_title("rank1").click()
    drawn(page)
    keep_picture(page, "whole.png")
