"""Figures and HTML of ranks: in the panel's log, in the saved notebook and its static HTML."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import cast

import pytest
from lab import LabPage, LabServer, new_page, unfolded
from playwright.sync_api import Browser, Locator, Page, expect

from nbdist.panel import write_report
from nbdist.runner import RunHandle
from nbdist.store import RunStore
from tests.panel.test_outputs import LEAVING, Shown
from tests.programs import until

pytestmark = pytest.mark.browser

FIGURES = """%%distributed -n 2 --name figures
import os, time
import matplotlib.pyplot as plt, pandas
%matplotlib inline
rank = int(os.environ["RANK"])
print("before", flush=True)
plt.figure(figsize=(4, 2)); plt.plot([3, 1, 2]); plt.title("both"); plt.show()
plt.figure(figsize=(4, 2)); plt.bar([1, 2], [1, 1 + rank]); plt.title(f"rank {rank}"); plt.show()
display(pandas.DataFrame({"loss": [0.5, 0.25], "accuracy": [0.7, 0.9]}))
print("after", flush=True)
plt.figure(figsize=(4, 2)); plt.plot([1, 2]); plt.title("left open")
"""

HOSTILE = """%%distributed -n 1 --name hostile
from IPython.display import HTML, SVG, display
page = '''<p id="hello">hello</p>
<script>top.hacked = 1; parent.document.title = "hacked"; fetch("http://127.0.0.1:PORT/script")</script>
<img src="http://127.0.0.1:PORT/picture" onerror="top.hacked = 2">
<style>@import url("http://127.0.0.1:PORT/style");
body { background: url(http://127.0.0.1:PORT/ground) }</style>
<link rel="stylesheet" href="http://127.0.0.1:PORT/sheet"><iframe src="http://127.0.0.1:PORT/frame"></iframe>
<form action="http://127.0.0.1:PORT/form" target="_top"><button id="send">send</button></form>
<a href="http://127.0.0.1:PORT/link" target="_top" id="link">link</a>
<meta http-equiv="refresh" content="0;url=http://127.0.0.1:PORT/refresh">
<base href="http://127.0.0.1:PORT/" target="_top"><svg onload="top.hacked = 3"></svg>'''
display(HTML(page))
display(SVG('<svg xmlns="http://www.w3.org/2000/svg" width="20" height="20"><script>top.hacked = 4</script>'
            '<image href="http://127.0.0.1:PORT/drawn"/><rect width="20" height="20" fill="red"/></svg>'))
display(HTML("<p>" + "x" * (20 << 20)))
print("the end")
"""


def run_cell(page: Page, server: LabServer, name: str, cell: str) -> LabPage:
    notebook = server.write_notebook(f"{name}.ipynb", "%load_ext nbdist", cell)
    lab = LabPage(server, page, notebook)
    lab.run_and_wait(0)
    lab.run(1)
    return lab


class Elsewhere(ThreadingHTTPServer):
    """A server that HTML could send something to, and its requests."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        super().__init__(("127.0.0.1", 0), _Answers)


