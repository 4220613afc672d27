"""A report that somebody was sent opens from the disk, without a network, and says what is not in it."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from nbdist.model import RunState
from nbdist.panel.report_file import write_report
from nbdist.worker import records
from nbdist.worker.records import FILE_NAME
from tests.fakes.directories import WrittenRun
from tests.fakes.runs import CREATED, STARTED, exited, run_ended

pytestmark = pytest.mark.browser

PICTURE = bytes.fromhex(  # one black pixel
    "89504e470d0a1a0a0000000d4948445200000001000000010806000000"
    "1f15c4890000000d49444154789c6360606060000000050001a5f645400000000049454e44ae426082"
)


@pytest.fixture
def report(tmp_path: Path) -> Path:
    """Write a Chinese report of two ranks with sixty tags; the log of one has no room in it."""
    run = WrittenRun(tmp_path / "home", cell="import torch\nprint('<hello>')\n")
    run.happened(*STARTED, exited(0), exited(1), run_ended(RunState.FINISHED))
    for rank in (0, 1):
        with run.directory.rank(rank).metrics.open("a") as file:
            for step in range(50):
                values = {f"tag{number}": math.exp(-step / 20) + rank for number in range(60)}
                file.write(json.dumps({"t": CREATED + step, "step": step, "v": values}) + "\n")
    run.printed(0, "\x1b[31mfirst of rank 0\x1b[0m\nlast of rank 0\n")
    run.printed(1, "".join(f"line {number}\n" for number in range(60_000)))
    folder = run.directory.board / "rank0.image"
    folder.mkdir(parents=True)
    frame = records.encode("samples", 7, 1, records.image(PICTURE))
    (folder / FILE_NAME).write_bytes(frame)
    path = tmp_path / "report.html"
    write_report([(run.run, run.directory)], path, "zh", room=100_000, tags=55)
    return path


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1200, "height": 900}, offline=True)
    page = context.new_page()
    page.set_default_timeout(30_000)
    yield page
    context.close()


def test_a_report_opens_without_a_network_and_shows_everything(page: Page, report: Path) -> None:
    urls: list[str] = []
    errors: list[str] = []
    page.on("request", lambda request: urls.append(request.url))
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda line: errors.append(line.text) if line.type in ("error", "warning") else None)

    page.goto(report.as_uri())

    panel = page.locator(".nbdist")
    expect(panel.locator(".nbdist-pill")).to_have_text("已完成")
    expect(page.locator(".nbdist-summary")).to_be_hidden()
    expect(panel.locator(".nbdist-curves canvas")).to_have_count(3)
    log = panel.get_by_role("log")
    panel.get_by_role("tab").nth(1).click()
    log.get_by_text("first of rank 0").wait_for()
    panel.get_by_role("tab").nth(2).click()
    panel.get_by_role("searchbox").fill("line 59999")
    log.get_by_text("line 59999").wait_for()
    panel.locator("[role=tab]", has_text="指标").click()
    expect(panel.locator(".nbdist-charts canvas")).to_have_count(55)
    panel.locator("[role=tab]", has_text="单元格").click()
    panel.get_by_text("<hello>").wait_for()
    page.wait_for_function("document.querySelector('.r-media img').naturalWidth === 1")
    missing = page.locator(".r-missing").inner_text()
    assert "60 项指标中的 5 项（tag55, tag56, tag57, tag58, tag59）" in missing
    assert "日志中部的 0.5 MB（进程 1）" in missing
    assert [url for url in urls if not url.startswith(("file:", "data:"))] == []
    assert [url for url in urls if url.startswith("file:")] == [report.as_uri()]
    assert errors == []


def test_without_scripts_and_on_paper_a_report_is_a_summary(
    browser: Browser, page: Page, report: Path
) -> None:
    page.goto(report.as_uri())
    expect(page.locator(".nbdist-pill")).to_be_visible()

    page.emulate_media(media="print")

    expect(page.locator(".nbdist-pill")).to_be_hidden()
    expect(page.locator(".nbdist-summary")).to_be_visible()
    context = browser.new_context(java_script_enabled=False, offline=True)
    bare = context.new_page()
    bare.goto(report.as_uri())
    expect(bare.locator(".nbdist-summary")).to_contain_text("last of rank 0")
    expect(bare.get_by_text("print('<hello>')")).to_be_visible()
    context.close()
