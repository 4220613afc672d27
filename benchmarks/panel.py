"""Lines of ranks on a page: nbdist's panel, and its alternatives.

    python benchmarks/panel.py [--rounds N] [--quick] [--only case,case] [--load bulk|stream|figures]

This module alone decides what is measured in the page, and whether the goals hold. A real JupyterLab, a real
Chromium, a fresh kernel each time; page, kernel and ranks read the same clock.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import signal
import statistics
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from http.client import HTTPResponse
from pathlib import Path
from typing import Any

import psutil
from common import (
    Goal,
    Machine,
    NotMeasured,
    Row,
    Samples,
    spread,
    table,
    without_paths,
    write_results,
)
from launch_cases import is_connected_worker
from panel_cases import BULK, BULK_RANKS, CASES, FIGURES, STREAM, STREAM_RANKS, Load, PanelCase

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests/browser"))

from lab import CHROMIUM_FLAGS, TOKEN, LabPage, LabServer, chromium, new_page
from playwright.sync_api import Browser, CDPSession, Page, sync_playwright
from playwright.sync_api import Error as PlaywrightError

LEAST_ROUNDS = 3
GIVEN_UP_AFTER = 60.0
"""Seconds for lines to reach the page after the last was written."""

PACKAGES = ("nbdist", "anywidget", "ipywidgets", "ipykernel", "jupyterlab", "jupyter_server", "nbdistributed")
PAGE = (Path(__file__).parent / "panel_page.js").read_text()
DISTINCT = r"""selector => new Set(
    [...document.querySelectorAll(selector)]
        .flatMap(area => area.textContent.match(/rank \d+ line \d+:/g) ?? [])
).size"""
DROPPED = re.compile(r"IOPub (message|data) rate exceeded")

REACHABLE, LAST, ALL, LONGEST, BUSIEST, LONG, HEAP, NOTEBOOK, DROPS, CPU = (
    "reachable",
    "last_line",
    "all_lines",
    "longest_task",
    "busiest_task",
    "tasks_over_100_ms",
    "heap_growth",
    "notebook",
    "rate_limit_hits",
    "kernel_cpu_per_million_lines",
)
P50, P99 = "latency_p50", "latency_p99"
UNITS = {
    REACHABLE: "%",
    LAST: "s",
    ALL: "s",
    LONGEST: "ms",
    BUSIEST: "ms",
    LONG: "",
    HEAP: "MB",
    NOTEBOOK: "KB",
    DROPS: "",
    CPU: "s",
    P50: "ms",
    P99: "ms",
}

NOTES = (
    "The browser has half of the processors, the server, the kernels and the ranks of every case the other "
    "half: a user's page shares none with them. Else a task of 20 ms takes 200 ms where 8 ranks print.",
    "bulk: 8 ranks print 100,000 lines each as fast as they can. stream: 2 ranks print 500 lines a second "
    "each for 20 s. figures: one rank shows 1,000 figures of matplotlib one after the other; "
    "the page is watched from the first on.",
    "reachable: lines that the page can show, of those printed: nbdist's by its Download button, the others' "
    f"by the text of the output, {GIVEN_UP_AFTER:.0f} s after the last was printed.",
    "last_line: from the moment the last rank had printed its last line until that line was on the screen.",
    "all_lines: from the same moment until nbdist's panel holds every line. Its tasks, heap and "
    "kernel CPU are those until then.",
    "longest_task: by the clock, as a PerformanceObserver of the page says it. busiest_task: of the "
    "figures, the most that a task of the page computed, by Chromium's trace. The rest is a wait for "
    "a processor: the page, its painters, the browser and the tracer share one, and the virtual machine "
    "gives some of that to others.",
    "latency: from the first rank's print of a line number to the screen, where it or a later one is.",
    "heap_growth: JavaScript heap and array buffers after a garbage collection, less those before the cell.",
    "kernel_cpu: of the kernel's process alone, all threads.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Options of the command line."""

    cases: tuple[PanelCase, ...]
    loads: tuple[Load, ...]
    rounds: int
    is_a_look: bool


