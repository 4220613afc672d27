"""Accuracy of the profile of a running program.

    python benchmarks/profiles.py [--quick]

Two ranks compute, reduce and sleep, and time that themselves; their shares are set beside those of ``nbdist
profile``, and its share of computing beside the operators' own times in torch.profiler, which the program
runs afterwards. The figures are the largest differences, in points.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from common import Goal, Machine, Samples, rounded, table, write_results

CASES = {"computing": (12, 0.002), "sleeping": (3, 0.03), "waiting for rank 1": (6, 0.004)}
"""Products of matrices in a step, and seconds of sleep."""
SECONDS, STEPS = 20.0, 60
PARTS = ("compute", "communication", "idle")
TIMERS, PROFILER = "program's timers", "torch.profiler"


def program(case: str) -> None:
    """Train on one rank, and write the shares of its time."""
    import torch
    import torch.distributed as dist

    dist.init_process_group()
    rank, (products, pause) = dist.get_rank(), CASES[case]
    if case.startswith("waiting"):
        products, pause = products * (1 + rank), pause * (1 + 5 * rank)
    tensor = torch.randn(500, 500)

    def step() -> list[float]:
        moments = [time.perf_counter()]
        for _ in range(products):
            torch.mm(tensor, tensor)
        moments.append(time.perf_counter())
        dist.all_reduce(tensor.mul_(0.5))
        moments.append(time.perf_counter())
        time.sleep(pause)
        moments.append(time.perf_counter())
        return [end - begin for begin, end in itertools.pairwise(moments)]

    folder = Path(os.environ["NBDIST_RANK_DIR"])
    times, more = [step()], torch.ones(1)
    (folder / "steps").touch()
    begun = time.monotonic()
    while more.item():
        times.append(step())
        more.fill_(float(time.monotonic() - begun < SECONDS))
        dist.broadcast(more, 0)
    sums = [sum(column) for column in zip(*times, strict=True)]
    truth = dict(zip(PARTS, (each / sum(sums) for each in sums), strict=True))
    begun = time.perf_counter()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as recorded:
        for _ in range(STEPS):
            step()
        whole = time.perf_counter() - begun
    own = sum(each.self_cpu_time_total for each in recorded.key_averages() if each.key.startswith("aten::"))
    truth["operators"] = own / 1e6 / whole
    (folder / "truth.json").write_text(json.dumps(truth))


def measure(home: Path, number: int, case: str, samples: Samples) -> None:
    name, environment = f"case{number}", os.environ | {"NBDIST_HOME": str(home)}
    command = [sys.executable, "-m", "nbdist"]
    run = subprocess.Popen([*command, "run", "-n", "2", "--name", name, __file__, case], env=environment)
    while len(list(home.glob(f"runs/*-{name}-*/ranks/*/steps"))) < 2:
        time.sleep(0.5)
    subprocess.run([*command, "profile", name, "--for", "4s"], env=environment, check=True)
    run.wait()
    (directory,) = home.glob(f"runs/*-{name}-*")
    for rank in json.loads((directory / "profile.json").read_text())["ranks"]:
        truth = json.loads((directory / f"ranks/{rank['rank']}/truth.json").read_text())
        shares = rank["parts"]
        apart = {part: 100 * abs(shares[part] - truth[part]) for part in PARTS}
        samples.add(case, TIMERS, rank["rank"], max(apart.values()))
        samples.add(case, PROFILER, rank["rank"], 100 * abs(shares["compute"] - truth["operators"]))
        print(case, rank["rank"], shares, truth, flush=True)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="written nowhere")
    asked = parser.parse_args(arguments)
    machine, samples = Machine.now(["torch", "nbdist"]), Samples(unit="points")
    print(machine.header())
    if importlib.util.find_spec("hta") is None:
        print("\n!!! HolisticTraceAnalysis is not installed: its figures are LEFT OUT !!!\n", file=sys.stderr)
    with tempfile.TemporaryDirectory() as folder:
        for number, case in enumerate(CASES):
            measure(Path(folder), number, case, samples)
    rows = samples.rows({})
    print(table(["", "most"], [[f"{row.case}, {row.metric}", f"{row.maximum:.2g}"] for row in rows]))
    most = max(row.maximum for row in rows)
    goals = [Goal(goal="any share at most 3 points", holds=most <= 3, seen=str(rounded(most)))]
    print(*goals, sep="\n")
    write_results(
        "profiles", machine, rows, settings={"seconds": SECONDS}, goals=goals, is_a_look=asked.quick
    )


if __name__ == "__main__":
    if "NBDIST_RANK_DIR" in os.environ:
        program(sys.argv[1])
    else:
        main()
