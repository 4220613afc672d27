"""The extension in JupyterLab and Notebook 7, driven as a user would: the list of runs, a run's dashboard,
and what a notebook's cells get."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest
from dashboard import open_run, run_named, show_runs
from lab import LabPage, LabServer, new_page, notebook_page, unfolded
from playwright.sync_api import Browser, Page, expect

pytestmark = pytest.mark.browser

AXE = Path(__file__).parents[2] / "labextension/node_modules/axe-core/axe.min.js"

TRAINING = """%%distributed -n 2 --name NAME
import os, time, nbdist
rank = int(os.environ["RANK"])
for step in range(5000):
    print(f"step {step} of rank {rank} loss {1 / (step + 1 + rank):.4f}", flush=True)
    nbdist.log(step=step, total=5000, loss=1 / (step + 1 + rank), acc=1 - 1 / (step + 2))
    time.sleep(0.05)
"""

SHORT = """%%distributed -n 2 --name NAME
import nbdist
for step in range(STEPS):
    nbdist.log(step=step, loss=1 / (step + 1), acc=0.5, lr=0.1, grad=1.0)
print("done")
"""

BROKEN = """%%distributed -n 2 --name broken
import os, time
def load():
    if os.environ["RANK"] == "1":
        raise ValueError("label 10 is out of range")
    time.sleep(60)