@dataclass(slots=True)
class Outcome:
    """Figures of the rounds."""

    samples: Samples = field(default_factory=Samples)
    missing: list[NotMeasured] = field(default_factory=list)


class Watched:
    """Cell in a page of its own."""

    def __init__(self, server: LabServer, page: Page, case: PanelCase, load: Load, directory: Path) -> None:
        self._server, self._page, self._case, self._load = server, page, case, load
        self._directory = directory
        self._cells = case.cells(load, directory)
        self._notebook = server.write_notebook(f"{directory.name}.ipynb", *self._cells)
        self._lab = LabPage(server, page, self._notebook)
        self._session = page.context.new_cdp_session(page)
        self._log_size = server.log.stat().st_size

    def measure(self) -> Iterator[tuple[str, float]]:
        """Yield every figure of this cell."""
        watched = len(self._cells) - 1
        for index in range(watched):
            self._lab.run_and_wait(index, timeout=120)
        kernel = self._kernel()
        if self._case.waits_for_workers:
            wait_until(lambda: self._workers(kernel) == self._load.ranks, 120)
        heap, cpu = heap_bytes(self._session), cpu_seconds(kernel)
        if self._load.name == "figures":
            # what the page does to run a cell, and to show a panel, is no matter of its figures
            self._lab.run(watched)
            self._page.locator(self._case.region).locator("img").first.wait_for(timeout=120_000)
            self._page.evaluate(f"({PAGE})(null)")
            browser = self._page.context.browser
            assert browser is not None
            browser.start_tracing(page=self._page, categories=["toplevel", "__metadata"])
            moments = self._moments()
            self._page.wait_for_timeout(1000)
            seen = self._page.evaluate("window.benchmark")
            yield BUSIEST, busiest_task(json.loads(browser.stop_tracing())["traceEvents"])
        else:
            self._page.evaluate(f"({PAGE})({json.dumps(self._case.region)})")
            self._lab.run(watched)
            moments = self._moments()
            seen = self._wait_for_the_last(moments)
        if self._load.name == "stream":
            yield from latencies(seen["newest"], list(map(min, *moments)))
        else:
            if self._load.name == "bulk":
                yield from self._lines(seen, moments, kernel, cpu)
                seen = self._page.evaluate("window.benchmark")
            yield HEAP, (heap_bytes(self._session) - heap) / 1e6
            yield LONGEST, float(seen["longest"])
            yield LONG, float(seen["long"])
            if self._load.name == "bulk":
                log = self._server.log.read_bytes()[self._log_size :].decode(errors="replace")
                yield DROPS, float(len(DROPPED.findall(log)))
                yield REACHABLE, self._reachable() / (self._load.lines * self._load.ranks) * 100
        (self._directory / "done").touch()
        self._lab.wait_for_end(watched, timeout=120)
        if self._load.name != "stream":
            self._lab.save()
            wait_until(lambda: saved(self._notebook), 60)
            yield NOTEBOOK, self._notebook.stat().st_size / 1e3

    def _lines(
        self, seen: dict[str, Any], moments: list[list[float]], kernel: psutil.Process, cpu: float
    ) -> Iterator[tuple[str, float]]:
        lines = self._load.lines * self._load.ranks
        last = last_of(moments)
        shown = seen["last"].get(str(last))
        if shown is not None:
            yield LAST, shown / 1e3 - moments[last][0]
        if self._case.name == "nbdist":
            wait_until(lambda: self._holds(lines + self._load.ranks), GIVEN_UP_AFTER)
            yield ALL, time.time() - moments[last][0]
        yield CPU, (cpu_seconds(kernel) - cpu) / lines * 1e6

    def _holds(self, lines: int) -> bool:
        """Return whether nbdist's panel shows that it has so many lines."""
        text = self._page.locator(".nbdist-amount").first.text_content(timeout=5_000) or ""
        return re.sub(r"\D", "", text.split("line")[0]) == str(lines)

    def _reachable(self) -> int:
        if self._case.name != "nbdist":
            return int(self._page.evaluate(DISTINCT, self._case.region))
        panel = self._page.locator(".nbdist")
        total = 0
        for rank in range(self._load.ranks):
            panel.get_by_role("tab", name=f"Rank {rank}", exact=True).click()
            with self._page.expect_download() as download:
                panel.get_by_role("button", name="Download").click()
            text = download.value.path().read_text()
            total += len(set(re.findall(rf"^rank {rank} line \d+:", text, re.MULTILINE)))
        return total

    def _moments(self) -> list[list[float]]:
        """Wait for all lines; return the times at which each rank printed them."""
        paths = [self._directory / f"{rank}.json" for rank in range(self._load.ranks)]
        moments: list[list[float]] = []
        deadline = time.monotonic() + 240
        while len(moments) < len(paths):
            assert time.monotonic() < deadline, "a rank did not come to its end"
            try:
                moments.append(json.loads(paths[len(moments)].read_text()))
            except (OSError, ValueError):
                time.sleep(0.05)  # not written yet, or half
        return moments

    def _wait_for_the_last(self, moments: list[list[float]]) -> dict[str, Any]:
        """Wait until the page has seen its last line; return its record."""
        if self._load.name == "stream":
            wanted = f"window.benchmark.newest.some(([line]) => line >= {len(moments[0]) - 1})"
        else:
            wanted = f"'{last_of(moments)}' in window.benchmark.last"
        deadline = time.monotonic() + GIVEN_UP_AFTER
        while time.monotonic() < deadline and not self._page.evaluate(wanted):
            self._page.wait_for_timeout(200)
        values: dict[str, Any] = self._page.evaluate(
            "() => { window.benchmark.stopped = true; return window.benchmark; }"
        )
        return values

    def _kernel(self) -> psutil.Process:
        children = psutil.Process(self._server.pid).children(recursive=True)
        kernels = [child for child in children if "ipykernel_launcher" in " ".join(child.cmdline())]
        return max(kernels, key=psutil.Process.create_time)

    def _workers(self, kernel: psutil.Process) -> int:
        return sum(is_connected_worker(child) for child in kernel.children(recursive=True))


