"""Held ranks in JupyterLab: the prompt in the panel, beside that of the cell."""

from __future__ import annotations

from pathlib import Path

import pytest
from lab import LabServer, notebook_page
from playwright.sync_api import Browser, expect

pytestmark = pytest.mark.browser

HELD = """%%distributed -n 2 --name held
import os
rank = int(os.environ["RANK"])
loss = 1.5
if loss > 1:
    breakpoint()
print("went on with", loss)
"""


def test_a_held_rank_is_looked_at_in_its_panel_and_goes_on(
    lab_server: LabServer, browser: Browser, pictures: Path
) -> None:
    with notebook_page(lab_server, browser, "held", HELD) as (lab, page):
        panel = lab.start(1)
        prompt = panel.get_by_role("textbox", name="Command for the debugger")

        expect(prompt).to_be_visible()
        expect(panel.locator(".nbdist-debugger > div", has_text="loss = 1.5")).to_have_count(2)
        expect(lab.cell(1).locator("input.jp-Stdin-input")).to_be_visible()
        prompt.fill("p rank + 10")
        prompt.press("Enter")
        expect(panel.locator(".nbdist-debugger pre")).to_contain_text("0: 10\n1: 11")
        page.screenshot(path=pictures / "held.png")

        panel.get_by_role("tab", name="rank 1").click()
        prompt.fill("loss = 7")
        with page.expect_response("**/debug"):
            prompt.press("Enter")
        expect(prompt).to_have_value("")
        panel.get_by_role("tab", name="All").click()
        prompt.fill("c")
        prompt.press("Enter")
        lab.wait_for_end(1)
        expect(panel).to_contain_text("went on with 7")
        expect(lab.cell(1).locator("input.jp-Stdin-input")).to_be_hidden()
        lab.run_and_wait(0)
