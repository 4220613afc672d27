"""Share of the time in which a sweep's places are in use, and its duration.

    python benchmarks/sweep.py [--points N] [--seconds S] [--rounds R] [--quick]

N points in two places of one rank each: by a sweep with ranks that are made ready beside the runs, by one
without, and by ``xargs -P 2 torchrun``. A point imports torch and makes an optimizer; then it waits for S
seconds, as one on a GPU leaves the processor free, or computes for S seconds of processor time.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path

from common import Goal, Machine, Samples, compile_nbdist, rounded, table, write_results

from nbdist import options, runner
from nbdist.runner.sweeps import start_sweep

PLACES = 2
WARM, COLD, TORCHRUN = "warm", "cold", "torchrun"
WAYS = (WARM, COLD, TORCHRUN)
WORK = {
    "waits": "time.sleep({seconds})",
    "computes": "end = imports + {seconds}\nwhile time.process_time() < end: torch.ones(64, 64).sum()",
}
USED, TOTAL = "at work", "in all"
EXIT, START, IMPORT = "exit", "start", "imports"
GAPS = (EXIT, START, IMPORT)
CPU = "CPU time of the imports"
GOAL = 0.9
ALL_POINTS, ROUNDS = 32, 3

PROGRAM = """
import time
import torch
torch.set_num_threads(1)
torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)
begun, imports = time.time(), time.process_time()
{work}
"""
SWEPT = """
import nbdist
nbdist.result(point=nbdist.params.point, begun=begun, ended=time.time(), imports=imports)
"""
ALONE = """
import json, sys
said = {"begun": begun, "ended": time.time(), "imports": imports}
open(f"{sys.argv[1]}-{sys.argv[2]}.json", "w").write(json.dumps(said))
"""

NOTES = (
    f"{USED}: the share of the time of both places, from the first line of the first program until all has "
    "ended, from behind the imports of a program until its end. "
    f"{TOTAL}: the seconds from the first line of the first program until all has ended.",
    f"{EXIT}, {START}, {IMPORT}: medians of the seconds in which a place does nothing, from a program's "
    "last line to the end of its run, to the start of the next run's ranks, to its program's first line "
    "behind the imports.",
    "Ranks that import beside a run need processor time: on a machine whose cores are busy, with other users "
    "or with the points themselves, they are ready later.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """Ended point: times of its process and program, and the CPU time of its imports."""

    started: float
    begun: float
    ended: float
    left: float
    imports: float


def measure(way: str, work: str, points: int, scratch: Path) -> dict[str, float]:
    program = PROGRAM.format(work=work)
    done = torchrun(program, points, scratch) if way == TORCHRUN else sweep(program, points, way == COLD)
    first, last = min(point.begun for point in done), max(point.left for point in done)
    figures = {
        USED: sum(point.ended - point.begun for point in done) / (PLACES * (last - first)),
        TOTAL: last - first,
        CPU: statistics.median(point.imports for point in done),
    }
    if way != TORCHRUN:
        gaps = [pair for place in places(done) for pair in pairwise(place)]
        figures[EXIT] = statistics.median(before.left - before.ended for before, _ in gaps)
        figures[START] = statistics.median(after.started - before.left for before, after in gaps)
        figures[IMPORT] = statistics.median(after.begun - after.started for _, after in gaps)
    return figures


def places(done: list[Point]) -> list[list[Point]]:
    """Return the points of each place in order: each went to the place free for the longest time."""
    places: list[list[Point]] = [[] for _ in range(PLACES)]
    for point in sorted(done, key=lambda point: point.started):
        min(places, key=lambda place: place[-1].left if place else 0.0).append(point)
    return places


def sweep(program: str, points: int, cold: bool) -> list[Point]:
    listed = ",".join(map(str, range(points)))
    line = f"--sweep point={listed} -n {PLACES} --each 1 --no-check {'--cold' if cold else ''}"
    plan = partial(runner.plan, cell=program + SWEPT, cwd=os.getcwd(), python_path=sys.path)
    handle = start_sweep(runner.plan_sweep(options.parse(line), plan))
    try:
        status = handle.wait()
    except BaseException:
        handle.stop()
        raise
    assert status == "finished", handle
    points = []
    for member in handle.runs:
        run, results = member.run, member.results
        values = {name: float(results[name]) for name in ("begun", "ended", "imports")}
        points.append(Point(started=run.started or 0.0, left=run.ended or 0.0, **values))
    return points


def torchrun(program: str, points: int, scratch: Path) -> list[Point]:
    """Run torchrun, without the times of processes, which nothing records."""
    script, at = scratch / "point.py", scratch / "point"
    script.write_text(program + ALONE)
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "1"]
    command = ["xargs", "-P", str(PLACES), "-n", "1", sys.executable, *launcher, str(script), str(at)]
    numbers = "\n".join(map(str, range(points)))
    subprocess.run(command, input=numbers, text=True, check=True, stderr=subprocess.DEVNULL)
    records = [json.loads(Path(f"{at}-{number}.json").read_text()) for number in range(points)]
    return [Point(started=record["begun"], left=record["ended"], **record) for record in records]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--points", type=int, default=ALL_POINTS, help=f"of each round; default: {ALL_POINTS}"
    )
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"default: {ROUNDS}")
    parser.add_argument("--seconds", type=float, default=5.0, help="of each point; default: 5")
    parser.add_argument("--quick", action="store_true", help="one round of 6 points, for a look")
    flags = parser.parse_args(arguments)
    points, rounds = (6, 1) if flags.quick else (flags.points, flags.rounds)
    compile_nbdist()
    machine = Machine.now(("nbdist", "torch"))
    shares, seconds = Samples(unit="share"), Samples()
    with tempfile.TemporaryDirectory(prefix="bench-sweep-") as scratch:
        os.environ["NBDIST_HOME"] = str(Path(scratch) / "home")
        for turn in range(rounds):
            for name, work in WORK.items():
                for way in WAYS:
                    print(f"round {turn + 1}: a point {name}, {way}", file=sys.stderr, flush=True)
                    program = work.format(seconds=flags.seconds)
                    for metric, value in measure(way, program, points, Path(scratch)).items():
                        (shares if metric == USED else seconds).add(f"{name}, {way}", metric, turn, value)
    lines = []
    for case in shares.cases():
        share, *times = [
            shares.median(case, USED),
            *(seconds.median(case, metric) for metric in (TOTAL, CPU, *GAPS)),
        ]
        figures = ["-" if value is None else f"{value:.2f}" for value in times]
        lines.append([case, f"{100 * (share or 0.0):.1f} %", *figures])
    goals = []
    for name in WORK:
        ratio = seconds.ratio(f"{name}, {WARM}", TOTAL, f"{name}, {TORCHRUN}") or 0.0
        goals.append(
            Goal(
                goal=f"where a point {name}: a sweep takes no longer than torchrun in as many places",
                holds=ratio <= 1,
                seen=f"{rounded(ratio)} of its time",
            )
        )
    used = shares.median(f"waits, {WARM}", USED) or 0.0
    goal = f"where a point waits: programs are at work for at least {100 * GOAL:.0f} % of the time"
    goals.append(Goal(goal=goal, holds=used >= GOAL, seen=f"{100 * used:.1f} %"))
    headings = ["", USED, f"{TOTAL} (s)", "imports (CPU s)", *(f"{gap} (s)" for gap in GAPS)]
    print(f"{machine.header()}\n\n{table(headings, lines)}\n\n" + "\n".join(map(str, goals)))
    baselines = {f"{name}, {WARM}": [f"{name}, {COLD}", f"{name}, {TORCHRUN}"] for name in WORK}
    write_results(
        "sweep",
        machine,
        [*shares.rows(baselines), *seconds.rows(baselines)],
        settings={"points": points, "rounds": rounds, "seconds": flags.seconds, "places": PLACES},
        notes=NOTES,
        goals=goals,
        is_a_look=flags.quick or points < ALL_POINTS or rounds < ROUNDS,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