def busiest_task(events: Sequence[dict[str, Any]]) -> float:
    """Return the longest task of the page's main thread in Chromium's trace, in milliseconds."""
    mains = {
        (event["pid"], event["tid"])
        for event in events
        if event["name"] == "thread_name" and event["args"]["name"] == "CrRendererMain"
    }
    spent = [event.get("tdur", 0) for event in events if (event["pid"], event["tid"]) in mains]
    return float(max(spent)) / 1e3


def last_of(moments: Sequence[Sequence[float]]) -> int:
    """Return the last rank to print."""
    return max(range(len(moments)), key=lambda rank: moments[rank][-1])


def latencies(newest: Sequence[Sequence[float]], moments: Sequence[float]) -> Iterator[tuple[str, float]]:
    """Yield p50 and p99 in milliseconds over all lines; an unseen line counts as infinite."""
    waits, at = [], 0
    for line, seen in newest:
        for number in range(at, min(int(line) + 1, len(moments))):
            waits.append(seen - moments[number] * 1e3)
        at = max(at, int(line) + 1)
    waits += [GIVEN_UP_AFTER * 1e3] * (len(moments) - len(waits))
    cuts = statistics.quantiles(waits, n=100)
    yield P50, cuts[49]
    yield P99, cuts[98]


def heap_bytes(session: CDPSession) -> float:
    """Return the bytes of JavaScript objects and array buffers of the page that are still needed."""
    session.send("HeapProfiler.collectGarbage")
    usage = session.send("Runtime.getHeapUsage")
    return float(usage["usedSize"] + usage.get("backingStorageSize", 0))


def cpu_seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def saved(notebook: Path) -> bool:
    """Return whether the file has the outputs of the last cell."""
    try:
        cells = json.loads(notebook.read_text())["cells"]
    except ValueError:
        return False  # half written
    return bool(cells[-1]["execution_count"])


def wait_until(condition: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"still not so after {seconds:g} s")
        time.sleep(0.05)


