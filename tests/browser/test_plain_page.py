"""The panel in a page that is no Jupyter's: it has what anywidget promises, as in VS Code and Colab."""

from __future__ import annotations

import base64
import json
from array import array
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from nbdist.feed.charts import Chart
from nbdist.feed.protocol import Update, encode
from nbdist.feed.rank_log import LogDelta
from nbdist.feed.view import view_of
from nbdist.model import Run
from nbdist.panel.widget import PanelWidget
from tests.fakes.runs import CREATED, STARTED, a_spec

pytestmark = pytest.mark.browser

# A host as small as anywidget's description of one: a model, an element, and nothing of the page's.
HOST = """<!doctype html><meta charset="utf-8"><link rel="stylesheet" href="/panel.css">
<body><div id="output"></div><div id="second"></div><script type="module" src="/host.js"></script>"""

HOST_MODULE = """
const state = {panel_id: "p1", kernel_id: "", foreground: true}, listeners = new Set();
window.requests = [];
const sends = {
  takes: content => { window.requests.push(content); },
  closed: () => { throw new Error('the comm is closed'); },
  late: () => Promise.reject(new Error('nobody answers')),
};
const model = {
  get: name => state[name],
  set: (name, value) => { state[name] = value; },
  save_changes: () => {},
  on: (event, listener) => { if (event === 'msg:custom') listeners.add(listener); },
  off: (event, listener) => { listeners.delete(listener); },
};
let how = 'SENDS';
window.asked = 0;
window.sending = other => { how = other; };
Object.defineProperty(model, 'send', { get: () => { window.asked++; return sends[how]; } });
window.message = (content, buffers) => {
  const parts = buffers.map(part => new DataView(Uint8Array.from(atob(part), c => c.charCodeAt(0)).buffer));
  for (const listener of listeners) listener(content, parts);
};
const { default: widget } = await import('/panel.js');
const ended = INITIALIZES ? await widget.initialize?.({ model }) : null;
let el = document.getElementById('output');
if (SHADOW) {
  const root = el.attachShadow({ mode: 'open' });
  const style = document.querySelector('link').cloneNode();
  el = document.createElement('div');
  root.append(style, el);
}
const removed = await widget.render({ model, el });
window.renderAgain = async () => {
  window.removeSecond = await widget.render({ model, el: document.getElementById('second') });
};
window.remove = () => { removed?.(); ended?.(); };
window.listening = () => listeners.size;
window.sends = 'SENDS';
document.body.dataset.ready = '';
"""

# as strict as VS Code's: scripts and styles by address alone, and nobody to ask
POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; img-src data: blob:; base-uri 'none'"


def host(
    browser: Browser,
    *,
    initializes: bool = True,
    shadow: bool = False,
    sends: str = "takes",
    policy: str = "",
) -> Iterator[Page]:
    """Return a page with the panel. ``sends`` is the fate of the panel's messages: ``takes`` them,
    ``closed``, ``late`` (a promise that is broken), or ``nothing`` where there is no way to send."""
    context = browser.new_context(viewport={"width": 900, "height": 700})
    page = context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    module = (
        HOST_MODULE.replace("INITIALIZES", json.dumps(initializes))
        .replace("SHADOW", json.dumps(shadow))
        .replace("SENDS", sends)
    )

    def serve(route: Route) -> None:
        scripts = {"panel.js": str(PanelWidget._esm), "host.js": module}
        name = route.request.url.rpartition("/")[2]
        headers = {"content-security-policy": policy} if policy else {}
        if name in scripts:
            route.fulfill(body=scripts[name], content_type="text/javascript", headers=headers)
        elif name == "panel.css":
            route.fulfill(body=str(PanelWidget._css), content_type="text/css", headers=headers)
        elif name == "favicon.ico":
            route.fulfill(status=204)
        else:
            route.fulfill(body=HOST, content_type="text/html", headers=headers)

    page.route("http://panel.test/**", serve)
    page.goto("http://panel.test/")
    # what waits for a function of the page evaluates text there, which a strict policy forbids
    page.wait_for_selector("[data-ready]")
    yield page
    context.close()
    assert not errors


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    yield from host(browser)


@pytest.fixture(
    params=[
        pytest.param({"initializes": False}, id="that only draws"),
        pytest.param({"shadow": True}, id="that draws in a shadow"),
        pytest.param({"policy": POLICY}, id="with a strict policy"),
        pytest.param({"sends": "closed"}, id="whose connection is closed"),
        pytest.param({"sends": "late"}, id="that breaks its promise to send"),
        pytest.param({"sends": "nothing"}, id="that cannot send"),
    ]
)
def other_page(browser: Browser, request: pytest.FixtureRequest) -> Iterator[Page]:
    yield from host(browser, **request.param)


def tell(page: Page, update: Update) -> None:
    content, buffers = encode(update)
    parts = [base64.b64encode(part).decode() for part in buffers]
    page.evaluate("([content, parts]) => window.message(content, parts)", [content, parts])


def a_chunk(rank: int, *lines: str) -> LogDelta:
    times: Any = ((len(lines), 1.0),)
    return LogDelta.of(rank=rank, first=0, lines=lines, partial="", times=times)


