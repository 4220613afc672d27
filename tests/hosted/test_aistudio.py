"""A notebook of Baidu AI Studio goes from ``pip install`` to curves, by the cells that docs/hosted.md tells.

``NBDIST_AISTUDIO`` is an environment without nbdist, ``NBDIST_DIST`` a folder with a wheel of nbdist
(``make test-hosts``).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.lab import LabPage, new_page
from tests.hosted.aistudio import AiStudio, may_unshare
from tests.hosted.services import NGINX, until
from tests.hosted.stories import COLOURED, shows_curves

DOCUMENT = Path(__file__).parents[2] / "docs/hosted.md"
ON_THE_GPU = """%%distributed --name gpu
import os, time, nbdist
print("rank", os.environ["RANK"], "of", os.environ["WORLD_SIZE"], "on", os.environ["CUDA_VISIBLE_DEVICES"])
for step in range(100_000):
    nbdist.log(step=step, loss=1 / (step + 1))
    time.sleep(0.05)
"""
TRAIN = """%%distributed -n 2 --name lenet
import nbdist, paddle, paddle.distributed as dist

dist.init_parallel_env()
paddle.seed(dist.get_rank())
model = paddle.DataParallel(paddle.nn.Linear(8, 1))
optimizer = paddle.optimizer.SGD(0.05, parameters=model.parameters())
for step in range(60):
    x = paddle.randn([32, 8])
    loss = ((model(x) - x.sum(axis=1, keepdim=True)) ** 2).mean()
    loss.backward()
    optimizer.step()
    optimizer.clear_grad()
    nbdist.log(step=step, loss=loss)
    print(f"step {step} of rank {dist.get_rank()}: {loss.item():.4f}", flush=True)
"""


def cells_of(title: str) -> list[str]:
    """Return the cells below that title of the document."""
    section = re.search(rf"^##+ {title}\n(.*?)(?=^##)", DOCUMENT.read_text(encoding="utf-8"), re.M | re.S)
    return re.findall(r"^```python\n(.*?)\n```", section[1], re.M | re.S)


def test_both_languages_tell_the_same_cells() -> None:
    in_english, in_chinese = (
        [re.sub(r" *# .*", "", cell) for cell in cells_of(title)]
        for title in ("Baidu AI Studio", "百度 AI Studio")
    )

    assert len(in_english) == 2
    assert in_english == in_chinese


@pytest.fixture(scope="module")
def environment() -> Path:
    if "NBDIST_AISTUDIO" not in os.environ:
        pytest.skip("make test-hosts")
    place = Path(os.environ["NBDIST_AISTUDIO"])
    if not list(place.glob("lib/*/site-packages/paddle")):
        pytest.skip("*** AI Studio NOT TESTED: its environment has no paddle ***")
    return place


@pytest.fixture(scope="module")
def wheel() -> Path:
    (built,) = Path(os.environ["NBDIST_DIST"]).glob("*.whl")
    return built


def test_the_python_is_that_of_ai_studio(environment: Path) -> None:
    ask = [environment / "bin/python", "-c", "import sys; print(*sys.version_info[:2], sep='.')"]
    version = subprocess.run(ask, check=True, capture_output=True, text=True).stdout.strip()
    if version != "3.10":
        pytest.skip(f"*** NOT TESTED: Python 3.10; AI Studio's test runs with {version} ***")


@pytest.mark.browser
@pytest.mark.timeout(1200)
@pytest.mark.skipif(not may_unshare(), reason="*** AI Studio NOT TESTED: no right to a mount namespace ***")
@pytest.mark.skipif(NGINX is None, reason="*** AI Studio NOT TESTED: nginx is not installed ***")
@pytest.mark.skipif(shutil.which("cc") is None, reason="*** AI Studio NOT TESTED: no cc for its GPU ***")
def test_a_notebook_goes_from_pip_install_to_curves(
    environment: Path, wheel: Path, browser: Browser, tmp_path: Path, pictures: Path
) -> None:
    studio = AiStudio(environment, tmp_path)
    install, address = cells_of("Baidu AI Studio")
    assert install.count(" nbdist ") == address.count("https://HOST/PATH/") == 1
    with studio.session() as host, new_page(browser, width=1280, height=900, keep=False) as page:
        cells = (install.replace(" nbdist ", f" {wheel} "), ON_THE_GPU, TRAIN)
        board = (address.replace("https://HOST/PATH/", host.url), "%dist_board")
        notebook = host.write_notebook("main.ipynb", *cells, *board)

        # once
        lab = LabPage(host, page, notebook)
        lab.run_and_wait(0, timeout=600)
        expect(lab.cell(0)).to_contain_text("reload the page")
        expect(lab.cell(0)).to_contain_text("AI Studio")
        lab.cell(0).locator(".n-verdict").scroll_into_view_if_needed()
        page.screenshot(path=pictures / "aistudio-installed.png")

        # the page is loaded again, the kernel and the server stay
        lab = LabPage(host, page, notebook)
        lab.run(1)
        panel = lab.cell(1).locator(".nbdist")
        expect(panel.get_by_role("log")).to_contain_text("rank 0 of 1 on 0", timeout=40_000)
        expect(panel).to_contain_text("GPU 0")
        panel.get_by_role("button", name="Stop", exact=True).click()
        lab.wait_for_end(1, timeout=30)
        # by the kernel's interrupt; a kernel with subshells may hear the panel's own message before it
        stopped = re.compile("stopped from the panel|the kernel was interrupted")
        expect(lab.cell(1).locator(".nbdist-summary")).to_contain_text(stopped)

        lab.run_and_wait(2, timeout=120)
        has_curves(lab, 2)
        page.screenshot(path=pictures / "aistudio-panel.png")

        lab.run_and_wait(3)
        lab.run_and_wait(4)
        frame = lab.cell(4).locator("iframe")
        assert frame.get_attribute("src").startswith(f"{host.url}api_serving/")
        shows_curves(lab.cell(4).frame_locator("iframe"))
        frame.scroll_into_view_if_needed()
        page.screenshot(path=pictures / "aistudio-board.png")

    # the next day: a new container, the same home
    every_kernel = "\n".join(line for line in install.splitlines() if "# once" not in line)
    with studio.session() as host, new_page(browser, width=1280, height=900, keep=False) as page:
        notebook = host.write_notebook("next.ipynb", every_kernel, TRAIN, "%dist_status")
        lab = LabPage(host, page, notebook)
        lab.run_and_wait(0)
        lab.run_and_wait(1, timeout=120)
        has_curves(lab, 1)
        lab.run_and_wait(2)
        expect(lab.cell(2)).to_contain_text("gpu")
        page.screenshot(path=pictures / "aistudio-next-session.png")


def has_curves(lab: LabPage, cell: int) -> None:
    panel = lab.cell(cell).locator(".nbdist")
    # no rank waits for the others at its end, so the last lines of all may be one rank's
    panel.locator(".nbdist-details").click()
    panel.get_by_role("tab", name="Rank 1").click()
    expect(panel.get_by_role("log")).to_contain_text("step 59 of rank 1")
    panel.get_by_role("tab", name="Metrics").click()
    canvas = panel.locator(".nbdist-chart").filter(has_text="loss").locator("canvas")
    expect(canvas).to_be_visible()
    until(lambda: canvas.evaluate(COLOURED), 20)
