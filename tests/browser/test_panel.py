"""The panel, in a real JupyterLab in a real Chromium."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from dashboard import run_named, show_runs
from lab import LabPage, LabServer, new_page, notebook_page, unfolded
from playwright.sync_api import Browser, expect

from nbdist.store import RunStore, snapshot
from nbdist.text import reason_text

pytestmark = pytest.mark.browser

TRAINING = """%%distributed -n 2 --name lenet
import os, time, nbdist
rank = int(os.environ["RANK"])
for step in range({steps}):
    print(f"step {step} of rank {rank} loss {1 / (step + 1):.4f}")
    nbdist.log(step=step, loss=1 / (step + 1))
    time.sleep(0.1)
"""


def training(steps: int) -> str:
    return TRAINING.replace("{steps}", str(steps))


def test_lines_of_both_ranks_are_seen_while_they_run_and_stop_stops_them(
    lab_server: LabServer, browser: Browser
) -> None:
    with notebook_page(lab_server, browser, "stop", training(6000)) as (lab, page):
        lab.run(1)
        panel = page.locator(".nbdist")

        expect(panel.locator(".nbdist-pill")).to_have_text("Running")
        expect(panel.locator(".nbdist-rank")).to_have_count(2)
        expect(panel.get_by_role("log")).to_contain_text("of rank 0")
        expect(panel.get_by_role("log")).to_contain_text("of rank 1")
        expect(panel.locator("td.nbdist-last").nth(1)).to_contain_text("of rank 1 loss")

        panel.get_by_role("tab", name="Rank 1").click()
        expect(panel.get_by_role("log")).not_to_contain_text("of rank 0")
        panel.get_by_role("tab", name="Rank 1").press("ArrowLeft")
        expect(panel.get_by_role("tab", name="Rank 0")).to_have_attribute("aria-selected", "true")
        expect(panel.get_by_role("log")).not_to_contain_text("of rank 1")

        panel.get_by_role("button", name="Stop").click()
        lab.wait_for_end(1)
        expect(panel.locator(".nbdist-head")).to_contain_text("You stopped it")
        expect(lab.cell(1).locator('.jp-RenderedText[data-mime-type$=".error"]')).to_have_count(0)
        expect(page.locator(".Toastify__toast")).to_have_count(0)
        expect(lab.cell(1).locator(".nbdist-summary")).to_contain_text("Stopped")
    run = snapshot(RunStore(lab_server.home).directories()[0])
    assert (run.state.value, reason_text(run.reason)) == ("stopped", "stopped from the page")


def test_the_panel_stays_while_page_and_kernel_live_and_the_saved_notebook_is_static(
    lab_server: LabServer, browser: Browser, pictures: Path
) -> None:
    clicked = lab_server.notebooks / "clicked"
    cell = f"{training(30)}while not os.path.exists('clicked'): time.sleep(0.05)\n"
    with notebook_page(lab_server, browser, "static", cell) as (lab, page):
        lab.run(1)
        panel, summary = lab.cell(1).locator(".nbdist"), lab.cell(1).locator(".nbdist-summary")
        panel.get_by_role("tab", name="Rank 1").click()
        clicked.touch()
        lab.wait_for_end(1)

        expect(panel.locator(".nbdist-pill")).to_have_text("Finished")
        expect(panel.get_by_role("tab", name="Rank 1")).to_have_attribute("aria-selected", "true")
        expect(panel.get_by_role("log")).to_contain_text("step 29 of rank 1")
        expect(panel.locator(".nbdist-details")).to_contain_text("loss 0.0333")
        expect(summary).to_be_hidden()
        panel.get_by_role("tab", name="Metrics").click()
        expect(panel.locator("canvas").first).to_be_visible()
        lab.save()

        saved = json.loads(lab.path.read_text())
        assert "widgets" not in saved["metadata"]
        assert "widget-view" not in json.dumps(saved["cells"][1]["outputs"])
        assert lab.path.stat().st_size < 50_000

        page.reload()
        # saved, and the kernel lives: all of it comes back from disk, as one line
        expect(panel.locator(".nbdist-details")).to_contain_text("loss 0.0333", timeout=30_000)
        expect(panel.get_by_role("log")).to_be_hidden()
        panel.scroll_into_view_if_needed()
        page.screenshot(path=pictures / "fine-light.png")
        unfolded(panel)
        expect(panel.get_by_role("log")).to_contain_text("step 29 of rank 0", timeout=30_000)
        panel.get_by_role("button", name="Run again").click()
        expect(panel.locator(".nbdist-pill")).to_have_text("Running")
        lab.wait_for_end(1)
        lab.save()
        page.evaluate("() => window.jupyterapp.shell.currentWidget.sessionContext.shutdown()")

    with new_page(browser) as page:
        again = LabPage(lab_server, page, lab.path)
        summary = again.cell(1).locator(".nbdist-summary")
        expect(summary).to_contain_text("Finished")
        expect(summary).to_contain_text("loss 0.03333")
        expect(summary.get_by_text("step 29 of rank 0")).to_be_visible()
        expect(again.cell(1).locator(".nbdist")).to_have_count(0)
        assert "Loading widget" not in page.content()
        page.screenshot(path=pictures / "summary-light.png")
        summary.get_by_role("button", name="Charts").click()
        dashboard = page.locator(".nbdist-dash")
        expect(dashboard.get_by_role("tab", name="Metrics")).to_have_attribute("aria-selected", "true")


def test_after_a_reload_the_panel_of_a_cell_that_runs_is_back_and_its_end_is_kept(
    lab_server: LabServer, browser: Browser
) -> None:
    notebook = lab_server.write_notebook("reloaded.ipynb", "1/0", "print(40 + 2)")
    with new_page(browser) as page:
        lab = LabPage(lab_server, page, notebook)
        lab.run_and_wait(0)
        lab.save()
        page.evaluate(
            """source => {
                const { content } = window.jupyterapp.shell.currentWidget;
                content.widgets[0].model.sharedModel.setSource(source);
            }""",
            training(6000),
        )
        lab.save()
        lab.run(0)
        expect(page.locator(".nbdist").get_by_role("log")).to_contain_text("of rank 1", timeout=30_000)

        page.reload()
        panel = lab.cell(0).locator(".nbdist")
        expect(panel.get_by_role("log")).to_contain_text("of rank 1", timeout=30_000)
        expect(lab.cell(0).locator(lab.prompt)).to_have_text("[*]:")
        expect(lab.cell(0).get_by_text("ZeroDivisionError").filter(visible=True)).to_have_count(0)
        panel.get_by_role("button", name="Stop").click()
        expect(panel.locator(".nbdist-pill")).to_have_text("Stopped")
        expect(lab.cell(0).locator(lab.prompt)).to_have_text("[ ]:")
        # the panel stays, and the notebook keeps the summary
        expect(panel.get_by_role("log")).to_contain_text("of rank 1")
        expect(lab.cell(0).locator(".nbdist-summary")).to_have_count(1)
        # the kernel is free again; a cell that waited while this one was stopped it would not have run
        page.wait_for_function(
            "() => window.jupyterapp.shell.currentWidget.sessionContext.session?.kernel?.status === 'idle'"
        )
        lab.run_and_wait(1)
        lab.save()
        expect(page.locator(".jp-mod-dirty")).to_have_count(0)

        page.reload()
        expect(lab.cell(0).locator(".nbdist-summary")).to_contain_text("Stopped", timeout=30_000)
        expect(lab.cell(0).locator(".nbdist")).to_have_count(0)
    saved = json.loads(notebook.read_text())["cells"][0]["outputs"]
    assert [output["output_type"] for output in saved] == ["display_data"]
    assert "ZeroDivisionError" not in json.dumps(saved)


@pytest.mark.parametrize("detached", [False, True], ids=["it ends with the kernel", "it goes on without it"])
def test_a_panel_says_how_its_run_stands_when_the_kernel_goes(
    lab_server: LabServer, browser: Browser, pictures: Path, detached: bool
) -> None:
    cells = (
        training(6000).replace("-n 2", "-n 2 -d" if detached else "-n 2"),
        "import os; os.kill(os.getpid(), 9)",
    )
    with notebook_page(lab_server, browser, f"gone-{detached}", *cells) as (lab, page):
        dialog = page.get_by_role("dialog").filter(has_text="Kernel Restarting")
        page.add_locator_handler(dialog, lambda: dialog.get_by_role("button").last.click())
        lab.run(1)
        panel = lab.cell(1).locator(".nbdist:visible")
        expect(panel.get_by_role("log")).to_contain_text("of rank 1")
        if detached:
            lab.run(2)
            expect(lab.cell(1)).to_have_class(re.compile("nbdist-restored"))
            expect(panel.get_by_role("log")).to_contain_text("of rank 1")
            panel.get_by_role("button", name="Stop").click()
        else:
            page.evaluate("() => void jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()")

        expect(panel.locator(".nbdist-pill")).to_have_text("Stopped")
        # a kernel is interrupted before it is restarted, and may not hear in time what for
        reason = "topped from the page" if detached else "ernel restarted|kernel was interrupted|kernel ended"
        expect(panel).to_contain_text(re.compile(f"You stopped it|{reason}"))
        expect(panel.get_by_role("button", name="Run again")).to_be_visible()
        expect(panel).to_contain_text("Last values")
        expect(run_named(show_runs(page), "lenet")).to_contain_text(re.compile(reason))
        page.screenshot(path=pictures / f"kernel-gone-{detached}.png")
        lab.wait_until_ready()
        expect(lab.cell(1).locator(".nbdist-summary")).to_have_count(1)
        lab.save()
        expect(page.locator(".jp-mod-dirty")).to_have_count(0)
    saved = json.dumps(json.loads(lab.path.read_text())["cells"][1]["outputs"])
    assert re.search(reason, saved)
    assert "widget-view" not in saved


def test_dark_chinese_and_narrow(lab_server: LabServer, browser: Browser, pictures: Path) -> None:
    cells, dark = (training(6000), "%dist_status"), "JupyterLab Dark"
    with notebook_page(lab_server, browser, "dark", *cells, theme=dark, width=760) as (lab, page):
        page.evaluate("document.documentElement.lang = 'zh-CN'")
        lab.run(1)
        panel = page.locator(".nbdist")

        expect(panel.locator(".nbdist-pill")).to_have_text("运行中")
        expect(panel.get_by_role("log")).to_contain_text("of rank 1")
        page.screenshot(path=pictures / "panel-dark-zh.png")

        panel.get_by_role("button", name="停止").click()
        lab.wait_for_end(1)
        expect(lab.cell(1)).to_contain_text(re.compile(r"已由您停止，第 \d+ 步"))
        page.screenshot(path=pictures / "stopped-dark-zh.png")
        lab.run_and_wait(2)
        expect(lab.cell(2).locator(".nbdist-status")).to_contain_text("已停止")


SAVING = """%%distributed -n 2 --name lenet
import time
print("ready", flush=True)
try:
    time.sleep(1000)
