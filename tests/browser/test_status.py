"""The monitor of runs in a real JupyterLab and its still table, and summaries in dark pages."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from lab import LabServer, notebook_page
from playwright.sync_api import Browser, expect

pytestmark = pytest.mark.browser

TRAINING = """%%distributed -n 2 -d --name lenet
import time, nbdist
for step in range(6000):
    print(f"step {step}")
    nbdist.log(step=step, total=6000, loss=1 / (step + 1))
    time.sleep(0.05)
"""


def test_the_monitor_is_live_while_it_is_seen_and_what_stays_is_static(
    lab_server: LabServer, browser: Browser, pictures: Path
) -> None:
    seen = lab_server.notebooks / "seen-busy"
    busy = "import os, time\nwhile not os.path.exists('seen-busy'): time.sleep(0.1)"
    cells = (TRAINING, "%dist_status", busy, "1")
    with notebook_page(lab_server, browser, "status", *cells, ran=2) as (lab, page):
        monitor = lab.cell(2).locator(".nbdist-monitor")

        line = monitor.locator(".nbdist-mon-run ~ tr .nbdist-last").first
        expect(line).to_contain_text("step ")
        expect(lab.cell(2).locator(".nbdist-status")).to_be_hidden()
        # while the kernel is busy, too
        lab.run(3)
        early = line.inner_text()
        expect(line).not_to_have_text(early)
        seen.touch()
        lab.wait_for_end(3)
        lab.cell(2).scroll_into_view_if_needed()
        page.screenshot(path=pictures / "status-light.png")
        page.set_viewport_size({"width": 600, "height": 900})
        page.wait_for_timeout(1500)
        page.screenshot(path=pictures / "status-600.png")
        page.set_viewport_size({"width": 1280, "height": 900})

        monitor.get_by_role("group", name="lenet").first.get_by_role("button", name="Stop").click()
        expect(monitor.locator(".nbdist-mon-run").first).to_contain_text("Stopped")
        expect(lab.cell(2).locator(".nbdist-status")).to_contain_text("Stopped")
        lab.save()
        monitor.get_by_role("group", name="lenet").first.get_by_role("button", name="Attach").click()
        expect(lab.cell(3)).to_contain_text("%dist_attach lenet")

    (output,) = json.loads(lab.path.read_text())["cells"][2]["outputs"]
    assert "Stopped" in "".join(output["data"]["text/html"])
    assert "status.ipynb#cell-id=" in "".join(output["data"]["text/html"])
    assert "Stopped" in "".join(output["data"]["text/plain"])
    assert lab.path.stat().st_size < 60_000
