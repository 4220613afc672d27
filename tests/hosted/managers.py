"""A page with another front end's own widget manager, and a real kernel behind it."""

from __future__ import annotations

import base64
import contextlib
import queue
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, Route

from tests.magics.conftest import Kernel

HERE = Path(__file__).parent
SHARED = Path(sys.prefix) / "share/jupyter/nbextensions"
ORIGIN = "http://host.test"

HTML = """<!doctype html><meta charset="utf-8"><title>a front end</title>
<script src="/require.js"></script><script type="module" src="/managers.js"></script>
<body style="font: 13px sans-serif; margin: 12px">"""


class ManagerPage:
    """A page whose messages reach a kernel, and the kernel's the page, while ``until`` waits."""

    def __init__(self, page: Page, kernel: Kernel) -> None:
        self.page = page
        self._kernel = kernel
        page.expose_function("tell", self._tell)

    def _tell(self, comm: str, data: dict[str, Any]) -> None:
        client = self._kernel.client
        client.shell_channel.send(client.session.msg("comm_msg", {"comm_id": comm, "data": data}))

    def until(self, condition: Callable[[], bool], limit: float = 60.0) -> None:
        deadline = time.monotonic() + limit
        while not condition():
            assert time.monotonic() < deadline, self.page.inner_text("body")
            with contextlib.suppress(queue.Empty):
                self._hear(self._kernel.client.get_iopub_msg(timeout=0.05))

    def _hear(self, message: Mapping[str, Any]) -> None:
        buffers = [base64.b64encode(part).decode() for part in message["buffers"]]
        sent = {"type": message["msg_type"], "buffers": buffers}
        sent |= {"content": message["content"], "metadata": message["metadata"]}
        self.page.evaluate("message => window.hear(message)", sent)


@contextlib.contextmanager
def page_of(
    browser: Browser, kernel: Kernel, manager: str, files: Mapping[str, Path]
) -> Iterator[ManagerPage]:
    """Yield a page. ``manager`` is one of managers.js; ``files`` are scripts that it requests, by name.
    Errors of the page fail the test."""
    context = browser.new_context(viewport={"width": 900, "height": 700})
    page = context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(error.stack or str(error)))
    scripts = {"managers.js": HERE / "managers.js", "anywidget.js": SHARED / "anywidget/index.js", **files}

    def serve(route: Route) -> None:
        address = route.request.url.partition("?")[0]
        # Colab's takes anywidget's script from a CDN
        name = "anywidget.js" if "/anywidget@" in address else address.rpartition("/")[2]
        if name in scripts:
            headers = {"access-control-allow-origin": "*"}
            route.fulfill(path=scripts[name], content_type="text/javascript", headers=headers)
        elif address == f"{ORIGIN}/":
            route.fulfill(body=HTML, content_type="text/html")
        else:
            route.fulfill(status=404)

    context.route("**/*", serve)
    opened = ManagerPage(page, kernel)
    page.goto(f"{ORIGIN}/?manager={manager}")
    page.wait_for_selector("[data-ready]", state="attached")
    yield opened
    context.close()
    # when a widget is closed, Colab's manager forgets its views, and then looks for them
    assert not [error for error in errors if "AnyView.remove" not in error]
