"""What a page shows of programs as other people write them: bars within bars, and modules of their own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from lab import LabPage, LabServer, new_page
from playwright.sync_api import Browser, expect

pytestmark = pytest.mark.browser

BARS = """%%distributed -n 2 --name bars
import time
from tqdm import tqdm
for epoch in tqdm(range(20), desc="epochs"):
    for batch in tqdm(range(50), desc="batches", leave=False):
        time.sleep(0.02)
"""
TRAINER = """def check(batch):
    raise ValueError(f"batch {batch} has no labels")
"""
FAILURE = """%%distributed -n 2 --name own-module
from trainer import check
check(7)
"""


@dataclass(frozen=True)
class Screen:
    name: str
    width: int
    theme: str
    language: str
    running: str
    stop: str


# bars are in test_panel_features.py, a failure in test_status.py
@pytest.mark.more
@pytest.mark.parametrize(
    "screen",
    [
        Screen("light-en", 1280, "JupyterLab Light", "en-US", "Running", "Stop"),
        Screen("dark-zh", 600, "JupyterLab Dark", "zh-CN", "运行中", "停止"),
    ],
    ids=["light-en", "dark-zh"],
)
def test_bars_within_bars_and_a_failure_in_a_module_of_the_user_s(
    lab_server: LabServer, browser: Browser, pictures: Path, screen: Screen
) -> None:
    notebook = lab_server.write_notebook(f"others-{screen.name}.ipynb", "%load_ext nbdist", BARS, FAILURE)
    (lab_server.notebooks / "trainer.py").write_text(TRAINER)
    with new_page(browser, width=screen.width, locale=screen.language) as page:
        lab = LabPage(lab_server, page, notebook, theme=screen.theme)
        page.evaluate("language => { document.documentElement.lang = language }", screen.language)
        page.evaluate("window.jupyterapp.shell.collapseLeft()")
        lab.run_and_wait(0)
        lab.run(1)
        panel = page.locator(".nbdist")
        expect(panel.locator(".nbdist-pill")).to_have_text(screen.running, timeout=30_000)
        bars = panel.locator(".nbdist-live")
        # two bars a rank, however often they were drawn
        expect(bars.get_by_text("batches")).to_have_count(2, timeout=15_000)
        expect(bars.get_by_text("epochs")).to_have_count(2)
        expect(bars.get_by_text("1/20").first).to_be_visible(timeout=15_000)
        bars.last.scroll_into_view_if_needed()
        page.screenshot(path=pictures / f"others-bars-{screen.name}.png")
        panel.get_by_role("button", name=screen.stop, exact=True).click()
        lab.wait_for_end(1, timeout=30)

        lab.run_and_wait(2)
        failure = lab.cell(2).locator(".nbdist")
        failure.scroll_into_view_if_needed()
        expect(failure).to_contain_text("trainer.py")
        expect(failure.locator(".nbdist-code-line[aria-current]")).to_contain_text("raise ValueError")
        page.screenshot(path=pictures / f"others-failure-{screen.name}.png")
