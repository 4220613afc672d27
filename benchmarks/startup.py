"""Seconds that nbdist adds to the start of JupyterLab's server and page.

    python benchmarks/startup.py [--rounds N] [--quick]

Two JupyterLabs, one with nbdist's extensions and one with both turned off, are started in turns. Each page is
opened twice: by a browser that has seen nothing, and by one that has it in its cache.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from common import Goal, Machine, Samples, compile_nbdist, spread, table, times, write_results
from playwright.sync_api import Browser, Page, sync_playwright

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.browser.lab import CHROMIUM_FLAGS, LabServer, chromium

WITH, WITHOUT = "with nbdist", "without"
SERVER, FIRST, AGAIN = "server", "first page", "page from the cache"
METRICS = (SERVER, FIRST, AGAIN)
LEAST_ROUNDS = 5
OFF = ("--ServerApp.jpserver_extensions=nbdist=False",)
TOLERANCE = 1.05
"""Two starts of the same differ by more."""

NOTES = (
    "server: seconds from its start until it answers. page: from the navigation until JupyterLab says that "
    "it is restored, with an empty workspace.",
)


def started(case: str, folder: Path) -> tuple[LabServer, float]:
    folder.mkdir()
    begun = time.monotonic()
    server = LabServer(folder) if case == WITH else LabServer(folder, *OFF, without=["nbdist"])
    server.wait_until_up()
    return server, time.monotonic() - begun


def opened(page: Page, server: LabServer) -> float:
    """Return the seconds until JupyterLab has loaded."""
    begun = time.monotonic()
    page.goto(f"{server.url}lab?{server.entry}")
    page.wait_for_function(
        "async () => window.jupyterapp ? window.jupyterapp.restored.then(() => true) : false",
        timeout=60_000,
    )
    return time.monotonic() - begun


def measure(samples: Samples, browser: Browser, rounds: int, scratch: Path) -> None:
    for number in range(rounds):
        for case in (WITH, WITHOUT)[:: 1 if number % 2 else -1]:
            print(f"round {number + 1}/{rounds}: {case}", file=sys.stderr, flush=True)
            server, seconds = started(case, scratch / f"{number}-{case.replace(' ', '-')}")
            context = browser.new_context()
            try:
                samples.add(case, SERVER, number, seconds)
                for metric in (FIRST, AGAIN):
                    page = context.new_page()
                    samples.add(case, metric, number, opened(page, server))
                    registered = "!!window.jupyterapp?.commands.hasCommand('nbdist:show-runs')"
                    if case == WITH:
                        page.wait_for_function(registered)
                    assert page.evaluate(registered) is (case == WITH), "the extension is where it should be"
                    page.close()
            finally:
                context.close()
                server.close()


def judge(samples: Samples) -> list[Goal]:
    goals = []
    for metric in METRICS:
        ratio = samples.ratio(WITH, metric, WITHOUT)
        goals.append(
            Goal(
                goal=f"{metric}: within {TOLERANCE:g} x of a start without nbdist",
                holds=None if ratio is None else ratio <= TOLERANCE,
                seen=times(ratio),
            )
        )
    return goals


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15, help="default: 15")
    parser.add_argument("--quick", action="store_true", help="one round, for a look")
    flags = parser.parse_args(arguments)
    rounds = 1 if flags.quick else flags.rounds
    compile_nbdist()
    machine = Machine.now(("nbdist", "jupyterlab", "jupyter_server"))
    samples = Samples()
    with tempfile.TemporaryDirectory(prefix="bench-lab-") as scratch, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=CHROMIUM_FLAGS)
        measure(samples, browser, rounds, Path(scratch))
        browser.close()
    goals = judge(samples)
    lines = [
        [case, *(spread(samples.values(case, metric)) for metric in METRICS)] for case in (WITH, WITHOUT)
    ]
    print(f"{machine.header()}\n\n{table(['s: median (min-max)', *METRICS], lines)}\n")
    for metric in METRICS:
        more = statistics.median(samples.differences(WITH, metric, WITHOUT, metric))
        print(f"{metric}: {1e3 * more:.0f} ms more (median of the rounds)")
    print("\n" + "\n".join(map(str, goals)))
    write_results(
        "startup",
        machine,
        samples.rows({WITH: [WITHOUT]}),
        settings={"rounds": rounds},
        notes=NOTES,
        goals=goals,
        is_a_look=rounds < LEAST_ROUNDS,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
