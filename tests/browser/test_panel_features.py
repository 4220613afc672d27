"""The panel with real runs: folding, colours, bars, links, charts, many ranks, keys, themes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from dashboard import open_run
from lab import LabServer, notebook_page, unfolded
from playwright.sync_api import Browser, Locator, Page, expect

pytestmark = pytest.mark.browser

AXE = Path(__file__).parents[2] / "labextension/node_modules/axe-core/axe.min.js"

TRAINING = """%%distributed -n 2 --name lenet
import os, time, nbdist
rank = int(os.environ["RANK"])
print("model: 61,610 parameters", flush=True)
for step in range(5000):
    print(f"\\x1b[32mstep {step}\\x1b[0m of rank {rank} loss {1 / (step + 1 + rank):.4f}", flush=True)
    nbdist.log(step=step, total=5000, loss=1 / (step + 1 + rank), acc=1 - 1 / (step + 2))
    time.sleep(0.05)
"""


@contextmanager
def running(server: LabServer, browser: Browser, name: str, cell: str) -> Iterator[Page]:
    """Yield a page in which the cell runs; stop it at the end."""
    with notebook_page(server, browser, name, cell) as (lab, page):
        lab.run(1)
        panel = page.locator(".nbdist")
        expect(panel.locator(".nbdist-pill")).to_have_text("Running", timeout=30_000)
        try:
            yield page
        finally:
            panel.get_by_role("button", name="Stop", exact=True).click()
            lab.wait_for_end(1, timeout=60)


def panel_of(page: Page) -> Locator:
    return page.locator(".nbdist")


def test_colours_bars_and_progress(lab_server: LabServer, browser: Browser, pictures: Path) -> None:
    cell = """%%distributed -n 1 --name bars