def a_curve() -> Chart:
    columns = tuple(array("f", [float(row) for row in range(5)]) for _ in range(5))
    return Chart(tag="loss", kind="band", group="metric", unit="", ranks=(), columns=columns)


def test_lines_are_shown_found_and_stop_is_asked_for_and_explained(page: Page) -> None:
    view = view_of(Run.of(a_spec(), STARTED), now=CREATED + 2)

    tell(page, Update(view=view, chunks=[a_chunk(0, "hello of 0", "both"), a_chunk(1, "both")]))

    panel = page.locator(".nbdist")
    expect(panel.locator(".nbdist-pill")).to_have_text("Running")
    expect(panel.get_by_role("log")).to_contain_text("hello of 0")
    expect(panel.get_by_role("log")).to_contain_text("×2")
    panel.get_by_role("searchbox").fill("hello")
    expect(panel.locator(".nbdist-count")).to_have_text("1/1")
    panel.get_by_role("button", name="Stop").click()
    page.wait_for_function("window.requests.some(({ kind }) => kind === 'stop')")
    # no Jupyter server answers in such a page: what to press instead is said
    expect(panel).to_contain_text("nterrupt")

    page.evaluate("window.remove()")
    expect(panel).to_have_count(0)


@pytest.mark.parametrize("width", [240, 300, 420])
def test_nothing_of_the_header_is_cut_off_where_there_is_little_room(page: Page, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 700})
    tell(page, Update(view=view_of(Run.of(a_spec(), STARTED), now=CREATED + 2), chunks=[a_chunk(0, "hello")]))

    expect(page.locator(".nbdist-pill")).to_have_text("Running")
    expect(page.locator(".nbdist")).to_have_attribute("data-size", "narrow")
    panel = page.locator(".nbdist").bounding_box()
    buttons = page.locator(".nbdist-head button").all()
    assert panel is not None
    assert buttons
    for button in buttons:
        box = button.bounding_box()
        assert box["x"] >= panel["x"]
        assert box["x"] + box["width"] <= panel["x"] + panel["width"]


def test_every_host_shows_lines_curves_and_says_how_to_stop(other_page: Page) -> None:
    page = other_page
    view = view_of(Run.of(a_spec(), STARTED), now=CREATED + 2)
    if page.evaluate("window.sends") != "takes":
        # nothing has come, so the panel asks for it, in vain
        page.wait_for_function("window.asked > 0")

    tell(page, Update(view=view, chunks=[a_chunk(0, "\x1b[31mhello\x1b[0m of 0"), a_chunk(1, "both")]))
    tell(page, Update(charts=[a_curve()]))

    panel = page.locator(".nbdist")
    expect(panel.locator(".nbdist-pill")).to_have_text("Running")
    expect(panel.get_by_role("log")).to_contain_text("hello of 0")
    # the stylesheet has come along, and colours fall back on the panel's own
    expect(panel).to_have_css("background-color", "rgb(255, 255, 255)")
    expect(panel.locator(".nbdist-row").first).to_have_css("display", "flex")
    panel.get_by_role("tab", name="All").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    expect(panel.get_by_role("tab", name="Rank 1")).to_be_focused()
    panel.get_by_role("tab", name="Metrics").click()
    expect(panel.locator("canvas").first).to_be_visible()
    panel.get_by_role("button", name="Stop").click()
    expect(panel).to_contain_text("Press the interrupt button")


def test_a_panel_in_two_outputs_goes_on_in_the_one_that_stays(page: Page) -> None:
    view = view_of(Run.of(a_spec(), STARTED), now=CREATED + 2)
    tell(page, Update(view=view, chunks=[a_chunk(0, "early")]))

    page.evaluate("window.renderAgain()")
    panels = page.locator(".nbdist")
    expect(panels).to_have_count(2)
    expect(panels.nth(1).get_by_role("log")).to_contain_text("early")
    page.evaluate("window.removeSecond()")
    expect(panels).to_have_count(1)
    tell(page, Update(chunks=[a_chunk(1, "late")]))

    expect(panels.get_by_role("log")).to_contain_text("late")


def test_a_panel_that_is_moved_in_the_page_stays_at_the_end_of_its_log(page: Page) -> None:
    lines = [f"line {number}" for number in range(500)]
    tell(page, Update(view=view_of(Run.of(a_spec(), STARTED), now=CREATED + 2), chunks=[a_chunk(0, *lines)]))
    log = page.get_by_role("log")
    expect(log.get_by_text("line 499")).to_be_in_viewport()

    log.evaluate("log => document.body.prepend(log.closest('body > *'))")

    expect(log.get_by_text("line 499")).to_be_in_viewport()


def test_a_connection_that_is_closed_later_leaves_what_came(page: Page) -> None:
    view = view_of(Run.of(a_spec(), STARTED), now=CREATED + 2)
    tell(page, Update(view=view, chunks=[a_chunk(0, "before")]))
    page.evaluate("window.sending('closed')")

    panel = page.locator(".nbdist")
    panel.get_by_label("Run menu").select_option("Open VisualDL")

    expect(panel).to_contain_text("%dist_board")
    expect(panel.get_by_role("log")).to_contain_text("before")
