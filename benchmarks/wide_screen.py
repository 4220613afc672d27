"""Screens of runs of many ranks, in a real Chromium: the dashboard in JupyterLab, and VisualDL's page.

The runs are those of scale.py: recorded ones of two ranks, multiplied. No rank is started.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from common import Goal, Samples, spread
from panel import end_kernels, halves
from playwright.sync_api import Browser, CDPSession, Page, sync_playwright
from scale import multiply, record, written_on

from nbdist.board import ensure_board, stop_board
from nbdist.store import RunDirectory
from nbdist.store.logs import RECORD
from tests.browser.lab import CHROMIUM_FLAGS, LabPage, LabServer, chromium, new_page

EQUAL, WIDE, BOARD = "128 ranks x 2,000 equal lines", "1,024 ranks", "VisualDL, 1,024 ranks"
WIDE_CASES = (EQUAL, WIDE, BOARD)
LOG, WORK, HEAP, FIRST = "work of the log", "work of the whole page", "heap", "first screen"
LONG, LONGEST = "tasks over 100 ms", "longest task"
UNITS = {LOG: "s", WORK: "s", HEAP: "MB", FIRST: "s", LONG: "", LONGEST: "ms"}
WIDE_METRICS = {metric: f"{metric} {unit}".strip() for metric, unit in UNITS.items()}
ESBUILD = Path(__file__).parents[1] / "labextension/node_modules/.bin/esbuild"
LIMIT = 120_000
"""Milliseconds for a screen."""

PAGE = (Path(__file__).parent / "panel_page.js").read_text()
DASHBOARD = "document.querySelector('.jp-MainAreaWidget .nbdist, .lm-Widget .nbdist-dashboard, .nbdist')"
LINES = f"{DASHBOARD}?.querySelector('.nbdist-rows')?.textContent.includes('loss')"
AMOUNT = f"({DASHBOARD}?.querySelector('.nbdist-amount')?.textContent ?? '').replaceAll(',', '')"
CHART = "!!document.querySelector('canvas')?.toDataURL()"


def measure_wide(samples: Samples, scratch: Path, rounds: int) -> None:
    """Add the figures of all screens."""
    recorded = record(scratch)
    # the browser has half of the processors, all else the other half, as in panel.py
    of_the_page, others = halves()
    os.sched_setaffinity(0, others)
    # peers of other benchmarks take over how cells are run
    server = LabServer(scratch, without=("jupyter-distributed", "ipyparallel-labextension"))
    try:
        server.wait_until_up()
        # the browser inherits the processors of Playwright's driver
        os.sched_setaffinity(0, of_the_page)
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium(), args=CHROMIUM_FLAGS)
            os.sched_setaffinity(0, others)
            for taken in range(rounds):
                for case, metric, value in look(browser, server, recorded):
                    samples.add(case, metric, taken, value)
            browser.close()
    finally:
        server.close()


def look(browser: Browser, server: LabServer, recorded: RunDirectory) -> Iterator[tuple[str, str, float]]:
    """Yield the figures of one round."""
    with new_page(browser, width=1280, height=900, keep=False) as page:
        for metric, value in log_of_equal_lines(page, Path(server.home)):
            yield EQUAL, metric, value
    with new_page(browser, width=1280, height=900, keep=False) as page:
        for metric, value in equal_lines(page, server, multiply(recorded, server.home, 128)):
            yield EQUAL, metric, value
    end_kernels(server)
    wide = multiply(recorded, server.home, 1024)
    with new_page(browser, width=1280, height=900, keep=False) as page, written_on(wide, 300.0):
        for metric, value in dashboard(page, server, wide):
            yield WIDE, metric, value
    yield BOARD, FIRST, board(browser, server.home, wide)


def log_of_equal_lines(page: Page, scratch: Path) -> Iterator[tuple[str, float]]:
    """Yield the seconds that the page's log alone works to fold and pack all lines."""
    bundle, source = scratch / "log_page.js", Path(__file__).with_name("log_page.js")
    command = [ESBUILD, "--bundle", "--minify", f"--outfile={bundle}", source]
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
    page.goto("about:blank")
    page.add_script_tag(path=bundle)
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    before = work(session)
    assert page.evaluate("window.equalLines(128, 2000)") == 128 * 2_000
    yield LOG, work(session) - before


