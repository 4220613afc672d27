"""A run that hangs, in the panel: who waits for whom, the stacks, and what one can do about it."""

from __future__ import annotations

from pathlib import Path

import pytest
from lab import LabPage, LabServer, new_page
from playwright.sync_api import Browser, expect

pytestmark = pytest.mark.browser

HANGS = """%%distributed -n 2 --name hangs --hang-after 2s
import time
import torch
import torch.distributed as dist

dist.init_process_group()
seconds = 1000
for step in range(4):
    if dist.get_rank() == 1 and step == 3:
        time.sleep(seconds)
    dist.all_reduce(torch.ones(1))
    print("step", step)
"""


@pytest.mark.parametrize("look", ["light", pytest.param("dark-zh", marks=pytest.mark.more)])
def test_a_run_that_hangs_says_who_waits_for_whom(
    lab_server: LabServer, browser: Browser, pictures: Path, look: str
) -> None:
    pytest.importorskip("torch")
    notebook = lab_server.write_notebook(f"hangs-{look}.ipynb", "%load_ext nbdist", HANGS)
    with new_page(browser) as page:
        lab = LabPage(lab_server, page, notebook)
        if look == "dark-zh":
            page.evaluate("() => { document.documentElement.lang = 'zh-CN'; }")
            lab.change_theme("JupyterLab Dark")
        lab.run_and_wait(0)
        lab.run(1)
        panel = page.locator(".nbdist")

        alert = panel.get_by_role("alert")
        expect(alert).to_contain_text("time.sleep", timeout=60_000)
        expect(alert).to_contain_text("all_reduce #4")
        expect(alert).to_contain_text("seconds: 1000")
        expect(panel.locator(".nbdist-stack")).to_have_count(2)
        expect(panel.locator(".nbdist-stack").first).to_contain_text("time.sleep(seconds)")
        page.screenshot(path=pictures / f"stalled-{look}.png")

        panel.get_by_role("button", name="停止" if look == "dark-zh" else "Stop", exact=True).click()
        lab.wait_for_end(1, timeout=60)
        expect(lab.cell(1)).to_contain_text("time.sleep")
        page.screenshot(path=pictures / f"stalled-ended-{look}.png")