load()
"""


TWO_GPUS = {
    "gpus": [
        {
            "index": at,
            "name": "NVIDIA H200",
            "memory": 70_000_000_000 * at,
            "memory_total": 141_000_000_000,
            "utilisation": 80.0 * at,
            "temperature": 40.0,
            "holders": [{"pid": 4711, "memory": 70_000_000_000, "name": "python", "run_id": None}] * at,
        }
        for at in (0, 1)
    ],
    "machine": {"cores": 16, "cpu": 5.0, "memory": 1, "memory_total": 2},
}


def editor_selection(page: Page) -> str:
    return str(page.evaluate("() => window.getSelection().toString()"))


def problems_of(page: Page, place: str) -> list[str]:
    page.add_script_tag(path=AXE)
    violations = page.evaluate(
        "place => axe.run(place, { resultTypes: ['violations'] }).then(result => result.violations)", place
    )
    return [f"{each['id']}: {node['html'][:160]}" for each in violations for node in each["nodes"]]


def test_a_run_is_watched_and_stopped_while_its_cell_keeps_the_kernel_busy(
    lab_server: LabServer, browser: Browser, pictures: Path
) -> None:
    with notebook_page(
        lab_server, browser, "watched", TRAINING.replace("NAME", "watched"), width=1280, height=800
    ) as (lab, page):
        lab.run(1)
        dashboard = open_run(page, "watched")
        expect(dashboard.get_by_role("log")).to_contain_text("of rank 1")
        expect(dashboard.locator(".nbdist-table tbody tr")).to_have_count(2)
        expect(dashboard.locator(".nbdist-curves canvas")).to_have_count(2)
        expect(page.get_by_role("button", name="Ranks: 2 running")).to_be_visible()
        page.screenshot(path=pictures / "dashboard-light.png")
        assert problems_of(page, ".nbdist-dash") == []
        assert problems_of(page, ".nbdist-sidebar") == []

        dashboard.get_by_role("tab", name="Stacks").click()
        expect(dashboard.locator(".nbdist-stacks")).to_contain_text("time.sleep(0.05)")
        dashboard.get_by_role("tab", name="Rank 1").click()
        expect(dashboard.get_by_role("link", name="Whole log")).to_have_attribute(
            "href", re.compile(r"/ranks/1/log\?download=1$")
        )
        dashboard.get_by_role("button", name="Stop", exact=True).click()
        expect(dashboard.locator(".nbdist-pill")).to_have_text("Stopped")
        expect(run_named(page.locator(".nbdist-sidebar"), "watched")).to_contain_text("Stopped")
        # what it used stays to be seen
        head = dashboard.locator(".nbdist-table thead")
        expect(head).to_contain_text("Peak memoryMean utilisationMean step rate")
        expect(dashboard.locator(".nbdist-table tbody tr").first).to_have_text(
            re.compile(r"Stopped.*\d MB.*\d %.*[\d.]+ step/s.*KeyboardInterrupt")
        )
        tab = page.locator(".lm-TabBar-tab").filter(has_text=re.compile("^watched-"))
        tab.locator(".lm-TabBar-tabCloseIcon").click()
        expect(dashboard).to_have_count(0)
        open_run(page, "watched")
        page.get_by_role("tab", name="watched.ipynb").click()
        lab.wait_for_end(1)


def test_a_run_goes_on_without_its_kernel_and_is_attached_again(
    lab_server: LabServer, browser: Browser
) -> None:
    cell = TRAINING.replace("NAME", "detached").replace("-n 2", "-n 2 -d")
    with notebook_page(lab_server, browser, "again", cell, ran=1) as (lab, page):
        page.evaluate("() => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()")
        lab.wait_until_ready()
        run = run_named(show_runs(page), "detached")
        run.click(modifiers=["Control"])
        lab.wait_until_ready()
        page.locator(".nbdist-sidebar").get_by_role("button", name="Attach").click()

        attached = page.locator(".jp-Cell").filter(has_text=re.compile(r"%dist_attach detached-"))
        expect(attached.locator(".nbdist").get_by_role("log")).to_contain_text("of rank 1")
        page.locator(".nbdist-sidebar").get_by_role("button", name="Stop").click()
        expect(run).to_contain_text("Stopped")
        page.locator(".nbdist-sidebar").get_by_role("button", name="Delete").click()
        page.get_by_role("dialog").get_by_role("button", name="Delete").click()
        expect(run).to_have_count(0)


def test_a_failure_leads_to_the_line_of_its_cell(
    lab_server: LabServer, browser: Browser, pictures: Path
) -> None:
    size = {"width": 1280, "height": 800}
    with notebook_page(lab_server, browser, "broken", BROKEN, "print('other')", **size) as (lab, page):
        # a run that has ended before the page first asks is history, not news
        expect(page.locator(".nbdist-statusbar")).to_be_visible()
        # what is on the screen is not announced: another tab covers it
        lab.run(1)
        page.evaluate("() => { window.jupyterapp.commands.execute('launcher:create'); }")
        expect(page.locator(".Toastify")).to_contain_text("failed: rank 1 failed first")
        page.get_by_role("tab", name="broken.ipynb").click()
        lab.wait_for_end(1)
        lab.cell(1).locator(".jp-OutputArea").get_by_role("button", name="line 5 of the cell").first.click()
        expect(lab.cell(1).locator(".jp-Editor.jp-mod-focused, .cm-focused").first).to_be_visible()
        assert editor_selection(page).strip().startswith("raise ValueError")

        page.locator(".jp-Cell").nth(2).click()
        dashboard = open_run(page, "broken")
        expect(dashboard.get_by_role("alert")).to_contain_text("Rank 1 failed first: ValueError at line 5")
        expect(dashboard.get_by_role("alert")).to_contain_text("ValueError: label 10 is out of range")
        page.screenshot(path=pictures / "dashboard-failed-light.png")

        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        dashboard.get_by_role("button", name="Copy report").click()
        expect(page.get_by_role("button", name="Copied", exact=True)).to_be_visible()
        report: str = page.evaluate("navigator.clipboard.readText()")
        assert report.startswith("nbdist report of broken-")
        assert '▸   5          raise ValueError("label 10 is out of range")' in report
        dashboard.get_by_role("button", name="Line 5 of the cell").click()
        page.wait_for_function("() => window.getSelection().toString().includes('raise ValueError')")
        expect(lab.cell(1).locator(".cm-focused")).to_be_visible()


def test_a_failure_in_a_module_leads_there_and_its_log_opens_at_the_error(
    lab_server: LabServer, browser: Browser, pictures: Path
) -> None:
    raising = "def step():\n    raise ValueError('bad batch')\n"
    module = "import time\ndef train(rank):\n    if rank == 1:\n        step()\n    time.sleep(60)\n\n"
    (lab_server.notebooks / "helpers.py").write_text(module + raising)
    cell = "%%distributed -n 2 --name chain\nimport os, helpers\nprint(*range(90), sep='\\n')\n"
    cell += "helpers.train(int(os.environ['RANK']))"
    with notebook_page(lab_server, browser, "chain", cell, width=1280, height=1200) as (lab, page):
        panel = lab.start(1)
        expect(panel.locator(".nbdist-pill")).to_have_text("Failed")
        names = panel.locator(".nbdist-calls > li > :first-child")
        expect(names).to_have_text(["cell line 4", "helpers.py 4", "helpers.py 8"])
        log = panel.get_by_role("log")
        expect(log).to_contain_text("Traceback (most recent call last)")
        expect(log).not_to_contain_text("KeyboardInterrupt")
        for name, size, theme in (("light", 1280, "Light"), ("dark-narrow", 600, "Dark")):
            lab.change_theme(f"JupyterLab {theme}")
            page.set_viewport_size({"width": size, "height": 1200})
            panel.locator(".nbdist-head").scroll_into_view_if_needed()
            page.screenshot(path=pictures / f"failed-{name}.png")
        page.set_viewport_size({"width": 1280, "height": 1200})
        names.last.click()
        expect(page.get_by_role("tab", name="helpers.py")).to_have_attribute("aria-selected", "true")
        page.wait_for_function("() => window.getSelection().toString().includes('raise ValueError')")


def test_runs_are_compared_and_visualdl_shows_them(
    lab_server: LabServer, browser: Browser, pictures: Path
) -> None:
    # names that no earlier try of this test has left
    pair = f"pair{time.time_ns() % 1_000_000}"
    cells = [SHORT.replace("NAME", f"{pair}-{at}").replace("STEPS", str(20 * at)) for at in (1, 2)]
    with notebook_page(lab_server, browser, "pairs", *cells, width=1280, height=800, ran=2) as (lab, page):
        sidebar = show_runs(page)
        for name in (f"{pair}-1", f"{pair}-2"):
            run = run_named(sidebar, name)
            expect(run.locator(".nbdist-run-name")).to_have_text(re.compile(rf"{name}-\w{{4}}"))
            expect(run).to_have_attribute("data-live", "false")
            run.locator(".nbdist-check").click()
            expect(run).to_have_attribute("aria-checked", "true")
        assert problems_of(page, ".nbdist-sidebar") == []
        run.click(button="right")
        menu = page.locator(".lm-Menu:visible")
        # and none of the items that JupyterLab has for a sidebar
        of_a_run = "Open,Attach,Go to cell,Run again with…,Are more ranks worth it…,Pin,Tags…,Note…,Delete"
        items = menu.locator(".lm-Menu-item:not(.lm-mod-hidden)")
        expect(items).to_have_text([*of_a_run.split(","), "Compare 2 runs"])
        page.screenshot(path=pictures / "sidebar-menu-light.png")
        menu.get_by_text("Compare 2 runs").click()
        comparison = page.get_by_role("region", name="Compare runs")
        rows = comparison.locator("tbody tr")
        named = [re.compile(rf"^{pair}-{at}-\w{{4}}$") for at in (1, 2)]
        expect(rows.locator(".nbdist-name")).to_have_text(named)
        expect(rows.locator(".nbdist-letter")).to_have_text(["A", "B"])
        expect(comparison.locator(".nbdist-diff [data-kind=less]")).to_have_text("-for step in range(20):")
        expect(comparison.locator(".nbdist-diff [data-kind=more]")).to_have_text("+for step in range(40):")
        comparison.get_by_role("button", name=re.compile("^loss.*last")).click()
        expect(rows.locator(".nbdist-name")).to_have_text(named[::-1])
        loss = comparison.locator(".nbdist-chart").filter(has_text=re.compile("^loss"))
        curves = loss.locator(".u-over")
        expect(curves).to_be_visible()
        readout = curves.locator(".nbdist-values")

        def point_at(share: float) -> dict[str, float]:
            curves.scroll_into_view_if_needed()
            box = curves.bounding_box()
            at = {"x": box["width"] * share, "y": 40}
            curves.hover(position={"x": at["x"] - 3, "y": 40})
            curves.hover(position=at)
            return {"x": box["x"] + at["x"], "y": box["y"] + at["y"]}

        point_at(0.25)
        expect(readout).to_have_text(re.compile(rf"Step \d+A{pair}-1-\w{{4}}0\.\d+B{pair}-2-\w{{4}}0\.\d+$"))
        # the first run had ended by then
        point_at(0.75)
        expect(readout).to_have_text(re.compile(rf"Step \d+B{pair}-2-\w{{4}}0\.\d+$"))
        # what is dragged over is seen more closely, until a double click
        until, begin = point_at(0.5), point_at(0.25)
        page.mouse.move(begin["x"], begin["y"])
        page.mouse.down()
        page.mouse.move(until["x"], until["y"], steps=4)
        page.mouse.up()
        point_at(0.95)
        expect(readout).to_have_text(re.compile(r"Step 1\d\D"))
        curves.dblclick()
        point_at(0.95)
        expect(readout).to_have_text(re.compile(r"Step 3\d\D"))
        page.screenshot(path=pictures / "compare-light.png")
        assert problems_of(page, ".nbdist-compare") == []

        dashboard = open_run(page, f"{pair}-1")
        expect(dashboard.locator(".nbdist-curves > *")).to_have_count(3)
        expect(dashboard.locator(".nbdist-chart-key").first).to_have_text("mean of 2 rankslowest to highest")
        dashboard.get_by_role("tab", name="Metrics").click()
        expect(dashboard.locator(".nbdist-charts canvas").nth(3)).to_be_visible()
        page.screenshot(path=pictures / "metrics-light.png")
        dashboard.get_by_role("tab", name="VisualDL").click()
        frame = dashboard.frame_locator("iframe")
        expect(frame.get_by_text("loss").first).to_be_visible(timeout=40_000)
        page.set_viewport_size({"width": 800, "height": 800})
        assert frame.locator("body").evaluate("() => innerWidth") > 900, "its own head needs as much"
        page.screenshot(path=pictures / "visualdl-narrow.png")
        page.set_viewport_size({"width": 1280, "height": 800})

        page.get_by_role("tab", name="pairs.ipynb").click()
        panel = unfolded(lab.cell(1).locator(".nbdist"))
        panel.get_by_role("tab", name="Metrics").click()
        with page.context.expect_page() as opened:
            panel.get_by_role("button", name="Open VisualDL").click()
        expect(opened.value).to_have_url(re.compile("/scalar"), timeout=40_000)
        opened.value.close()

        # as the next test expects it
        for name in (f"{pair}-1", f"{pair}-2"):
            run_named(sidebar, name).locator(".nbdist-check").click()
        expect(sidebar.locator("[aria-checked=true]")).to_have_count(0)


def test_options_are_completed(lab_server: LabServer, browser: Browser, pictures: Path) -> None:
    # what JupyterLab completes with may still be at it when its editor is disposed
    with notebook_page(lab_server, browser, "options", "%%distributed -n 2", keep=False) as (lab, page):
        editor = lab.cell(1).locator(".cm-content")
        editor.click()
        page.keyboard.press("Control+End")
        page.keyboard.type(" --det")
        page.keyboard.press("Tab")
        completer = page.locator(".jp-Completer:visible")
        expect(editor.or_(completer).filter(has_text="--detach").first).to_be_visible()
        if completer.count():
            page.keyboard.press("Enter")
        expect(editor).to_have_text("%%distributed -n 2 --detach")
        page.keyboard.type(" --")
        page.keyboard.press("Tab")
        expect(completer).to_contain_text("--framework NAME")
        expect(completer).not_to_contain_text("--nproc")
        page.screenshot(path=pictures / "completion-light.png")
        page.keyboard.press("Escape")


def test_the_form_in_the_cell_s_toolbar_writes_into_that_cell_and_runs_it_in_a_kernel_without_nbdist(
    lab_server: LabServer, browser: Browser, pictures: Path
) -> None:
    notebook = lab_server.write_notebook("form.ipynb", "import os\nprint('rank', os.environ['RANK'])")
    lab_server.write_notebook("other.ipynb", "print('another')")
    with new_page(browser) as page:
        lab = LabPage(lab_server, page, notebook)
        page.route("**/nbdist/api/devices*", lambda route: route.fulfill(json=TWO_GPUS))
        lab.cell(0).locator(".cm-content").click()
        # a notebook that comes up beside it, as when a workspace is restored, is the page's current one
        page.evaluate(
            """async () => {
                const { commands, shell } = window.jupyterapp;
                const options = { mode: 'split-bottom' };
                const other = await commands.execute('docmanager:open', { path: 'other.ipynb', options });
                await other.context.ready;
                shell.activateById(other.id);
            }"""
        )
        other = page.locator(".jp-NotebookPanel").nth(1)
        expect(other.locator(".jp-mod-active .cm-content")).to_contain_text("another")
        # as a mouse does it would also make this notebook the current one
        button = lab.cell(0).locator(".jp-cell-toolbar").get_by_title("Run this cell on several")
        button.dispatch_event("click")
        form = page.locator(".nbdist-form")
        line = form.get_by_label("First line of the cell")
        form.get_by_role("button", name="--gpus all").click()
        expect(line).to_have_value("%%distributed --gpus all")
        # GPU 1 is somebody else's
        form.get_by_role("button", name="--gpus 0", exact=True).click()
        expect(line).to_have_value("%%distributed --gpus 0")
        line.fill("%%distributed -n 3 --name formed")
        page.screenshot(path=pictures / "form-light.png")
        assert problems_of(page, ".nbdist-form") == []
        page.get_by_role("dialog").get_by_role("button", name="Write and run").click()

        lab.wait_for_end(0)
        expect(lab.cell(0).locator(".cm-content")).to_contain_text("%%distributed -n 3 --name formed")
        expect(lab.cell(0).locator(".nbdist-summary")).to_contain_text("3 ranks")
        expect(other.locator(".cm-content")).to_have_text("print('another')")
        expect(other.locator(".jp-InputPrompt")).to_have_text("[ ]:")


def test_a_run_is_started_again_with_other_options_below_its_cell(
    lab_server: LabServer, browser: Browser
) -> None:
    # a name that no earlier try of this test has left
    name = f"again{time.time_ns() % 1_000_000}"
    cell = f"%%distributed -n 2 --retries 1 --name {name}\nimport os\nprint('rank', os.environ['RANK'])"
    with notebook_page(lab_server, browser, "again", cell, "print('after')", ran=1) as (lab, page):
        panel = lab.cell(1).locator(".nbdist")
        panel.get_by_label("Run menu").select_option("Run again with…")
        form = page.locator(".nbdist-form")
        expect(form.locator("input")).to_have_value(f"%%distributed -n 2 --retries 1 --name {name}")
        form.locator("input").fill(f"%%distributed -n 3 --retries 1 --name {name}")
        assert problems_of(page, ".nbdist-form") == []
        page.get_by_role("dialog").get_by_role("button", name="Insert and run").click()

        # the cell itself stays as it is
        expect(lab.cell(1).locator(".cm-content")).to_contain_text("%%distributed -n 2 --retries 1")
        expect(lab.cell(2).locator(".cm-content")).to_contain_text(f"-n 3 --retries 1 --name {name}")
        expect(lab.cell(2).locator(".cm-content")).to_contain_text("print('rank', os.environ['RANK'])")
        lab.wait_for_end(2)
        expect(lab.cell(2).locator(".nbdist-pill")).to_have_text("Finished")

        # of the first run, whose cell is another program meanwhile
        page.evaluate(
            """() => {
                const { content } = window.jupyterapp.shell.currentWidget;
                for (const at of [1, 2]) {
                    content.widgets[at].model.sharedModel.setSource('%%distributed -n 1\\nchanged()');
                }
            }"""
        )
        # the newest is to be opened
        expect(show_runs(page).locator(f".nbdist-run[data-run*='-{name}-']")).to_have_count(2)
        dashboard = open_run(page, name)
        dashboard.get_by_role("button", name="Run again with…").click()
        written = re.compile(rf"%%distributed .*3 .*(--name {name}.*--retries 1|--retries 1.*--name {name})")
        expect(form.locator("input")).to_have_value(written)
        page.get_by_role("dialog").get_by_role("button", name="Insert below").click()

        expect(page.locator(".jp-Notebook .jp-Cell .cm-content:has-text(\"print('rank'\")")).to_have_count(1)
        expect(lab.cell(3).locator(".cm-content")).to_contain_text(written)


def test_dark_chinese_and_narrow(lab_server: LabServer, browser: Browser, pictures: Path) -> None:
    cell = TRAINING.replace("NAME", "dark").replace("-n 2", "-n 2 -d")
    folder = lab_server.root / "config/lab/user-settings/@jupyterlab/translation-extension"
    folder.mkdir(parents=True, exist_ok=True)
    language = folder / "plugin.jupyterlab-settings"
    language.write_text(json.dumps({"locale": "zh_CN"}))
    try:
        look = {"theme": "JupyterLab Dark", "width": 700, "height": 800, "keep": False}
        with notebook_page(lab_server, browser, "dark", cell, ran=1, **look) as (_, page):
            dashboard = open_run(page, "dark")
            expect(dashboard.locator(".nbdist-pill")).to_have_text("运行中")
            expect(dashboard.get_by_role("log")).to_contain_text("of rank 1")
            expect(page.get_by_role("searchbox", name="按名称")).to_be_visible()
            page.screenshot(path=pictures / "dashboard-dark-zh.png")
            assert problems_of(page, ".nbdist-dash") == []
            assert problems_of(page, ".nbdist-sidebar") == []
            dashboard.get_by_role("button", name="停止", exact=True).click()
            expect(dashboard.locator(".nbdist-pill")).to_have_text("已停止")
    finally:
        language.unlink()
