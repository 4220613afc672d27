"""Seconds until a comparison of runs is on the screen, and until it answers its reader.

    python benchmarks/compare.py [--rounds R] [--quick]

In a real JupyterLab in a real Chromium, over the runs of a sweep: 200 points of one rank, each with three
metrics of 500 steps. A comparison is opened by its command, as the sidebar does.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from common import Goal, Machine, Samples, compile_nbdist, spread, table, write_results
from playwright.sync_api import Browser, Page, sync_playwright

from nbdist import options, runner
from nbdist.runner.sweeps import start_sweep

sys.path.insert(0, str(Path(__file__).parents[1] / "tests/browser"))

from lab import CHROMIUM_FLAGS, LabServer, chromium, new_page

FEW, MANY = 20, 200
OPENED, SORTED, DRAWN = "opened", "sorted", "all curves drawn"
HOVERED = "all values at the pointer"
ACTIONS = (SORTED, DRAWN, HOVERED)
METRICS = (OPENED, *ACTIONS)
SOON, USABLE = 1.0, 1.0
"""Seconds until a comparison of few runs is there, and until one of many has done what its reader asked."""

LEAST_ROUNDS = 3
PROGRAM = """
import nbdist
for step in range(500):
    loss = (nbdist.params.point + 1) / (step + 10)
    nbdist.log(step, loss=loss, accuracy=1 - loss / 30, lr=0.1 * 0.99**step)
"""

# Seconds from an act until the page shows what it led to, which is looked for at every frame.
SECONDS = """async ([act, shows]) => {
    const begun = performance.now();
    await eval(act);
    do {
        await new Promise(requestAnimationFrame);
    } while (!eval(shows));
    // and the frame is painted
    await new Promise(done => setTimeout(done));
    return (performance.now() - begun) / 1000;
}"""
ROOT = "document.querySelector('.nbdist-compare')"
ROWS = f"[...{ROOT}.querySelectorAll('tbody tr .nbdist-name')]"


def sweep(points: int) -> list[str]:
    """Return the ids of as many ended runs."""
    listed = ",".join(map(str, range(points)))
    line = f"--sweep point={listed} -n 2 --each 1 --no-check"
    plan = partial(runner.plan, cell=PROGRAM, cwd=os.getcwd(), python_path=sys.path)
    handle = start_sweep(runner.plan_sweep(options.parse(line), plan))
    assert handle.wait() == "finished", handle
    return [run.run_id for run in handle.runs]


def look(page: Page, run_ids: Sequence[str]) -> Iterator[tuple[str, float]]:
    """Yield every figure of a comparison, in a page that has none."""

    def seconds(act: str, shows: str) -> float:
        return float(page.evaluate(SECONDS, [act, shows]))

    command = f"window.jupyterapp.commands.execute('nbdist:compare', {{runIds: {list(run_ids)}}})"
    drawn = f"{ROOT}?.querySelector('.u-over')?.clientWidth"
    yield OPENED, seconds(command, f"{drawn} && {ROWS}.length === {len(run_ids)}")
    page.wait_for_timeout(500)
    heading = f"[...{ROOT}.querySelectorAll('thead button')].find(one => /^loss/.test(one.textContent))"
    # once sorts by the least first, which may be the order that is there
    seconds(f"{heading}.click()", "true")
    page.wait_for_timeout(500)
    page.evaluate(f"window.first = {ROWS}[0].textContent")
    yield SORTED, seconds(f"{heading}.click()", f"{ROWS}[0].textContent !== window.first")
    picture = f"{ROOT}.querySelector('.nbdist-chart canvas').toDataURL()"
    page.evaluate(f"window.picture = {picture}")
    yield (
        DRAWN,
        seconds(
            f"{ROOT}.querySelector('thead [role=checkbox], thead input').click()",
            f"{picture} !== window.picture",
        ),
    )
    curves = page.locator(".nbdist-compare .u-over").first
    curves.scroll_into_view_if_needed()
    box = curves.bounding_box()
    assert box is not None
    move = (
        f"{ROOT}.querySelector('.u-over').dispatchEvent(new MouseEvent('mousemove', {{bubbles: true, "
        f"clientX: {box['x'] + box['width'] / 2}, clientY: {box['y'] + 40}}}))"
    )
    page.mouse.move(box["x"] + 3, box["y"] + 40)
    page.wait_for_timeout(300)
    text = f"{ROOT}.querySelector('.nbdist-values')?.textContent ?? ''"
    page.evaluate(f"window.told = {text}")
    yield HOVERED, seconds(move, f"({text}) !== window.told")


def measure(browser: Browser, server: LabServer, run_ids: Sequence[str], rounds: int) -> Samples:
    samples = Samples()
    for taken in range(rounds):
        for count in (FEW, MANY):
            with new_page(browser, width=1280, height=900) as page:
                page.goto(f"{server.url}lab?{server.entry}")
                page.wait_for_function("window.jupyterapp?.commands.hasCommand('nbdist:compare')")
                page.wait_for_timeout(2_000)  # JupyterLab is at rest
                for metric, value in look(page, run_ids[:count]):
                    samples.add(f"{count} runs", metric, taken, value)
    return samples


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5, help="default: 5")
    parser.add_argument("--quick", action="store_true", help="one round, for a look")
    flags = parser.parse_args(arguments)
    rounds = 1 if flags.quick else flags.rounds
    compile_nbdist()
    machine = Machine.now(("nbdist", "jupyterlab"))
    with tempfile.TemporaryDirectory(prefix="bench-compare-") as scratch:
        server = LabServer(Path(scratch))
        try:
            server.wait_until_up()
            os.environ["NBDIST_HOME"] = str(server.home)
            print(f"{MANY} runs", file=sys.stderr, flush=True)
            run_ids = sweep(MANY)
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(executable_path=chromium(), args=CHROMIUM_FLAGS)
                samples = measure(browser, server, run_ids, rounds)
                browser.close()
        finally:
            server.close()
    few, many = f"{FEW} runs", f"{MANY} runs"
    opened = samples.values(few, OPENED)
    slowest = max(samples.median(many, action) or 0.0 for action in ACTIONS)
    goals = [
        Goal(
            goal=f"a comparison of {FEW} runs is there within {SOON:g} s (median)",
            holds=(samples.median(few, OPENED) or 0.0) <= SOON,
            seen=f"{spread(opened)} s",
        ),
        Goal(
            goal=f"one of {MANY} runs does what its reader asks within {USABLE:g} s (medians)",
            holds=slowest <= USABLE,
            seen=f"at most {slowest:.2f} s",
        ),
    ]
    lines = [[case, *(spread(samples.values(case, metric)) for metric in METRICS)] for case in (few, many)]
    headings = ["median (min-max)", *(f"{metric} [s]" for metric in METRICS)]
    print(f"{machine.header()}\n\n{table(headings, lines)}\n\n" + "\n".join(map(str, goals)))
    write_results(
        "compare",
        machine,
        samples.rows({}),
        settings={"rounds": rounds},
        goals=goals,
        is_a_look=rounds < LEAST_ROUNDS,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
