"""A sweep in a real JupyterLab."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest
from dashboard import show_runs
from lab import LabServer, notebook_page
from playwright.sync_api import Browser, Page, expect

pytestmark = pytest.mark.browser

SWEEP = """%%distributed --sweep lr=0.1,0.01,5 --sweep width=64,128 -n 2 --each 1 --name lenet --metric loss
import nbdist, time
lr, width = nbdist.params.lr, nbdist.params.width
for step in range(10):
    nbdist.log(step, loss=lr * (10 - step) * 64 / width)
if lr == 5:
    raise ValueError("the loss is not finite")
"""


ENDLESS = """%%distributed --sweep lr=0.1,0.01,0.001 -n 2 --each 1 --name endless
import nbdist, time
while True:
    nbdist.log(loss=nbdist.params.lr)
    time.sleep(0.1)
"""


def saved(notebook: Path, page: Page, cell: int = 1) -> list[dict[str, Any]]:
    """Return the data that the saved notebook keeps of the sweep's cell, besides text."""
    deadline = time.monotonic() + 20
    while True:
        outputs = json.loads(notebook.read_text())["cells"][cell]["outputs"]
        if data := [output["data"] for output in outputs if "data" in output]:
            return data
        assert time.monotonic() < deadline
        page.wait_for_timeout(100)


def test_a_sweep_is_one_panel_and_a_click_opens_a_run(
    lab_server: LabServer, browser: Browser, pictures: Path
) -> None:
    with notebook_page(lab_server, browser, "sweep", SWEEP, ran=1) as (lab, page):
        panel = lab.cell(1).locator(".nbdist-sweep")

        expect(panel).to_have_count(1)
        expect(panel).to_contain_text("6 of 6 points · 2 failed")
        points = panel.locator("tbody tr")
        expect(points.first).to_contain_text("lenet-4")
        expect(points.last).to_contain_text("ValueError: the loss is not finite")
        expect(panel.locator(".uplot")).to_have_count(1)
        lab.cell(1).scroll_into_view_if_needed()
        page.screenshot(path=pictures / "sweep-light.png")

        sidebar = show_runs(page)
        # other tests have left runs below it
        entry, runs = sidebar.locator("[data-sweep]").first, sidebar.locator("[data-of-sweep=true]")
        expect(entry).to_contain_text("6/6 · best loss 0.005 · lr=0.01 width=128 · 2 failed")
        expect(runs).to_have_count(0)
        entry.click()
        expect(runs).to_have_count(6)
        page.screenshot(path=pictures / "sweep-sidebar-open.png")
        sidebar.get_by_role("searchbox").fill("failed")
        expect(runs).to_have_count(2)
        expect(entry).to_contain_text("2 of 6 points")
        sidebar.get_by_role("searchbox").fill("")
        expect(entry).to_contain_text("6/6")
        page.set_viewport_size({"width": 600, "height": 800})
        panel.scroll_into_view_if_needed()
        page.screenshot(path=pictures / "sweep-narrow.png")
        page.set_viewport_size({"width": 1280, "height": 800})

        lab.save()
        (data,) = saved(lab.path, page)
        assert "application/vnd.jupyter.widget-view+json" not in data
        assert "lenet-4" in "".join(data["text/html"])

        points.first.get_by_role("button").click()
        opened = page.locator(".nbdist-dash", has_text="lenet-4")
        expect(opened.first).to_be_visible()


def test_the_sidebar_stops_a_sweep(lab_server: LabServer, browser: Browser) -> None:
    with notebook_page(lab_server, browser, "endless", ENDLESS) as (lab, page):
        lab.run(1)
        sidebar = show_runs(page)
        entry = sidebar.locator("[data-sweep]", has_text="endless").first
        expect(entry).to_contain_text("0/3")
        entry.click()
        panel = lab.cell(1).locator(".nbdist-sweep")
        boxes = (panel.bounding_box(), panel.get_by_role("button", name="Stop").bounding_box())
        edges = [box["x"] + box["width"] for box in boxes]
        assert edges[0] - edges[1] >= 8
        expect(panel).to_contain_text("2 running · 1 waiting")

        sidebar.get_by_role("button", name="Stop the sweep").click()

        expect(panel).to_contain_text("2 of 3 points")
        expect(panel).to_contain_text("stopped from the list of runs")
        expect(entry).to_have_attribute("data-live", "false")
        expect(entry).to_have_attribute("data-state", "stopped")


TRAINING = """%%distributed -n 2 --name steps
import time, torch
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(150):
    model(torch.randn(32, 8)).sum().backward()
    time.sleep(0.02)
    optimizer.step()
"""


def test_a_scale_is_asked_for_in_the_sidebar_and_drawn_below_its_cell(
    lab_server: LabServer, browser: Browser, pictures: Path
) -> None:
    with notebook_page(lab_server, browser, "scaled", TRAINING, ran=1, width=1280) as (lab, page):
        run = show_runs(page).locator("[data-run]", has_text="steps").first
        expect(run).to_have_attribute("data-live", "false")
        run.click(button="right")
        page.locator(".lm-Menu:visible").get_by_text("Are more ranks worth it").click()
        dialog = page.locator(".jp-Dialog")
        field = dialog.get_by_role("textbox")
        expect(field).to_have_value("1,2 --for 30s")
        page.screenshot(path=pictures / "scale-form.png")
        field.fill("1,2 --for 1s")
        dialog.get_by_role("button", name="Insert and run").click()

        panel = lab.cell(2).locator(".nbdist-sweep")
        expect(panel).to_contain_text("2 of 2", timeout=90_000)
        expect(panel).to_contain_text(re.compile(r"2 ranks give \d+\.\d ×"))
        expect(panel.locator("tbody .nbdist-bar").first).to_be_visible()
        assert panel.locator("tbody tr").nth(1).locator("td").first.inner_text() != "–"
        # every point has ended before the sweep has, and the notebook keeps the table from its end on
        lab.wait_for_end(2)
        for theme in ("Light", "Dark"):
            lab.change_theme(f"JupyterLab {theme}")
            panel.scroll_into_view_if_needed()
            page.screenshot(path=pictures / f"scale-{theme.lower()}.png")
        lab.save()
        (data,) = saved(lab.path, page, 2)
        assert "█" in "".join(data["text/html"])
