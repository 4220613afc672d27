"""A Jupyter server that knows nothing of nbdist, in an environment of its own, which the user can neither
change nor start again; the kernel is of another environment, which has nbdist."""

from __future__ import annotations

import json
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest
from dashboard import show_runs
from lab import LabPage, LabServer, close_kept_pages, notebook_page
from playwright.sync_api import Browser, Page, expect

import nbdist
from nbdist.labextension_install import WIDGETS, install, install_widgets

pytestmark = pytest.mark.browser

KERNEL = "training"
BARE = "bare"
"""A kernel of the server's own environment, where nbdist lies in a folder that pip was told to install to."""

LOAD = f"""import sys
sys.path.append({str(Path(nbdist.__file__).parents[1])!r})
%load_ext nbdist"""
CELL = """%%distributed -n 2 --name alone
import os, time, nbdist
for step in range(6000):
    print(f"step {step} of rank {os.environ['RANK']}", flush=True)
    nbdist.log(step=step, loss=1 / (step + 1))
    time.sleep(0.05)
"""
SEES_PLUGIN = "() => window.jupyterapp.commands.hasCommand('nbdist:show-runs')"


def an_environment(folder: Path) -> str:
    """Return the Python of an environment with the packages of this one, but without nbdist and the
    extensions that draw widgets."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    packages = folder / "lib" / version / "site-packages"
    (packages / "shared.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    for part in ("share/jupyter", "share/jupyter/labextensions", "etc/jupyter/jupyter_server_config.d"):
        (folder / part).mkdir(parents=True, exist_ok=True)
        for path in (Path(sys.prefix) / part).iterdir():
            if path.name not in ("labextensions", "nbdist", "nbdist.json", "@jupyter-widgets", "anywidget"):
                (folder / part / path.name).symlink_to(path)
    return str(folder / "bin/python")


@pytest.fixture(scope="module")
def strange_server(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabServer]:
    root = tmp_path_factory.mktemp("strange")
    python = an_environment(root / "environment")
    for name, executable in ((KERNEL, sys.executable), (BARE, python)):
        kernel = root / "data/kernels" / name / "kernel.json"
        kernel.parent.mkdir(parents=True)
        argv = [executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        kernel.write_text(json.dumps({"argv": argv, "display_name": name, "language": "python"}))
    server = LabServer(root, python=python)
    try:
        server.wait_until_up()
        yield server
    finally:
        close_kept_pages()
        server.close()


def says_what_is_missing(page: Page) -> None:
    sidebar = show_runs(page)
    expect(sidebar).to_contain_text("nbdist is missing on the server")
    expect(sidebar).to_contain_text("In the server’s environment")
    expect(sidebar.get_by_role("searchbox")).to_have_count(0)
    expect(page.locator(".nbdist-statusbar")).to_have_count(0)


def test_the_doctor_brings_the_page_s_side_without_a_restart_of_the_server(
    strange_server: LabServer, browser: Browser, pictures: Path
) -> None:
    with notebook_page(
        strange_server, browser, "doctor", "%dist_doctor --fix", kernel=KERNEL, width=1280, height=800
    ) as (lab, page):
        assert not page.evaluate(SEES_PLUGIN)
        lab.run_and_wait(1, timeout=120)
        expect(lab.cell(1)).to_contain_text("reload the page")
        # the report is of what is there now
        expect(lab.cell(1).locator(".n-verdict")).to_have_count(1)
        expect(lab.cell(1).locator(".n-fix", has_text="doctor --fix")).to_have_count(0)
        page.screenshot(path=pictures / "doctor-fix.png")
        page.set_viewport_size({"width": 600, "height": 800})
        level = lab.cell(1).locator("td:last-child").first
        expect(level).to_have_css("display", "block")
        page.set_viewport_size({"width": 1280, "height": 800})

        lab = LabPage(strange_server, page, lab.path)
        says_what_is_missing(page)
        page.screenshot(path=pictures / "strange-server.png")
    assert {path.name for path in (strange_server.root / "data/labextensions").iterdir()} == {
        "nbdist",
        *(name.partition("/")[0] for name in WIDGETS),
    }


def test_without_the_server_s_side_cells_panels_stop_and_curves_work(
    strange_server: LabServer, browser: Browser, pictures: Path
) -> None:
    install(strange_server.root / "data")
    install_widgets(strange_server.root / "data")
    cells = (CELL, "%dist_board")
    with notebook_page(strange_server, browser, "alone", *cells, first=LOAD, kernel=BARE) as (lab, page):
        panel = lab.start(1)
        expect(panel.get_by_role("log")).to_contain_text("of rank 1")
        panel.get_by_role("tab", name="Metrics").click()
        charts = panel.locator(".nbdist-chart")
        expect(charts.filter(has_text="loss").locator("canvas")).to_be_visible()
        expect(charts.filter(has_text="CPU").first.locator("canvas")).to_be_visible()
        page.screenshot(path=pictures / "strange-server-panel.png")

        # by the kernel's interrupt, which every Jupyter server has
        panel.get_by_role("button", name="Stop", exact=True).click()
        lab.wait_for_end(1, timeout=30)
        expect(lab.cell(1).locator(".nbdist-summary")).to_contain_text("the kernel was interrupted")

        # by way of jupyter-server-proxy
        lab.run_and_wait(2)
        frame = lab.cell(2).frame_locator("iframe")
        expect(frame.get_by_text("loss").first).to_be_visible(timeout=40_000)
        expect(frame.locator("canvas").first).to_be_visible(timeout=30_000)
        expect(lab.cell(2)).to_contain_text("proxy/absolute/")
