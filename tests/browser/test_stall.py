"""A run that hangs, in the panel: who waits for whom, the stacks, and what one can do about it."""

from __future__ import annotations

from pathlib import Path

import pytest
from lab import LabServer, notebook_page
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


def test_a_run_that_hangs_says_who_waits_for_whom(
    lab_server: LabServer, browser: Browser, pictures: Path
) -> None:
    with notebook_page(lab_server, browser, "hangs", HANGS) as (lab, page):
        lab.run(1)
        panel = page.locator(".nbdist")

        alert = panel.get_by_role("alert")
        expect(alert).to_contain_text("time.sleep", timeout=60_000)
        expect(alert).to_contain_text("all_reduce #4")
        expect(alert).to_contain_text("seconds = 1000")
        expect(panel.locator(".nbdist-stack")).to_have_count(2)
        expect(panel.locator(".nbdist-stack").first).to_contain_text("time.sleep(seconds)")
        page.screenshot(path=pictures / "stalled.png")

        panel.get_by_role("button", name="Stop", exact=True).click()
        lab.wait_for_end(1, timeout=60)
        expect(lab.cell(1)).to_contain_text("time.sleep")