finally:
    with open(f"model-{__import__('os').environ['RANK']}.pt", "w") as file:
        for part in range(600):
            file.write("x" * 1000)
            file.flush()
            time.sleep(0.1)
"""


def test_ranks_that_save_say_so_and_stop_now_cuts_the_save(
    lab_server: LabServer, browser: Browser, pictures: Path
) -> None:
    with notebook_page(lab_server, browser, "saving", SAVING) as (lab, page):
        panel = lab.start(1)
        expect(panel.get_by_role("log")).to_contain_text("ready")

        panel.get_by_role("button", name="Stop", exact=True).click()
        expect(panel.locator(".nbdist-rank").nth(1)).to_contain_text(re.compile(r"saving, ([4-9]|\d\d) s"))
        expect(panel.get_by_role("button", name="Stop now")).to_have_count(0)
        page.mouse.move(5, 5)
        page.screenshot(path=pictures / "saving.png")
        panel.get_by_role("button", name="Stop now").click()

        lab.wait_for_end(1)
        expect(panel.locator(".nbdist-head")).to_contain_text("You stopped it")
        expect(panel).to_contain_text("rank 0 was ended while it saved model-0.pt")
        page.screenshot(path=pictures / "saving-cut.png")


LIMITED = """%%distributed -n 2 --name lenet --until 3s
import time, nbdist
latest = nbdist.latest_checkpoint()
first = 0 if latest is None else int(latest.name.split("-")[1])
for step in range(first, 2000):
    time.sleep(0.05)
    if nbdist.should_stop():
        if __import__("os").environ["RANK"] == "0":
            with nbdist.checkpoint(step) as path:
                (path / "step").write_text(str(step))
        break
print("left at", step)
"""


def test_a_run_that_has_reached_its_limit_is_no_error_and_goes_on_by_a_click(
    lab_server: LabServer, browser: Browser, pictures: Path
) -> None:
    with notebook_page(lab_server, browser, "limit", LIMITED) as (lab, page):
        panel = lab.start(1)
        lab.wait_for_end(1, timeout=30)
        expect(panel.locator(".nbdist-pill")).to_have_text("Finished")
        expect(panel).to_contain_text("at its limit (3s)")
        page.screenshot(path=pictures / "limit.png")
        page.set_viewport_size({"width": 760, "height": 900})
        page.screenshot(path=pictures / "limit-narrow.png")
        page.set_viewport_size({"width": 1200, "height": 900})

        panel.get_by_role("button", name="Resume from step").click()

        expect(lab.cell(2).locator(".nbdist-pill")).to_have_text("Finished", timeout=30_000)
        expect(lab.cell(2)).to_contain_text("resumed from lenet-")