class _Answers(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        cast("Elsewhere", self.server).asked.append(self.path)
        self.send_error(404)

    do_POST = do_GET  # noqa: N815

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def elsewhere() -> Iterator[Elsewhere]:
    with Elsewhere() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def drawn(picture: Locator) -> bool:
    """Return whether a picture is drawn, with pixels."""
    return bool(picture.evaluate("image => image.complete && image.naturalWidth > 0"))


def outputs_in(notebook: Path) -> list[dict[str, object]]:
    return [
        output
        for cell in json.loads(notebook.read_text())["cells"]
        for output in cell.get("outputs", [])
        if output["output_type"] == "display_data"
    ]


def test_figures_stand_among_the_lines_in_the_notebook_and_in_a_report(
    lab_server: LabServer, browser: Browser, pictures: Path, tmp_path: Path
) -> None:
    with new_page(browser, height=1400) as page:
        lab = run_cell(page, lab_server, "figures", FIGURES)
        lab.wait_for_end(1)
        log = unfolded(page.locator(".nbdist")).get_by_role("log")
        rows = log.locator(".nbdist-line")

        expect(log).to_contain_text("after")
        log.evaluate("node => { node.style.height = '1150px'; node.scrollTop = 0 }")
        figures = log.locator("img.nbdist-output[src]")
        # what both ranks show at much the same time is one row, which a busy machine may make two
        until(lambda: len(set(figures.evaluate_all("all => all.map(each => each.src)"))) == 4)
        texts = [text.partition("<")[2] or text for text in rows.all_inner_texts()]
        order = [text.split(">")[0].split("\n")[-1] for text in texts]
        assert [("Figure" in text, "DataFrame" in text) for text in order[1:]].count((True, False)) >= 4
        until(lambda: all(map(drawn, figures.all())))
        # every row is as high as it was laid out
        for row in rows.all():
            assert row.evaluate("node => node.offsetHeight % 20") == 0
        frame = log.frame_locator("iframe.nbdist-output").first
        expect(frame.get_by_text("accuracy")).to_be_visible()
        log.locator("img.nbdist-output").first.click()
        expect(page.locator(".nbdist-whole img")).to_be_visible()
        page.screenshot(path=pictures / "outputs-whole.png")
        for theme, ground in (("Dark", "rgb(0, 0, 0)"), ("Light", "rgb(255, 255, 255)")):
            lab.change_theme(f"JupyterLab {theme}")
            expect(page.locator(f".nbdist[data-size][data-theme={theme.lower()}]")).to_be_visible()
            # a row that is drawn anew has the colours of the page
            for top in (1e6, 0):
                log.evaluate("(node, top) => { node.scrollTop = top }", top)
                page.wait_for_timeout(500)
            text = frame.get_by_text("accuracy")
            assert text.evaluate("node => getComputedStyle(node).color") != ground
            page.screenshot(path=pictures / f"outputs-{theme.lower()}.png")

        lab.save()
        kept = [output["data"] for output in outputs_in(lab.path)]
        assert sum("image/png" in data for data in kept) == 4
        assert any("accuracy" in "".join(data.get("text/html", "")) for data in kept)
    report = tmp_path / "report.html"
    directory = RunStore(lab_server.home).directories()[0]
    write_report([(RunHandle(directory).run, directory)], report, "en")
    for scripts in (True, False):
        with browser.new_context(java_script_enabled=scripts, offline=True) as context:
            page = context.new_page()
            page.goto(report.as_uri())
            log = page.get_by_role("log") if scripts else page.locator(".r-shown")
            # the page draws what is in view
            log.evaluate("node => { node.style.height = '1150px'; node.scrollTop = 0 }")
            figures = log.locator("img")
            until(lambda figures=figures: figures.count() >= 4 and all(map(drawn, figures.all())))
            if scripts:
                log.locator("iframe.nbdist-output").first.scroll_into_view_if_needed()
                log = log.frame_locator("iframe.nbdist-output").first
            expect(log.get_by_text("accuracy").first).to_be_visible()
            page.screenshot(path=pictures / f"outputs-report-{'panel' if scripts else 'static'}.png")


def test_hostile_html_does_nothing(
    lab_server: LabServer, browser: Browser, pictures: Path, tmp_path: Path, elsewhere: Elsewhere
) -> None:
    cell = HOSTILE.replace("PORT", str(elsewhere.server_port))
    with new_page(browser) as page:
        lab = run_cell(page, lab_server, "hostile", cell)
        lab.wait_for_end(1, timeout=120)
        log = unfolded(page.locator(".nbdist")).get_by_role("log")
        expect(log).to_contain_text("the end")
        expect(log).to_contain_text("is printed as text")
        log.evaluate("node => node.scrollTop = 0")
        frame = log.frame_locator("iframe.nbdist-output")
        expect(frame.get_by_text("hello")).to_be_visible()
        frame.locator("#send").click(force=True)
        frame.locator("#link").click(force=True)
        page.screenshot(path=pictures / "outputs-hostile.png")
        lab.save()
        page.wait_for_timeout(500)
        assert page.evaluate("window.hacked") is None
        assert "hacked" not in page.title()
        assert "hostile" in page.url
    static = tmp_path / "hostile.html"
    command = [sys.executable, "-m", "nbconvert", "--to", "html", "--output", str(static), str(lab.path)]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    with browser.new_context() as context:
        page = context.new_page()
        page.goto(static.as_uri())
        page.wait_for_timeout(1000)
        assert page.evaluate("window.hacked") is None
        assert page.url == static.as_uri()
    assert elsewhere.asked == []


def test_html_of_a_rank_stays_in_its_place_in_a_report(browser: Browser, tmp_path: Path) -> None:
    shown = Shown(tmp_path / "r1")
    for number, content in enumerate(LEAVING):
        for rank in (0, 1):
            shown.show(rank, content.encode(), at=float(number), ending="html")
    values = {"t": 1.0, "step": 0, "v": {}, "hparams": {"lr": 0.1}}
    shown.directory.rank(0).metrics.write_text(json.dumps(values) + "\n")
    write_report([(shown.run, shown.directory)], tmp_path / "report.html", "en")
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()

    page.goto((tmp_path / "report.html").as_uri())

    places = page.locator(".nbdist-report > [data-nbdist-run] > .r-shown > div")
    expect(places).to_have_count(len(LEAVING))
    for number in range(len(LEAVING)):
        place = places.nth(number)
        frames = place.locator("iframe")
        held = frames.first.content_frame.locator("html") if frames.count() else place
        expect(held).to_contain_text("mark")
    behind = page.locator(".nbdist-report > section", has_text="lr")
    expect(behind).to_have_count(1)
    expect(behind).to_have_css("font-weight", "400")
    expect(page.locator("body > *:not(.nbdist-report, script)")).to_have_count(0)
    context.close()
