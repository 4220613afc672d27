"""The panel in the other front ends that a Jupyter server brings: Notebook 7 and nbclassic."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from dashboard import open_run
from lab import ClassicPage, LabPage, LabServer, new_page
from playwright.sync_api import Browser, Page, expect

pytestmark = pytest.mark.browser

CELL = """%%distributed -n 2 --name lenet
import os, time
for step in range(6000):
    print(f"step {step} of rank {os.environ['RANK']}")
    time.sleep(0.1)
"""


def notebook_7(server: LabServer, page: Page, notebook: Path) -> LabPage:
    return LabPage(server, page, notebook, "notebooks")


@pytest.mark.parametrize("opened", [notebook_7, ClassicPage], ids=["Notebook 7", "nbclassic"])
def test_the_panel_lives_and_its_stop_works(
    lab_server: LabServer,
    browser: Browser,
    pictures: Path,
    opened: Callable[[LabServer, Page, Path], LabPage],
) -> None:
    # Notebook 7 has the extension, which loads nbdist in the kernel
    first = ["%load_ext nbdist"] if opened is ClassicPage else []
    notebook = lab_server.write_notebook(f"{opened.__name__}.ipynb", *first, CELL)
    # Notebook 7.6 itself stumbles over a setting and a command while it loads, before any cell has run
    with new_page(browser, known="static/notebook/notebook_core") as page:
        front = opened(lab_server, page, notebook)
        for index in range(len(first)):
            front.run_and_wait(index)
        front.run(len(first))
        panel = page.locator(".nbdist")

        expect(panel.locator(".nbdist-pill")).to_have_text("Running")
        expect(panel.get_by_role("log")).to_contain_text("of rank 0")
        expect(panel.get_by_role("log")).to_contain_text("of rank 1")
        page.screenshot(path=pictures / f"panel-{opened.__name__}.png")

        panel.get_by_role("button", name="Stop").click()
        front.wait_for_end(len(first), timeout=20)
        expect(panel.locator(".nbdist-head")).to_contain_text("You stopped it")
        expect(front.cell(len(first)).locator(".nbdist-summary")).to_contain_text("Stopped")
        expect(front.cell(len(first)).locator(".nbdist-summary")).to_be_hidden()
        expect(panel.locator(".nbdist-pill")).to_have_text("Stopped")
        expect(panel.get_by_role("log")).to_contain_text("of rank 1")
        if opened is notebook_7:
            dashboard = open_run(page, "lenet")
            expect(dashboard.locator(".nbdist-pill")).to_have_text("Stopped")
            expect(dashboard.get_by_role("log")).to_contain_text("of rank 1")
