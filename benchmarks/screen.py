"""Seconds until a point of a rank is on the screen: nbdist's board, and VisualDL as it ships; until a page
with very many points or tags has loaded; and until a run of very many ranks is on the screen.

    python benchmarks/screen.py [--points N] [--quick]

In a real Chromium. A point counts as seen when the picture of its chart has changed. VisualDL as it ships is
given what its own writer has flushed to the file, so its time is that of its server and page alone. A large
run is asked for as the page does, without a browser: its page, its list of tags, the curves of eight charts.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from common import Goal, Machine, NotMeasured, Samples, spread, table, write_results
from playwright.sync_api import Error, Page, sync_playwright
from wide_screen import WIDE_CASES, WIDE_METRICS, judge_wide, measure_wide

from nbdist.board import ensure_board, stop_board

sys.path.insert(0, str(Path(__file__).parents[1] / "tests/browser"))

from lab import CHROMIUM_FLAGS, chromium

SEEN = "point_to_screen"
FIRST, ALL = "first_page", "all_points"
LARGE = {"2,000,000 points": (10, 100_000), "10,000 tags": (10_000, 5)}
"""Tags, and points of each in each of two ranks."""

FIRST_SECONDS = 5.0
NBDIST, SHIPPED = "nbdist", "visualdl as it ships"
LEAST_POINTS = 5
SHIPPED_POINTS = 3
"""Of VisualDL as it ships: it asks for what is new every 15 s."""

LIMIT = 90.0
LARGE_LIMIT = 600.0
PICTURE = "document.querySelector('canvas')?.toDataURL()"
RUN = "20260101-000000-screen-aaaa"

Add = Callable[[int, float], None]


@contextlib.contextmanager
def nbdist_board(folder: Path) -> Iterator[tuple[str, Add]]:
    """Yield the address of a page with a run's curves, and a function that appends a point like
    ``nbdist.log``."""
    metrics = folder / "runs" / RUN / "ranks" / "0" / "metrics.jsonl"
    metrics.parent.mkdir(parents=True)

    def add(step: int, value: float) -> None:
        with metrics.open("a") as file:
            file.write(json.dumps({"t": time.time(), "step": step, "v": {"loss": value}}) + "\n")

    warm_up(add)
    try:
        yield ensure_board(folder).url([RUN]), add
    finally:
        stop_board(folder)


@contextlib.contextmanager
def shipped_server(folder: Path) -> Iterator[tuple[str, Add]]:
    """Yield the same for VisualDL's own writer and server."""
    from visualdl import LogWriter

    writer = LogWriter(logdir=str(folder / "log"))

    def add(step: int, value: float) -> None:
        writer.add_scalar(tag="loss", step=step, value=value)
        writer.flush()

    warm_up(add)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = ["visualdl", "--logdir", str(folder / "log"), "--host", "127.0.0.1", "--port", str(port)]
    server = subprocess.Popen(
        [str(Path(sys.executable).with_name(command[0])), *command[1:]],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        address = f"http://127.0.0.1:{port}/app/scalar"
        wait_for(address)
        yield address, add
    finally:
        server.terminate()
        server.wait()


CASES = {NBDIST: nbdist_board, SHIPPED: shipped_server}


def warm_up(add: Add) -> None:
    for step in range(100):
        add(step, math.exp(-step / 30))


def wait_for(address: str) -> None:
    deadline = time.monotonic() + LIMIT
    while True:
        try:
            # without a language VisualDL's page is an error
            request = urllib.request.Request(address, headers={"Accept-Language": "en"})
            urllib.request.urlopen(request, timeout=5).close()
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)


def seconds_to_screen(page: Page, add: Add, points: int) -> Iterator[float]:
    """Yield the seconds from each point to the changed picture, at random times of the page's round."""
    page.wait_for_function(f"!!({PICTURE})")
    page.wait_for_timeout(5_000)
    for number in range(points):
        page.wait_for_timeout(1_000 + random.random() * 2_000)
        before = page.evaluate(PICTURE)
        begin = time.monotonic()
        add(200 + 20 * number, 0.5 + number % 2)
        page.wait_for_function(f"before => {PICTURE} !== before", arg=before, polling=20)
        yield time.monotonic() - begin


def measure(points: int, scratch: Path) -> tuple[Samples, list[NotMeasured]]:
    samples, missing = Samples(), []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=CHROMIUM_FLAGS)
        for number, (name, case) in enumerate(CASES.items()):
            folder = scratch / str(number)
            folder.mkdir()
            page = browser.new_page(viewport={"width": 1200, "height": 760})
            page.set_default_timeout(LIMIT * 1_000)
            try:
                with case(folder) as (address, add):
                    page.goto(address)
                    amount = points if name == NBDIST else min(points, SHIPPED_POINTS)
                    for taken, seconds in enumerate(seconds_to_screen(page, add, amount)):
                        samples.add(name, SEEN, taken, seconds)
            except (Error, OSError, ImportError) as why:
                missing.append(NotMeasured(case=name, reason=str(why).splitlines()[0]))
            page.close()
        browser.close()
    return samples, missing