def equal_lines(page: Page, server: LabServer, run: RunDirectory) -> Iterator[tuple[str, float]]:
    """Yield the seconds that the page of a cell's panel works for all lines, and the megabytes they take."""
    logs = [run.rank(rank) for rank in range(128)]
    for files in logs:
        files.log.write_bytes(b"")
    cell = f"%load_ext nbdist\n%dist_attach {run.run_id}"
    lab = LabPage(server, page, server.write_notebook("equal.ipynb", cell))
    session = page.context.new_cdp_session(page)
    lab.run(0)
    page.locator(".nbdist-rows").first.wait_for(timeout=LIMIT)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    before, worked, size = heap(session), work(session), 0
    page.evaluate(f"({PAGE})(null)")
    for first in range(0, 2_000, 20):
        lines = "".join(
            f"step {n:4d} of every rank: loss 0.5 accuracy 0.9\n" for n in range(first, first + 20)
        )
        size += len(lines)
        for files in logs:
            append(files.log, lines.encode())
            append(files.log_times, RECORD.pack(time.time(), size))
        page.wait_for_timeout(50)
    page.wait_for_function(f"{AMOUNT}.startsWith('{128 * 2_000} lines')", timeout=LIMIT, polling=200)
    yield WORK, work(session) - worked
    yield HEAP, heap(session) - before
    yield from tasks(page)


def append(path: Path, data: bytes) -> None:
    with open(path, "ab", buffering=0) as file:
        file.write(data)


def dashboard(page: Page, server: LabServer, run: RunDirectory) -> Iterator[tuple[str, float]]:
    """Yield the seconds until ranks and lines are seen, and the tasks while a reader uses the page."""
    open_lab(page, server)
    begun = open_run(page, run)
    page.wait_for_function(LINES, timeout=LIMIT, polling=20)
    yield FIRST, time.monotonic() - begun
    root = page.locator(".nbdist").first
    page.wait_for_timeout(3_000)
    rows = root.locator(".nbdist-rows").first
    rows.hover()
    for _ in range(10):
        page.mouse.wheel(0, -900)
        page.wait_for_timeout(100)
    # not by their roles: that reads 1,024 squares' names, in tasks of the page
    for tab in ("metrics", "all"):
        root.locator(f"[role=tab][id$=-tab-{tab}]").first.click()
        page.wait_for_timeout(2_000)
    root.locator("input[type=search]").first.fill("loss 0.1")
    page.wait_for_timeout(3_000)
    yield from tasks(page)


def board(browser: Browser, home: Path, run: RunDirectory) -> float:
    """Return the seconds until VisualDL's page shows a curve of a run that its server has not read."""
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    url = ensure_board(home).url([run.run_id])
    begun = time.monotonic()
    try:
        page.goto(url, timeout=LIMIT)
        page.wait_for_function(CHART, timeout=LIMIT, polling=20)
        return time.monotonic() - begun
    finally:
        page.close()
        stop_board(home)


def open_lab(page: Page, server: LabServer) -> CDPSession:
    """Load a JupyterLab and wait until it is at rest."""
    page.goto(f"{server.url}lab?{server.entry}")
    page.wait_for_function("window.jupyterapp?.commands.hasCommand('nbdist:open')", timeout=LIMIT)
    page.wait_for_timeout(3_000)
    return page.context.new_cdp_session(page)


def open_run(page: Page, run: RunDirectory) -> float:
    """Open the dashboard of a run as the sidebar does; return the moment."""
    page.evaluate(f"({PAGE})(null)")
    begun = time.monotonic()
    page.evaluate(f"window.jupyterapp.commands.execute('nbdist:open', {{runId: '{run.run_id}'}})")
    return begun


def tasks(page: Page) -> Iterator[tuple[str, float]]:
    seen: dict[str, Any] = page.evaluate("window.benchmark")
    yield LONG, float(seen["long"])
    yield LONGEST, float(seen["longest"])


def work(session: CDPSession) -> float:
    """Return the processor seconds that the tasks of the page have taken."""
    metrics = session.send("Performance.getMetrics")["metrics"]
    return next(float(each["value"]) for each in metrics if each["name"] == "TaskDuration")


def heap(session: CDPSession) -> float:
    """Return the megabytes of JavaScript objects and array buffers of the page that are still needed."""
    session.send("HeapProfiler.collectGarbage")
    usage = session.send("Runtime.getHeapUsage")
    return float(usage["usedSize"] + usage.get("backingStorageSize", 0)) / 1e6


def judge_wide(samples: Samples) -> list[Goal]:
    """Judge each figure that has a limit, by its median."""
    limits = (
        (EQUAL, LOG, 1.5),
        (EQUAL, HEAP, 60.0),
        (WIDE, FIRST, 3.0),
        (WIDE, LONG, 0.0),
        (BOARD, FIRST, 3.0),
    )
    goals = []
    for case, metric, limit in limits:
        median = samples.median(case, metric)
        goals.append(
            Goal(
                goal=f"{case}: {metric} at most {limit:g} {UNITS[metric]}".strip(),
                holds=None if median is None else median <= limit,
                seen=f"{spread(samples.values(case, metric))} {UNITS[metric]}".strip(),
            )
        )
    return goals
