"""A notebook that a program executes (papermill), and one that is read where nothing runs (nbconvert)."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import nbformat
import pytest
from nbconvert import HTMLExporter
from playwright.sync_api import Browser, expect

from nbdist import panel, processes
from nbdist.runner import RunHandle
from nbdist.store import RunStore
from tests.browser.lab import write_notebook
from tests.hosted.services import until

LOAD = "%load_ext nbdist"
TRAIN = """%%distributed -n 2 --name train --push lr
import os, nbdist
print(f"rank {os.environ['RANK']} has lr {lr}")
nbdist.log(loss=lr)
"""
FAIL = """%%distributed -n 2 --name broken
import os
if os.environ["RANK"] == "1":
    raise ValueError("no such layer: conv9")
"""
WAIT = """%%distributed -n 2 --name wait
import time
print("has begun", flush=True)
time.sleep(600)
"""


def papermill(folder: Path, home: Path, *cells: str) -> subprocess.Popen[str]:
    """Start papermill on a notebook with these cells; it writes ``out.ipynb``."""
    pytest.importorskip("papermill")
    notebook = write_notebook(folder / "in.ipynb", "lr = 0.1", LOAD, *cells)
    document = nbformat.read(notebook, 4)
    document.cells[0].metadata["tags"] = ["parameters"]
    nbformat.write(document, notebook)
    variables = os.environ | {"NBDIST_HOME": str(home), "IPYTHONDIR": str(folder / "ipython")}
    command = [sys.executable, "-m", "papermill", notebook, folder / "out.ipynb", "-p", "lr", "0.5"]
    return subprocess.Popen(
        command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=variables, cwd=folder
    )


def outputs(folder: Path) -> list[str]:
    """Return the text of each cell's outputs, with papermill's additions."""
    cells = nbformat.read(folder / "out.ipynb", 4).cells
    return ["".join(out.get("text", "") for out in cell.get("outputs", ())) for cell in cells]


def test_papermill_gets_text_and_summary_and_stops_at_the_failure_of_a_rank(
    tmp_path: Path, home: Path
) -> None:
    running = papermill(tmp_path, home, TRAIN, FAIL, "print('after')")
    printed, _ = running.communicate(timeout=120)

    assert running.returncode == 1, printed
    assert "RunFailed: broken-" in printed
    assert 'raise ValueError("no such layer: conv9")' in printed
    text = "\n".join(outputs(tmp_path))
    assert re.search(r"^\[0\] rank 0 has lr 0.5$", text, re.M)
    assert re.search(r"^\[nbdist\] train-\w+ · Finished · 2 ranks", text, re.M)
    assert re.search(r"^\[nbdist\] broken-\w+ · Failed · 2 ranks · .* · rank 1 failed$", text, re.M)
    assert "after" not in text
    assert "widgets" not in nbformat.read(tmp_path / "out.ipynb", 4).metadata


@pytest.mark.parametrize(
    ("number", "status"),
    [pytest.param(signal.SIGINT, 1, id="Ctrl-C"), pytest.param(signal.SIGTERM, -15, id="ended")],
)
def test_an_interrupted_papermill_leaves_no_rank_behind(
    tmp_path: Path, home: Path, number: signal.Signals, status: int
) -> None:
    running = papermill(tmp_path, home, WAIT)

    def begun() -> bool:
        return any(b"begun" in log.read_bytes() for log in home.glob("runs/*/ranks/1/log"))

    try:
        until(begun)
        running.send_signal(number)
        printed, _ = running.communicate(timeout=60)
    finally:
        running.kill()
    (run,) = RunStore(home).directories()

    assert running.returncode == status, printed
    until(lambda: not processes.marked("NBDIST_RUN_DIR", str(run.path)))
    until(lambda: RunHandle(run).run.state.terminal)
    assert RunHandle(run).status == "stopped"


@pytest.mark.browser
def test_what_nbconvert_makes_of_a_notebook_is_readable_where_nothing_runs(
    run_cell: Callable[..., RunHandle], browser: Browser, tmp_path: Path, pictures: Path
) -> None:
    handle = run_cell("-n 2 --name broken", FAIL.partition("\n")[2])
    shown: Mapping[str, str] = panel.ending(handle.run, handle.directory, "en")[0]
    notebook = nbformat.v4.new_notebook()
    # as a page keeps it where the panel was drawn in its place
    data = {**shown, "text/html": f'<div data-nbdist-panel="p1">{shown["text/html"]}</div>'}
    output = nbformat.v4.new_output("display_data", data=data)
    notebook.cells = [nbformat.v4.new_code_cell(FAIL, outputs=[output])]
    empty, _ = HTMLExporter().from_notebook_node(nbformat.v4.new_notebook())
    written, _ = HTMLExporter().from_notebook_node(notebook)

    assert written.count("<script") == empty.count("<script")
    # nothing but the file: no server, no kernel, and no network
    page = browser.new_context(offline=True, viewport={"width": 800, "height": 700}).new_page()
    page.set_content(written, wait_until="domcontentloaded")
    summary = page.locator(".nbdist-summary")
    expect(summary).to_contain_text("rank 1 failed first: ValueError at line 3")
    expect(summary).to_be_visible()
    page.screenshot(path=pictures / "nbconvert.png", full_page=True)
    # as nbconvert --to webpdf prints it
    page.emulate_media(media="print")
    expect(summary).to_be_visible()
    assert page.pdf().startswith(b"%PDF")
    page.context.close()