def measure(settings: Settings, outcome: Outcome, scratch: Path) -> None:
    # this peer of other benchmarks takes the place of how JupyterLab runs a cell
    rival = "jupyter_distributed"
    programs = [str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]
    server = LabServer(
        scratch,
        f"--ServerApp.jpserver_extensions={rival}=False",
        without=[rival.replace("_", "-")],
        variables={"PATH": os.pathsep.join(programs)},
    )
    server.wait_until_up()
    of_the_page, others = halves()
    for task in psutil.Process(server.pid).threads():
        os.sched_setaffinity(task.id, others)  # its kernels and their ranks inherit it
    # the browser inherits it
    os.sched_setaffinity(0, of_the_page)
    try:
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium(), args=CHROMIUM_FLAGS)
            for number in range(settings.rounds):
                for load in settings.loads:
                    turn = number % len(settings.cases)
                    cases = settings.cases[turn:] + settings.cases[:turn] if load.peers else CASES[:1]
                    for case in cases:
                        take(server, browser, case, load, number, outcome, scratch)
            browser.close()
    finally:
        server.close()


def halves() -> tuple[set[int], set[int]]:
    """Return the CPUs of the page, and those of all else."""
    own = sorted(os.sched_getaffinity(0))
    half = len(own) // 2
    return (set(own[:half]), set(own[half:])) if half else (set(own), set(own))


def take(
    server: LabServer,
    browser: Browser,
    case: PanelCase,
    load: Load,
    number: int,
    outcome: Outcome,
    scratch: Path,
) -> None:
    if missing := case.missing():
        note = NotMeasured(case=case.name, reason=f"{', '.join(missing)} cannot be imported")
        if note not in outcome.missing:
            outcome.missing.append(note)
        return
    name = f"{case.name}, {load.name}"
    if case is not CASES[0] and name in {skipped.case for skipped in outcome.missing}:
        return  # it takes minutes to be given up
    directory = scratch / f"{load.name}-{number}-{CASES.index(case)}"
    directory.mkdir()
    say(f"round {number + 1}, {load.name}: {case.name}")
    try:
        with new_page(browser) as page:
            for metric, value in Watched(server, page, case, load, directory).measure():
                outcome.samples.add(name, metric, number, value)
    except (AssertionError, OSError, PlaywrightError, psutil.Error) as error:
        reason = without_paths(str(error).splitlines()[0][:300], scratch)
        outcome.missing.append(NotMeasured(case=name, reason=f"{type(error).__name__}: {reason}"))
        say(f"  {reason}")
    finally:
        (directory / "done").touch()
        end_kernels(server)


def end_kernels(server: LabServer) -> None:
    """End every kernel and its processes: the next case needs a quiet machine."""
    with contextlib.suppress(OSError, ValueError):
        # a kernel that is killed alone is started again
        for kernel in json.load(request(server, "GET", "kernels")):
            request(server, "DELETE", f"kernels/{kernel['id']}").close()
    children = psutil.Process(server.pid).children(recursive=True)
    for child in children:
        child.kill()
    psutil.wait_procs(children, timeout=20)


def request(server: LabServer, method: str, path: str) -> HTTPResponse:
    """Return the server's answer. Raises OSError."""
    headers = {"Authorization": f"token {TOKEN}"}
    request = urllib.request.Request(f"{server.url}api/{path}", method=method, headers=headers)
    answer: HTTPResponse = urllib.request.urlopen(request, timeout=30)
    return answer