import sys, time
print("\\x1b[31mred words\\x1b[0m and plain ones", flush=True)
for done in range(600):
    bar = "█" * (done // 60) + " " * (10 - done // 60)
    spent = f"00:{done // 10:02d}<00:30, 10.00it/s"
    sys.stderr.write(f"\\repoch 1/1: {done // 6:3d}%|{bar}| {done}/600 [{spent}]")
    sys.stderr.flush()
    time.sleep(0.1)
"""
    with running(lab_server, browser, "bars", cell) as page:
        panel = panel_of(page)
        red, plain = (
            panel.get_by_role("log").get_by_text(text).first.evaluate("node => getComputedStyle(node).color")
            for text in ("red words", "and plain ones")
        )
        assert red != plain
        bar = panel.locator(".nbdist-live")
        expect(bar).to_contain_text("it/s")
        assert bar.inner_text().count("epoch 1/1") == 1, "one moving line"
        progress = panel.get_by_role("progressbar").first
        expect(progress).to_be_visible()
        first = float(progress.get_attribute("aria-valuenow") or "nan")
        page.wait_for_function(
            "before => Number(document.querySelector('.nbdist [role=progressbar]').ariaValueNow) > before",
            arg=first,
            timeout=20_000,
        )
        page.screenshot(path=pictures / "bars-light.png")


def test_sixty_four_ranks_are_a_grid(lab_server: LabServer, browser: Browser, pictures: Path) -> None:
    cell = """%%distributed -n 64 --name many
import time
# by the clock, so that ranks that started later write the same line at the same time
while True:
    time.sleep(1 - time.time() % 1)
    print("second", round(time.time()), flush=True)
"""
    with running(lab_server, browser, "grid", cell) as page:
        panel = panel_of(page)
        expect(panel.locator(".nbdist-heat-cell")).to_have_count(64, timeout=30_000)
        expect(panel.get_by_role("log")).to_contain_text("×64", timeout=90_000)
        panel.locator(".nbdist-heat-cell").nth(37).click()
        expect(panel.get_by_role("button", name="Log of rank 37")).to_be_visible()
        page.screenshot(path=pictures / "ranks-64-light.png")

        panel.get_by_role("button", name="Log of rank 37").click()
        expect(panel.get_by_role("tab", name="Rank 37")).to_have_attribute("aria-selected", "true")
        expect(panel.get_by_role("log")).to_contain_text("second")


def test_the_keyboard_is_enough(lab_server: LabServer, browser: Browser) -> None:
    with running(lab_server, browser, "keys", TRAINING) as page:
        panel = panel_of(page)
        log = panel.get_by_role("log")
        expect(log).to_contain_text("of rank 1")
        log.focus()

        # in the notebook these are commands
        for key in ("1", "m", "a", "b"):
            page.keyboard.press(key)
        panel.get_by_role("tab", name="All").focus()
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowRight")
        expect(panel.get_by_role("tab", name="Rank 1")).to_have_attribute("aria-selected", "true")
        page.keyboard.press("End")
        expect(panel.get_by_role("tab", name="Cell")).to_have_attribute("aria-selected", "true")
        page.keyboard.press("Home")
        panel.get_by_role("searchbox").focus()
        page.keyboard.type("step 1 ")
        expect(panel.locator(".nbdist-count[role=status]").first).to_contain_text("/2")
        page.keyboard.press("Escape")
        expect(log).to_be_focused()
        panel.get_by_role("button", name="Follow").focus()
        page.keyboard.press("Space")
        expect(panel.get_by_role("button", name="Follow")).to_have_attribute("aria-pressed", "true")
        assert page.locator(".jp-Notebook .jp-Cell").count() == 2, "the notebook took a key for its own"


LOOKS = [
    ("JupyterLab Light", 1280),
    ("JupyterLab Dark", 1280),
    ("JupyterLab Light", 620),
    ("JupyterLab Dark High Contrast", 1280),
]


def test_everybody_can_read_and_use_it(lab_server: LabServer, browser: Browser, pictures: Path) -> None:
    assert AXE.exists(), "labextension/node_modules is not installed: make check does it"
    with notebook_page(lab_server, browser, "axe", TRAINING) as (lab, page):
        lab.run(1)
        panel = panel_of(page)
        expect(panel.get_by_role("log")).to_contain_text("of rank 1", timeout=30_000)
        page.add_script_tag(path=AXE)
        by_look = {}
        for theme, width in LOOKS:
            name = f"{theme.split(' ', 1)[1].lower().replace(' ', '-')}-{width}"
            lab.change_theme(theme)
            ground = "dark" if "Dark" in theme else "light"
            expect(page.locator(f".nbdist[data-size][data-theme={ground}]")).to_be_visible()
            page.set_viewport_size({"width": width, "height": 900})
            for tab in ("All", "Metrics", "Cell"):
                panel.get_by_role("tab", name=tab).click()
                if tab == "Metrics":
                    expect(panel.locator("canvas").first).to_be_visible()
                page.screenshot(path=pictures / f"panel-{name}-{tab.lower()}.png")
                by_look[theme, width, tab] = violations(page)
        panel.get_by_role("button", name="Stop", exact=True).click()
        lab.wait_for_end(1, timeout=60)
    assert {look: lines for look, lines in by_look.items() if lines} == {}


def violations(page: Page) -> list[str]:
    """Return axe's complaints about the panel, a line each."""
    reported = page.evaluate(
        "async () => (await axe.run('.nbdist', { resultTypes: ['violations'] })).violations"
    )
    return [
        f"{violation['id']}: {node['html'][:120]} {node['failureSummary']}"
        for violation in reported
        for node in violation["nodes"]
    ]


GIVEN = """%%distributed -n 2 --push df,Config,scale --name given
import os, time, nbdist
rank = int(os.environ["RANK"])
nbdist.result(acc=0.93, table=df)
if rank == 1:
    nbdist.result(part=[rank] * 100, lock=__import__("threading").Lock())
print("given", scale(rank), flush=True)
while not os.path.exists("seen"): time.sleep(0.05)
"""
NOTEBOOK = """%load_ext nbdist
import numpy as np
df, Config = np.ones((1000, 20)), type("Config", (), {})
def scale(x): return 2 * x"""


def test_what_went_in_and_what_came_out_are_rows_while_the_run_goes_on(
    lab_server: LabServer, browser: Browser, pictures: Path
) -> None:
    went_in = "From the notebookdf ndarray, 160 kBConfig classscale function"
    came_out = (
        "Resultsacc 0.93 · Rank 0table ndarray float64, 1000 × 20, 160 kB · Rank 0part list, 300 B · Rank 1"
    )
    seen = lab_server.notebooks / "seen"
    with notebook_page(lab_server, browser, "given", GIVEN, first=NOTEBOOK) as (lab, page):
        lab.run(1)
        rows = panel_of(page).locator(".nbdist-given > div")

        expect(rows).to_have_text([went_in, f"{came_out}lock not stored · Rank 1"])
        expect(panel_of(page).locator(".nbdist-pill")).to_have_text("Running")
        seen.touch()
        lab.wait_for_end(1)
        expect(rows).to_have_count(2)
        unfolded(panel_of(page))
        # one line: in the place of a summary JupyterLab's own style would make each value one
        assert rows.first.evaluate("node => node.offsetHeight") == 20
        page.screenshot(path=pictures / "given-light.png")
        page.add_script_tag(path=AXE)
        reported = page.evaluate("() => axe.run('.nbdist-given').then(result => result.violations)")
        assert reported == []
        lab.change_theme("JupyterLab Dark")
        page.evaluate("document.documentElement.lang = 'zh-CN'")
        page.set_viewport_size({"width": 620, "height": 900})
        panel_of(page).get_by_role("tab").nth(1).click()
        expect(rows.nth(1)).to_contain_text("结果acc 0.93")
        page.locator(".nbdist-head").scroll_into_view_if_needed()
        page.screenshot(path=pictures / "given-dark-zh-narrow.png")
        page.set_viewport_size({"width": 1200, "height": 900})
        page.evaluate("document.documentElement.lang = 'en'")
        expect(open_run(page, "given").locator(".nbdist-given > div")).to_have_count(2)
        lab.save()
    assert "<b>acc</b> 0.93" in lab.path.read_text()


def test_a_name_of_the_notebook_is_pushed_by_one_click_in_a_kernel_without_nbdist(
    lab_server: LabServer, browser: Browser, pictures: Path
) -> None:
    cells = ("%%distributed -n 2\nprint(f'lr {lr}')", "%%ranks -n 2\nprint('in ranks')", "%dist_session end")
    with notebook_page(lab_server, browser, "mended", *cells, first="lr = 0.05") as (lab, page):
        lab.run_and_wait(1)
        expect(lab.cell(1)).to_contain_text("write  %%distributed -n 2 --push lr")
        page.screenshot(path=pictures / "mended.png")
        lab.cell(1).get_by_role("button", name="Add --push lr and run").click()
        expect(lab.cell(1).locator(".nbdist")).to_contain_text("lr 0.05", timeout=30_000)
        expect(lab.cell(1).locator(".jp-InputArea-editor")).to_contain_text("%%distributed -n 2 --push lr")
        lab.run_and_wait(2)
        expect(lab.cell(2)).to_contain_text("in ranks")
        lab.run_and_wait(3)
