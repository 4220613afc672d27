"""Accuracy and cost of the division of a training's steps.

    python benchmarks/steps.py [--steps N] [--seconds S] [--rounds R] [--quick]

Ten programs of two ranks, with torch and paddle, time their own parts (``step_program.py``); the figures
are the largest difference between their shares and nbdist's, in points, and that of the wait. The cost is
that of steps with nbdist's stand-ins over steps without, in short blocks in turn: of steps of some
tenths of a millisecond in microseconds, of steps of some twenty milliseconds as a ratio; both are medians
of all pairs of blocks, with the 90 % interval that resampling gives.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from common import Goal, Machine, Samples, rounded, table, write_results
from step_program import CASES

FRAMEWORKS = ("torch", "paddle")
PROGRAM = Path(__file__).with_name("step_program.py")
POINTS, WAIT = "any part but waits in backward", "wait"
COST, RATIO = "a step's hooks", "on / off"
SMALL, LARGE = 16, 2560
LIMITS = {POINTS: 1.0, WAIT: 3.0, COST: 20.0, RATIO: 1.003}
PARTS = ("data", "forward", "optimizer", "other")


def run(home: Path, framework: str, ranks: int, *arguments: object) -> list[tuple[Any, Any]]:
    """Run the program; return what each rank wrote, and nbdist's record of it."""
    before = {*home.glob("runs/*")}
    command = [sys.executable, "-m", "nbdist", "run", "-n", str(ranks), str(PROGRAM), framework]
    environment = os.environ | {"NBDIST_HOME": str(home), "OMP_NUM_THREADS": "1"}
    done = subprocess.run([*command, *map(str, arguments)], capture_output=True, text=True, env=environment)
    if done.returncode:
        raise RuntimeError(done.stdout[-2000:] + done.stderr[-2000:])
    (directory,) = {*home.glob("runs/*")} - before
    folders = [directory / "ranks" / str(rank) for rank in range(ranks)]
    return [
        tuple(json.loads((folder / f"{n}.json").read_text()) for n in ("truth", "steps"))
        for folder in folders
    ]


def differences(truth: dict[str, float], record: dict[str, Any]) -> dict[str, float]:
    """Return how far nbdist's shares are from the program's own, in points."""
    whole = truth.pop("seconds")
    truth["other"] = whole - sum(truth.values())
    total = record["total"]
    found = {part: seconds / total["seconds"] for part, seconds in total["parts"].items()}
    apart = {part: 100 * abs(found[part] - seconds / whole) for part, seconds in truth.items()}
    # what is wait and what backward depends on the moment at which the gradients are there
    apart["both"] = 100 * abs(found["wait"] + found["backward"] - (truth["wait"] + truth["backward"]) / whole)
    return apart


def measure_accuracy(home: Path, steps: int, framework: str, samples: Samples) -> None:
    for round_number, name in enumerate(CASES):
        apart = [differences(*rank) for rank in run(home, framework, 2, name, steps)]
        samples.add(
            framework, POINTS, round_number, max(rank[part] for rank in apart for part in (*PARTS, "both"))
        )
        samples.add(framework, WAIT, round_number, max(rank["wait"] for rank in apart))
        shown = ", ".join(f"{part} {max(rank[part] for rank in apart):.1f}" for part in apart[0])
        print(f"{framework}, {name}: {shown}", flush=True)


def measure_cost(home: Path, seconds: float, framework: str, samples: Samples) -> None:
    ((small, _),) = run(home, framework, 1, SMALL, seconds / 4)
    ((large, _),) = run(home, framework, 1, LARGE, seconds)
    for metric, blocks, value in (
        (COST, small, lambda on, off: 1e6 * (on - off)),
        (RATIO, large, lambda on, off: on / off),
    ):
        before = len(samples.values(framework, metric))
        for number, pair in enumerate(zip(blocks["on"], blocks["off"], strict=True), before):
            samples.add(framework, metric, number, value(*pair))


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the 90 % interval of the median."""
    drawn = random.Random(0)
    medians = sorted(statistics.median(drawn.choices(values, k=len(values))) for _ in range(1000))
    return medians[50], medians[949]


def judge(samples: Samples) -> list[Goal]:
    goals = []
    for metric, limit in LIMITS.items():
        for framework in FRAMEWORKS:
            values = samples.values(framework, metric)
            seen, more = max(values), ""
            if metric in (COST, RATIO):
                seen, (low, high) = statistics.median(values), interval(values)
                more = f" ({rounded(low)} to {rounded(high)})"
            goal = f"{framework}: {metric} at most {limit:g}"
            goals.append(Goal(goal=goal, holds=seen <= limit, seen=f"{rounded(seen)}{more}"))
    return goals


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=120, help="of each program")
    parser.add_argument("--seconds", type=float, default=60.0, help="of a round of the cost")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="one round of ten seconds; written nowhere")
    asked = parser.parse_args(arguments)
    seconds, rounds = (10.0, 1) if asked.quick else (asked.seconds, asked.rounds)
    machine, samples = Machine.now(["torch", "paddlepaddle", "nbdist"]), Samples(unit="points, µs, ratio")
    print(machine.header())
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        for _ in range(rounds):
            for framework in FRAMEWORKS:
                measure_cost(home, seconds, framework, samples)
        for framework in FRAMEWORKS:
            measure_accuracy(home, asked.steps, framework, samples)
    rows, goals = samples.rows({}), judge(samples)
    lines = [
        [f"{row.case}, {row.metric}", *(f"{value:.4g}" for value in (row.median, row.maximum))]
        for row in rows
    ]
    print(table(["", "median", "most"], lines))
    print(*goals, sep="\n")
    settings = {"steps": asked.steps, "seconds": seconds, "rounds": rounds}
    write_results("steps", machine, rows, settings=settings, goals=goals, is_a_look=asked.quick)


if __name__ == "__main__":
    main()
