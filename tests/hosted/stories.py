"""Stories of a user in JupyterLab, wherever its server is."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import FrameLocator, Locator, Page, expect

from tests.browser.dashboard import open_run
from tests.browser.lab import LabPage
from tests.hosted.services import TRAINING, Host, until

CELL = f"%%distributed -n 2 --name NAME --no-check\n{TRAINING}"
COLOURED = """canvas => {
    const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
    for (let at = 0; at < data.length; at += 4) {
        const colour = data.subarray(at, at + 3);
        if (data[at + 3] > 200 && Math.max(...colour) - Math.min(...colour) > 100) return true;
    }
    return false;
}"""
"""Axes are grey, curves are not."""


def a_morning_in_a_notebook(host: Host, page: Page, pictures: Path, name: str) -> None:
    """Use a cell, its panel and its Stop; then a run's dashboard, VisualDL, a reload, Stop there."""
    first, second = CELL.replace("NAME", "first"), CELL.replace("NAME", "second")
    notebook = host.write_notebook("morning.ipynb", "%load_ext nbdist", first, second, "%dist_board second")
    lab = LabPage(host, page, notebook)
    lab.run_and_wait(0)

    lab.run(1)
    panel = lab.cell(1).locator(".nbdist")
    expect(panel.get_by_role("log")).to_contain_text("of rank 1", timeout=20_000)
    page.screenshot(path=pictures / f"{name}-panel.png")
    panel.get_by_role("button", name="Stop", exact=True).click()
    lab.wait_for_end(1, timeout=30)
    expect(lab.cell(1).locator(".nbdist-summary")).to_contain_text("stopped from the page")

    lab.run(2)
    dashboard = open_run(page, "second")
    expect(dashboard.get_by_role("log")).to_contain_text("of rank 1", timeout=20_000)
    expect(dashboard.locator(".nbdist-curves canvas")).to_have_count(1, timeout=20_000)
    page.screenshot(path=pictures / f"{name}-dashboard.png")
    dashboard.get_by_role("tab", name="VisualDL").click()
    shows_curves(dashboard.frame_locator("iframe"))
    page.screenshot(path=pictures / f"{name}-visualdl.png")

    # the page is loaded again, while the cell keeps the kernel busy
    page.goto(f"{host.url}lab/tree/{notebook.name}?reset")
    page.locator(lab.cells).first.wait_for(timeout=60_000)
    dashboard = open_run(page, "second")
    goes_on(dashboard.get_by_role("log"))
    page.screenshot(path=pictures / f"{name}-loaded-again.png")
    dashboard.get_by_role("button", name="Stop", exact=True).click()
    expect(dashboard.locator(".nbdist-pill")).to_have_text("Stopped", timeout=20_000)

    # so the kernel is free
    page.get_by_role("tab", name=notebook.name).click()
    lab.wait_until_ready()
    lab.run_and_wait(3)
    shows_curves(lab.cell(3).frame_locator("iframe"))
    expect(lab.cell(3)).not_to_contain_text("Warning")
    page.screenshot(path=pictures / f"{name}-board.png")


def shows_curves(board: FrameLocator) -> None:
    expect(board.get_by_text("loss").first).to_be_visible(timeout=40_000)
    canvas = board.locator("canvas").first
    expect(canvas).to_be_visible(timeout=30_000)
    until(lambda: canvas.evaluate(COLOURED), 30)


def goes_on(log: Locator) -> None:
    """Wait for a line that is newer than those shown."""
    expect(log).to_contain_text("of rank 1", timeout=20_000)
    last = log.locator(".nbdist-line").last
    before = last.inner_text()
    expect(last).not_to_have_text(before, timeout=10_000)
