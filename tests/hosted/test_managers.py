"""The panel where another front end's own widget manager draws it, in front of a real kernel."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import nbclassic
import pytest
from playwright.sync_api import Browser

from tests.hosted.managers import HERE, ManagerPage, page_of
from tests.hosted.services import TRAINING
from tests.magics.conftest import Kernel

pytestmark = pytest.mark.browser

VSCODE = {
    "ipywidgets.js": HERE / "node_modules/@vscode/jupyter-ipywidgets8/dist/ipywidgets.js",
    "require.js": Path(nbclassic.__file__).parent / "static/components/requirejs/require.js",
}
COLAB = {"manager.js": Path(os.environ.get("NBDIST_COLAB_MANAGER", "no such file"))}
"""Its manager is in no package; built from its sources, it is named by the variable."""
# what a kernel of Colab has, as far as it is looked at
GOOGLE = """
import sys, types
google, colab, output = map(types.ModuleType, ("google", "google.colab", "google.colab.output"))
output.enable_custom_widget_manager = lambda: None
output._widgets = types.SimpleNamespace(_installed_url=None)
sys.modules |= {"google": google, "google.colab": colab, "google.colab.output": output}
"""
CELL = f"%%distributed -n 2 --no-check --name NAME\n{TRAINING}"


@pytest.fixture
def kernel(tmp_path: Path) -> Iterator[Kernel]:
    kernel = Kernel(tmp_path / "home")
    yield kernel
    kernel.close()


@pytest.mark.parametrize(
    ("manager", "files", "first", "metadata"),
    [
        pytest.param("vscode", VSCODE, "", {"cellId": "vscode-notebook-cell:/a.ipynb#W1"}, id="VS Code"),
        pytest.param("colab", COLAB, GOOGLE, {}, id="Colab"),
    ],
)
def test_the_panel_lives_and_says_how_to_stop(
    browser: Browser,
    kernel: Kernel,
    pictures: Path,
    manager: str,
    files: Mapping[str, Path],
    first: str,
    metadata: dict[str, Any],
) -> None:
    if missing := [name for name, path in files.items() if not path.is_file()]:
        pytest.skip(f"there is no {missing[0]}")
    kernel.run(first)
    with page_of(browser, kernel, manager, files) as host:
        page = host.page
        panel = page.locator(".nbdist")
        shows_lines_and_curves(host, kernel, CELL.replace("NAME", "first"), metadata)
        page.screenshot(path=pictures / f"{manager}.png")
        page.set_viewport_size({"width": 420, "height": 700})
        page.screenshot(path=pictures / f"{manager}-narrow.png")

        # the kernel is busy, and the page can interrupt none: it says what the front end has for that
        panel.get_by_role("button", name="Stop", exact=True).click()
        host.until(lambda: "Press the interrupt button" in panel.inner_text())
        kernel.interrupt()
        summary = page.locator(".nbdist-summary")
        host.until(lambda: panel.count() == 0 and summary.count() == 1)
        assert "Stopped" in summary.inner_text()
        kernel.client.get_shell_msg(timeout=60)  # until then a kernel drops cells after one that failed
        # of a run that does not keep the kernel busy the panel's own message arrives
        shows_lines_and_curves(host, kernel, CELL.replace("NAME", "second -d"), metadata)
        panel.get_by_role("button", name="Stop", exact=True).click()
        host.until(lambda: panel.count() == 0 and summary.count() == 2)
        assert "stopped from the panel" in summary.nth(1).inner_text()


def shows_lines_and_curves(host: ManagerPage, kernel: Kernel, cell: str, metadata: dict[str, Any]) -> None:
    kernel.submit(cell, metadata)
    panel = host.page.locator(".nbdist")
    host.until(lambda: panel.count() == 1 and "of rank 1" in panel.inner_text())
    panel.get_by_role("tab", name="Metrics").click()
    host.until(lambda: panel.locator(".nbdist-chart canvas").count() > 0)
    panel.get_by_role("tab", name="All").click()
    host.until(lambda: "of rank 0" in panel.get_by_role("log").inner_text())