def measure_large(folder: Path, tags: int, points: int) -> Iterator[tuple[str, float]]:
    """Yield the seconds from the first request to the first page, and to all points."""
    for rank in (0, 1):
        metrics = folder / "runs" / RUN / "ranks" / str(rank) / "metrics.jsonl"
        metrics.parent.mkdir(parents=True)
        with metrics.open("w") as file:
            for step in range(points):
                values = {f"tag{number}": step + number / 10 + rank for number in range(tags)}
                file.write(json.dumps({"t": 1e9 + step / 100, "step": step, "v": values}) + "\n")
    page = ensure_board(folder, deadline=LIMIT).url([RUN])
    address = page.removesuffix("/scalar")

    def ask(path: str) -> bytes:
        request = urllib.request.Request(f"{address}/{path}", headers={"Accept-Language": "en"})
        with urllib.request.urlopen(request, timeout=LARGE_LIMIT) as answer:
            return bytes(answer.read())

    def last(curve: str, tag: int) -> float:
        rows = json.loads(ask(f"api/scalar/list?run={curve}&tag=tag{tag}"))["data"]
        return float(rows[-1][1]) if rows else -1.0

    begin = time.monotonic()
    try:
        ask("scalar")
        ask("api/scalar/tags")
        for tag in range(8):
            last("rank0", tag)
        yield FIRST, time.monotonic() - begin
        while min(last("rank1", tags - 1), last("max", tags - 1)) < points - 1:
            if time.monotonic() - begin > LARGE_LIMIT:
                raise TimeoutError(f"not all points are there after {LARGE_LIMIT:g} s")
            time.sleep(2.0)  # as the page does between two looks
        yield ALL, time.monotonic() - begin
    finally:
        stop_board(folder)


def take_large(samples: Samples, missing: list[NotMeasured], scratch: Path, rounds: int) -> None:
    for name, (tags, points) in LARGE.items():
        for taken in range(rounds):
            folder = scratch / f"{name}-{taken}".replace(",", "").replace(" ", "-")
            try:
                for metric, seconds in measure_large(folder, tags, points):
                    samples.add(name, metric, taken, seconds)
            except OSError as why:
                missing.append(NotMeasured(case=name, reason=str(why).splitlines()[0]))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--points", type=int, default=20, help="of nbdist; default: 20")
    parser.add_argument("--quick", action="store_true", help="two points, for a look")
    flags = parser.parse_args(arguments)
    points = 2 if flags.quick else flags.points
    machine = Machine.now(("nbdist", "visualdl"))
    with tempfile.TemporaryDirectory(prefix="bench-screen-") as scratch:
        samples, missing = measure(points, Path(scratch))
        rounds = 1 if flags.quick else 3
        take_large(samples, missing, Path(scratch), rounds)
        measure_wide(samples, Path(scratch), rounds)
    seen = samples.values(NBDIST, SEEN)
    goal = Goal(
        goal="a point reaches the screen within 2 s (median)",
        holds=statistics.median(seen) <= 2 if seen else None,
        seen=f"{spread(seen)} s",
    )
    firsts = [seconds for name in LARGE for seconds in samples.values(name, FIRST)]
    soon = Goal(
        goal=f"the first page of a large run is there within {FIRST_SECONDS:g} s (each time)",
        holds=max(firsts) <= FIRST_SECONDS if firsts else None,
        seen=f"{spread(firsts)} s",
    )
    lines = [[name, spread(samples.values(name, SEEN))] for name in CASES]
    print(f"{machine.header()}\n\n{table(['median (min-max)', 'point to screen [s]'], lines)}\n\n{goal}")
    lines = [[name, *(spread(samples.values(name, metric)) for metric in (FIRST, ALL))] for name in LARGE]
    print(f"\n{table(['median (min-max)', 'first page [s]', 'all points [s]'], lines)}\n\n{soon}")
    goals = [goal, soon, *judge_wide(samples)]
    lines = [[case, *(spread(samples.values(case, name)) for name in WIDE_METRICS)] for case in WIDE_CASES]
    print(
        f"\n{table(['median (min-max)', *WIDE_METRICS.values()], lines)}\n\n" + "\n".join(map(str, goals[2:]))
    )
    for skipped in missing:
        print(f"not measured: {skipped.case}: {skipped.reason}")
    write_results(
        "screen",
        machine,
        samples.rows({NBDIST: [SHIPPED]}),
        settings={"points": points},
        not_measured=missing,
        goals=goals,
        is_a_look=len(seen) < LEAST_POINTS,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
