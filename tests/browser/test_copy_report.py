"""The button that copies a failed run as one text: in the panel of its cell, and in the dashboard."""

from __future__ import annotations

from pathlib import Path

import pytest
from dashboard import open_run
from lab import LabServer, notebook_page
from playwright.sync_api import Browser, Page, expect

pytestmark = pytest.mark.browser

FAILS = """%%distributed -n 2 --framework none --name copies
import os
rank = int(os.environ["RANK"])
batch = list(range(3 + rank))
print("ready", rank, flush=True)
rows = [batch[at] for at in range(9)]
"""


def clipboard(page: Page) -> str:
    text: str = page.evaluate("navigator.clipboard.readText()")
    return text


def test_a_failed_run_is_copied_from_its_panel_and_its_dashboard(
    lab_server: LabServer, browser: Browser, pictures: Path
) -> None:
    with notebook_page(lab_server, browser, "copies", FAILS, ran=1) as (_, page):
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        panel = page.locator(".nbdist:visible").first

        panel.get_by_role("button", name="Copy report").click()

        expect(panel.get_by_role("button", name="Copied", exact=True)).to_be_visible()
        text = clipboard(page)
        page.screenshot(path=pictures / "copied.png")
        assert text.startswith("nbdist report of copies-")
        assert "batch differs: list of" in text
        assert "list of 4 on rank 1" in text
        assert "▸   6  rows = [batch[at] for at in range(9)]" in text
        assert len(text.encode()) <= 8192
        expect(panel.get_by_role("button", name="Copy report")).to_be_visible()

        page.evaluate("navigator.clipboard.writeText('')")
        open_run(page, "copies").get_by_role("button", name="Copy report").click()

        expect(page.get_by_role("button", name="Copied", exact=True)).to_be_visible()
        assert clipboard(page) == text
