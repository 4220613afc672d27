"""Pages that other programs make of notebooks: Voilà and marimo, each of which serves a real one."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.lab import write_notebook
from tests.engines.ports import free_ports
from tests.hosted.services import TRAINING, ask, running, until

pytestmark = pytest.mark.browser

APP = """import marimo

app = marimo.App()


@app.cell
def _():
    import nbdist

    scale = 2.0

    def train(lr):
        import os, time

        for step in range(200):
            print(f"step {step} of rank {os.environ['RANK']}", flush=True)
            time.sleep(0.05)
        return lr * scale

    run = nbdist.run(train, 0.1, nproc=2, name="lenet")
    return (run,)


@app.cell
def _(run):
    run.result()
    return
"""


def variables(folder: Path, home: Path) -> dict[str, str]:
    return os.environ | {"NBDIST_HOME": str(home), "HOME": str(folder), "IPYTHONDIR": str(folder / "ipython")}


def test_voila_serves_what_has_run_and_what_still_runs(
    browser: Browser, tmp_path: Path, home: Path, pictures: Path
) -> None:
    pytest.importorskip("voila", reason="make test-hosts")
    short = TRAINING.replace("100_000", "10")
    cells = (f"%%distributed -n 2 --name ended\n{short}", f"%%distributed -n 2 -d --name live\n{TRAINING}")
    notebook = write_notebook(tmp_path / "voila.ipynb", "%load_ext nbdist", *cells)
    (port,) = free_ports(1)
    command = [sys.executable, "-m", "voila", "--no-browser", f"--port={port}", str(notebook)]
    with running(command, tmp_path / "log", variables(tmp_path, home), tmp_path):
        until(lambda: ask(f"http://127.0.0.1:{port}/voila/static/voila.js", "")[0])
        page = browser.new_context(viewport={"width": 900, "height": 900}).new_page()
        page.goto(f"http://127.0.0.1:{port}/", timeout=120_000)
        ended, live = (page.locator(".nbdist").filter(has_text=name) for name in ("ended-", "live-"))
        ended.locator(".nbdist-details").click()
        expect(ended.get_by_role("log")).to_contain_text("step 9 of rank 1")
        expect(live.get_by_role("log")).to_contain_text("of rank 1")
        pictured(page, pictures / "voila")
        live.get_by_role("button", name="Stop", exact=True).click()
        expect(live.locator(".nbdist-pill")).to_have_text("Stopped")
        expect(live.get_by_role("log")).to_contain_text("of rank 1")
        page.context.close()


def test_marimo_shows_a_panel_while_a_call_waits_and_the_summary_then(
    browser: Browser, tmp_path: Path, home: Path, pictures: Path
) -> None:
    pytest.importorskip("marimo", reason="make test-hosts")
    (tmp_path / "app.py").write_text(APP)
    (port,) = free_ports(1)
    command = [sys.executable, "-m", "marimo", "-q", "run", "app.py", "--headless", "--no-token"]
    command += ["--no-sandbox", f"--port={port}"]
    with running(command, tmp_path / "log", variables(tmp_path, home), tmp_path):
        until(lambda: ask(f"http://127.0.0.1:{port}/health", "")[0] == 200)
        page = browser.new_context(viewport={"width": 900, "height": 900}).new_page()
        page.goto(f"http://127.0.0.1:{port}/", timeout=60_000)
        panel = page.locator(".nbdist")
        expect(panel.get_by_role("log")).to_contain_text("of rank 1")
        expect(panel.locator(".nbdist-pill")).to_have_text("Running")
        pictured(page, pictures / "marimo")
        expect(page.locator(".nbdist-summary")).to_contain_text("Finished", timeout=60_000)
        expect(page.locator("body")).to_contain_text("0.2")
        expect(panel).to_have_count(0)
        page.context.close()


def pictured(page: Page, path: Path) -> None:
    """Take a picture of the page as it is, and one of it narrow."""
    page.screenshot(path=f"{path}.png")
    page.set_viewport_size({"width": 420, "height": 900})
    page.screenshot(path=f"{path}-narrow.png")
