"""A training in the panel: how the time of a step divides, and what limits it."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import pytest
from dashboard import open_run
from lab import LabServer, notebook_page
from playwright.sync_api import Browser, expect

pytestmark = pytest.mark.browser

SLOW_RANK = """%%distributed -n 2 --name slow-rank
import time, torch, torch.distributed as dist
dist.init_process_group()
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(150):
    loss = model(torch.ones(32, 64)).mean()
    time.sleep(0.02 + 0.08 * dist.get_rank())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def test_a_bar_shows_where_the_time_of_a_step_goes(
    lab_server: LabServer, browser: Browser, pictures: Path
) -> None:
    with notebook_page(lab_server, browser, "slow", SLOW_RANK) as (lab, page):
        lab.run(1)
        panel = page.get_by_role("region", name=re.compile("slow-rank"))

        bar = panel.get_by_role("img", name=re.compile("^Time of a step: .*forward.*wait"))
        expect(bar).to_be_visible(timeout=60_000)
        expect(panel).to_contain_text(re.compile(r"the other ranks wait \d+ % of the time for rank 1"))
        expect(bar.locator("span").first).to_have_text(re.compile(r"^forward \d+ %$"))
        page.screenshot(path=pictures / "training.png")

        lab.wait_for_end(1, timeout=60)
        expect(bar).to_be_visible()


def test_a_button_records_what_the_ranks_do(lab_server: LabServer, browser: Browser, pictures: Path) -> None:
    cell = SLOW_RANK.replace("slow-rank", "recorded").replace("150", "3000")
    with notebook_page(lab_server, browser, "recorded", cell, theme="JupyterLab Dark") as (lab, page):
        page.evaluate("document.documentElement.lang = 'zh-CN'")
        lab.run(1)
        panel = page.get_by_role("region", name=re.compile("recorded"))
        panel.get_by_role("button", name="剖析 2 秒").click(timeout=60_000)
        lines = panel.locator(".nbdist-profile-line")
        expect(lines).to_have_count(2, timeout=30_000)
        # rank 0 waits for rank 1 in gloo's thread
        expect(lines.first).to_have_attribute("title", re.compile(r"通信 [4-9]\d %"))
        page.screenshot(path=pictures / "profile-dark-zh.png")

        dashboard = open_run(page, "recorded")
        expect(dashboard.locator(".nbdist-profile-line")).to_have_count(2)
        with page.expect_download() as saved:
            dashboard.locator("a[href$='/profile']").click()
        assert json.loads(gzip.decompress(saved.value.path().read_bytes()))["traceEvents"]
        page.screenshot(path=pictures / "profile-dashboard.png")
