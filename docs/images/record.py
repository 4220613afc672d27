# ruff: noqa: E402
"""Record the moving pictures of the READMEs, from a real JupyterLab in a real Chromium.

``.venv/bin/python docs/images/record.py``, after ``make``, writes ``stall.webp`` and ``sweep.webp`` beside
this file; with names behind it, only those. It takes a minute on an idle machine. A picture has the times of
the page, shortened evenly where they are longer than ``LONGEST``. Pillow comes with VisualDL.
"""

from __future__ import annotations

import re
import sys
import tempfile
import time
from collections.abc import Iterator
from io import BytesIO
from itertools import pairwise
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, Page

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parents[1]), str(HERE.parents[1] / "tests/browser")]

from lab import LabPage, LabServer, new_page

from tests.conftest import a_browser

WIDTH = 860
INTERVAL, BEFORE, LAST, LONGEST, LIMIT = 0.2, 0.5, 3.5, 10.0, 60.0
"""Seconds between two screenshots, before the cell runs, that the last frame stays, of a picture at most, and
of a recording at most."""

SET_UP = "%load_ext nbdist\n%dist_warm 2"

STALL = """%%distributed -n 2 --name lenet --hang-after 2s
import time, torch, torch.distributed as dist

dist.init_process_group()
for epoch in range(3):
    for step in range(4):
        time.sleep(0.5)  # a step of the training
        dist.all_reduce(loss := torch.rand(1))
        print(f"epoch {epoch} step {step}: loss {loss.item():.3f}")
    if dist.get_rank() == 0:
        dist.all_reduce(accuracy := torch.rand(1))
    dist.barrier()"""

SWEEP = """%%distributed -n 2 --sweep lr=0.3,0.1,0.03,0.01 --each 1 --name linear
import nbdist, time, torch
torch.manual_seed(0)
inputs = torch.randn(256, 8)
targets = inputs.sum(1) + 0.3 * torch.randn(256)
weights = torch.zeros(8, requires_grad=True)
for step in range(40):
    loss = (inputs @ weights - targets).square().mean()
    (gradient,) = torch.autograd.grad(loss, weights)
    weights.data -= nbdist.params.lr * gradient
    nbdist.log(step=step, loss=loss.item())
    time.sleep(0.04)"""

WEBP = {"save_all": True, "loop": 0, "lossless": True, "quality": 100, "method": 6, "minimize_size": True}
PICTURES = {"stall": (STALL, r"fix: "), "sweep": (SWEEP, r"Finished\s+\S+\s+4 of 4 points")}
"""By name, the cell of a picture, and a pattern that the panel matches when it shows all."""


def frames(page: Page, lab: LabPage, last_text: str) -> Iterator[tuple[float, Image.Image]]:
    """Run the second cell; yield seconds and screenshots from the top of the cell down to its end at last."""
    cell = lab.cell(1)
    taken = [(0.0, page.screenshot())]
    lab.run(1)
    began, over = time.monotonic() - BEFORE, 0.0
    while not over or time.monotonic() - over < 1:  # what comes a moment later is shown, too
        at = time.monotonic() - began
        assert at < LIMIT, cell.inner_text()
        taken.append((at, page.screenshot()))
        if not over and re.search(last_text, cell.inner_text()):
            over = time.monotonic()
        page.wait_for_timeout(max(0.0, (began + at + INTERVAL - time.monotonic()) * 1000))
    box = cell.bounding_box() or {}
    edges = box["x"], box["y"], box["x"] + box["width"], box["y"] + box["height"]
    for at, png in taken:
        yield at, Image.open(BytesIO(png)).convert("RGB").crop([round(edge) for edge in edges])


def record(server: LabServer, browser: Browser, name: str) -> None:
    source, last_text = PICTURES[name]
    notebook = server.write_notebook(f"{name}.ipynb", SET_UP, source)
    with new_page(browser, width=WIDTH, height=1200, keep=False) as page:
        lab = LabPage(server, page, notebook)
        page.evaluate("() => window.jupyterapp.shell.collapseLeft()")
        lab.run_and_wait(0)
        width = (lab.cell(1).bounding_box() or {})["width"]
        page.set_viewport_size({"width": 2 * WIDTH - round(width), "height": 1200})
        page.wait_for_timeout(8_000)  # the warm ranks import torch
        times, images = zip(*frames(page, lab, last_text), strict=True)
        page.evaluate("() => window.jupyterapp.commands.execute('notebook:interrupt-kernel')")
        lab.wait_for_end(1)
    speed = max(1.0, times[-1] / (LONGEST - LAST))
    lasts = [(later - at) / speed for at, later in pairwise(times)] + [LAST]
    durations = [round(last * 1000) for last in lasts]
    target = HERE / f"{name}.webp"
    images[0].save(target, append_images=images[1:], duration=durations, **WEBP)
    print(f"{target.name}: {sum(lasts):.1f} s (× {speed:.1f}), {target.stat().st_size / 1000:.0f} kB")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, a_browser() as browser:
        server = LabServer(Path(folder))
        try:
            server.wait_until_up()
            for name in sys.argv[1:] or PICTURES:
                record(server, browser, name)
        finally:
            server.close()


if __name__ == "__main__":
    main()
