"""The panel in a page that is no Jupyter's: it has what anywidget promises, as in VS Code and Colab."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from nbdist.model import Run
from nbdist.panel.following import LogDelta
from nbdist.panel.protocol import LogChunk, Update, encode
from nbdist.panel.view import view_of
from nbdist.panel.widget import PanelWidget
from tests.fakes.runs import CREATED, STARTED, a_spec

pytestmark = pytest.mark.browser

# A host as small as anywidget's description of one: a model, an element, and nothing of the page's.
HOST = """<!doctype html><meta charset="utf-8"><link rel="stylesheet" href="/panel.css">
<body><div id="output"></div><script type="module">
const state = STATE, listeners = new Set();
window.requests = [];
const model = {
  get: name => state[name],
  set: (name, value) => { state[name] = value; },
  save_changes: () => {},
  on: (event, listener) => { if (event === 'msg:custom') listeners.add(listener); },
  off: (event, listener) => { listeners.delete(listener); },
  send: content => { window.requests.push(content); },
};
window.message = (content, buffers) => {
  const parts = buffers.map(part => new DataView(Uint8Array.from(atob(part), c => c.charCodeAt(0)).buffer));
  for (const listener of listeners) listener(content, parts);
};
const { default: widget } = await import('/panel.js');
const ended = await widget.initialize?.({ model });
const el = document.getElementById('output');
const removed = await widget.render({ model, el });
window.remove = () => { removed?.(); ended?.(); };
window.ready = true;
</script>"""


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 900, "height": 700})
    page = context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))

    def serve(route: Route) -> None:
        host = HOST.replace("STATE", '{"panel_id": "p1", "kernel_id": "", "foreground": true}')
        bodies = {"panel.js": str(PanelWidget._esm), "panel.css": str(PanelWidget._css)}
        types = {"panel.js": "text/javascript", "panel.css": "text/css"}
        name = route.request.url.rpartition("/")[2]
        route.fulfill(body=bodies.get(name, host), content_type=types.get(name, "text/html"))

    page.route("http://panel.test/**", serve)
    page.goto("http://panel.test/")
    page.wait_for_function("window.ready")
    yield page
    context.close()
    assert not errors


def tell(page: Page, update: Update) -> None:
    content, buffers = encode(update)
    parts = [base64.b64encode(part).decode() for part in buffers]
    page.evaluate("([content, parts]) => window.message(content, parts)", [content, parts])


def a_chunk(rank: int, *lines: str) -> LogChunk:
    times: Any = ((len(lines), 1.0),)
    return LogChunk.of(LogDelta(rank=rank, first=0, lines=lines, partial="", times=times))


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

    panel = page.locator(".nbdist").bounding_box()
    assert panel is not None
    for button in page.locator(".nbdist-head button").all():
        box = button.bounding_box()
        assert box is not None
        assert box["x"] >= panel["x"]
        assert box["x"] + box["width"] <= panel["x"] + panel["width"]