def judge(samples: Samples) -> list[Goal]:
    bulk, stream, figures = "nbdist, bulk", "nbdist, stream", "nbdist, figures"
    limits = (
        (bulk, REACHABLE, "every line is reachable", lambda value: value >= 100),
        (bulk, LAST, "the last line is visible within 1 s", lambda value: value <= 1),
        (bulk, LONG, "no task over 100 ms", lambda value: value == 0),
        (bulk, HEAP, "the heap grows by less than 50 MB", lambda value: value < 50),
        (bulk, NOTEBOOK, "the saved notebook is under 50 KB", lambda value: value < 50),
        (bulk, DROPS, "no rate limit of the server is hit", lambda value: value == 0),
        (stream, P50, "print to screen: p50 under 150 ms", lambda value: value < 150),
        (stream, P99, "print to screen: p99 under 500 ms", lambda value: value < 500),
        (figures, LONGEST, "1,000 figures: no task over 50 ms", lambda value: value <= 50),
        (figures, BUSIEST, "1,000 figures: no task computes for over 50 ms", lambda value: value <= 50),
        (figures, NOTEBOOK, "1,000 figures: the saved notebook is under 1.5 MB", lambda value: value < 1500),
    )
    goals = []
    for case, metric, goal, holds in limits:
        median = samples.median(case, metric)
        seen = f"{spread(samples.values(case, metric))} {UNITS[metric]}".strip()
        goals.append(Goal(goal=goal, holds=None if median is None else holds(median), seen=seen))
    return goals


def rows(settings: Settings, samples: Samples) -> list[Row]:
    """Return every figure in its unit, the others' beside nbdist's of the same load."""
    baselines = {
        f"{case.name}, {load.name}": [f"nbdist, {load.name}"] for case in CASES for load in settings.loads
    }
    return [replace(row, unit=UNITS[row.metric]) for row in samples.rows(baselines)]


def report(outcome: Outcome, settings: Settings) -> str:
    parts = []
    for load in settings.loads:
        metrics = [P50, P99] if load.name == "stream" else [m for m in UNITS if m not in (P50, P99)]
        heads = [load.name, *(f"{metric} {UNITS[metric]}".strip() for metric in metrics)]
        lines = [
            [case.name, *(spread(outcome.samples.values(f"{case.name}, {load.name}", m)) for m in metrics)]
            for case in settings.cases
        ]
        parts.append(table(heads, lines))
    parts += [f"not measured: {missing.case}: {missing.reason}" for missing in outcome.missing]
    parts += list(map(str, judge(outcome.samples)))
    return "\n\n".join(parts[: len(settings.loads)]) + "\n\n" + "\n".join(parts[len(settings.loads) :])


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def parse(arguments: Sequence[str] | None) -> Settings:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=LEAST_ROUNDS, help=f"default: {LEAST_ROUNDS}")
    parser.add_argument("--quick", action="store_true", help="one round of a tenth of the lines, for a look")
    parser.add_argument("--only", metavar="CASE,CASE", help=", ".join(case.name for case in CASES))
    parser.add_argument("--load", choices=("bulk", "stream", "figures"))
    flags = parser.parse_args(arguments)
    names = [case.name for case in CASES] if flags.only is None else flags.only.split(",")
    if unknown := set(names) - {case.name for case in CASES}:
        parser.error(f"no case {', '.join(unknown)}: there are {', '.join(case.name for case in CASES)}")
    part = 10 if flags.quick else 1
    loads = (
        Load(name="bulk", program=BULK, ranks=BULK_RANKS, lines=100_000 // part),
        Load(name="stream", program=STREAM, ranks=STREAM_RANKS, lines=10_000 // part),
        Load(name="figures", program=FIGURES, ranks=1, lines=1_000 // part, peers=False),
    )
    rounds = 1 if flags.quick else flags.rounds
    return Settings(
        cases=tuple(case for case in CASES if case.name in names),
        loads=tuple(load for load in loads if flags.load in (None, load.name)),
        rounds=rounds,
        is_a_look=rounds < LEAST_ROUNDS or flags.only is not None or flags.load is not None,
    )


def main(arguments: Sequence[str] | None = None) -> int:
    settings = parse(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the server is ended first
    machine = Machine.now(PACKAGES)
    outcome = Outcome()
    with tempfile.TemporaryDirectory(prefix="bench-panel-") as scratch:
        measure(settings, outcome, Path(scratch))
    print(f"{machine.header()}\n\n{report(outcome, settings)}")
    if not outcome.samples:
        return 1
    write_results(
        "panel",
        machine,
        rows(settings, outcome.samples),
        settings={"rounds": settings.rounds, "given_up_after": GIVEN_UP_AFTER},
        not_measured=outcome.missing,
        notes=NOTES,
        goals=judge(outcome.samples),
        is_a_look=settings.is_a_look,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
