"""How much of the time that a sweep's places are there its points use.

    python benchmarks/sweep.py [--points N] [--seconds S] [--quick]

A sweep of N points with two places of one rank each, once with ranks that are made ready beside the runs and
once without. Each point imports its framework and then waits S seconds, as one on a GPU leaves the processor
free.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from common import Goal, Machine, Samples, compile_nbdist, table, write_results

from nbdist import options, runner
from nbdist.runner.sweeps import start_sweep

PLACES = 2
WARM, COLD = "warm", "cold"
FRAMEWORKS = {"torch": "import torch", "no framework": ""}
OCCUPIED, USED = "a run goes on", "its program is at work"
METRICS = (OCCUPIED, USED)
GOAL = 0.9
ALL_POINTS = 64

PROGRAM = """
import time
{framework}
import nbdist
begun = time.time()
time.sleep({seconds} + 0 * nbdist.params.point)
nbdist.result(begun=begun, ended=time.time())
"""

NOTES = (
    "Shares of the time of both places, from the first line of the first program until the last run has "
    "ended; at work: from behind the imports of a program until its end.",
)


def measure(framework: str, case: str, points: int, seconds: float) -> dict[str, float]:
    cell = PROGRAM.format(framework=FRAMEWORKS[framework], seconds=seconds)
    listed = ",".join(map(str, range(points)))
    line = f"--sweep point={listed} -n {PLACES} --each 1 --no-check {'--cold' if case == COLD else ''}"
    plan = partial(runner.plan, cell=cell, cwd=os.getcwd(), python_path=sys.path)
    handle = start_sweep(runner.plan_sweep(options.parse(line), plan))
    try:
        status = handle.wait()
    except BaseException:
        handle.stop()
        raise
    assert status == "succeeded", handle
    runs = [run for run, _ in handle.look().runs]
    results = [run.results for run in handle.runs]
    first = min(one["begun"] for one in results)
    room = PLACES * (max(run.ended or 0.0 for run in runs) - first)
    occupied = sum((run.ended or 0.0) - max(first, run.started or 0.0) for run in runs)
    return {OCCUPIED: occupied / room, USED: sum(one["ended"] - one["begun"] for one in results) / room}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--points", type=int, default=ALL_POINTS, help=f"default: {ALL_POINTS}")
    parser.add_argument("--seconds", type=float, default=5.0, help="of each point; default: 5")
    parser.add_argument("--quick", action="store_true", help="8 points, for a look")
    asked = parser.parse_args(arguments)
    points = 8 if asked.quick else asked.points
    compile_nbdist()
    machine = Machine.now(("nbdist", "torch"))
    samples = Samples(unit="share")
    with tempfile.TemporaryDirectory(prefix="bench-sweep-") as scratch:
        os.environ["NBDIST_HOME"] = str(Path(scratch) / "home")
        for framework in FRAMEWORKS:
            for case in (WARM, COLD):
                print(f"{framework}, {case}", file=sys.stderr, flush=True)
                for metric, share in measure(framework, case, points, asked.seconds).items():
                    samples.add(f"{framework}, {case}", metric, 0, share)
    lines = [
        [case, *(f"{100 * share:.1f} %" for metric in METRICS for share in samples.values(case, metric))]
        for case in samples.cases()
    ]
    goals = []
    for framework in FRAMEWORKS:
        (share,) = samples.values(f"{framework}, {WARM}", USED)
        said = f"{framework}, {WARM}: programs are at work for at least {100 * GOAL:.0f} % of the time"
        goals.append(Goal(goal=said, holds=share >= GOAL, seen=f"{100 * share:.1f} %"))
    print(f"{machine.header()}\n\n{table(['', *METRICS], lines)}\n\n" + "\n".join(map(str, goals)))
    write_results(
        "sweep",
        machine,
        samples.rows({f"{framework}, {WARM}": [f"{framework}, {COLD}"] for framework in FRAMEWORKS}),
        settings={"points": points, "seconds": asked.seconds, "places": PLACES},
        notes=NOTES,
        goals=goals,
        is_a_look=points < ALL_POINTS,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
