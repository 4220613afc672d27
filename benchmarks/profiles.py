"""Accuracy of the profile of a running program.

    python benchmarks/profiles.py [--quick] [--traces FOLDER]

Two ranks compute, reduce and sleep, and time that themselves; the shares of ``nbdist profile`` stand beside
theirs in the same window. Afterwards they run torch.profiler, whose trace nbdist divides, too: its share of
computing stands beside the operators' own times there. The figures are the largest differences, in points.

HolisticTraceAnalysis divides the time of GPUs alone. Where it is installed, ``--traces`` names a folder with
traces of GPUs (``*.json.gz``, of Kineto), and its share of computing stands beside nbdist's.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from common import Goal, Machine, Samples, rounded, table, write_results

from nbdist.feed.profile import _changes, _divided

CASES = {"computing": (12, 0.002), "sleeping": (3, 0.03), "waiting for rank 1": (6, 0.004)}
"""Products of matrices in a step, and seconds of sleep."""
SECONDS, STEPS = 20.0, 60
MEASURED = ("compute", "communication", "idle")
TIMERS, PROFILER, HTA = "program's timers", "torch.profiler", "HTA"


def program(case: str) -> None:
    """Train on one rank, and write the shares of its time."""
    import torch
    import torch.distributed as dist

    dist.init_process_group()
    rank, (products, pause) = dist.get_rank(), CASES[case]
    if case.startswith("waiting"):
        products, pause = products * (1 + rank), pause * (1 + 5 * rank)
    tensor, more, end = torch.randn(500, 500), torch.ones(1), time.monotonic() + SECONDS

    def step() -> list[float]:
        moments = [time.time()]
        for _ in range(products):
            torch.mm(tensor, tensor)
        tensor.mul_(0.5)
        more.fill_(float(time.monotonic() < end))
        moments.append(time.time())
        dist.all_reduce(tensor)
        dist.broadcast(more, 0)
        moments.append(time.time())
        time.sleep(pause)
        return [*moments, time.time()]

    folder = Path(os.environ["NBDIST_RANK_DIR"])
    steps = [step()]
    (folder / "steps").touch()
    while more.item():
        steps.append(step())
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as recorded:
        for _ in range(STEPS):
            step()
    recorded.export_chrome_trace(str(folder / "theirs.json"))
    own = sum(each.self_cpu_time_total for each in recorded.key_averages() if each.key.startswith("aten::"))
    (folder / "truth.json").write_text(json.dumps({"steps": steps, "operators": own / 1e6}))


def events_of(trace: Any) -> list[dict[str, Any]]:
    return [event for event in trace["traceEvents"] if event.get("ph") == "X"]


def measure(home: Path, number: int, case: str, samples: Samples) -> None:
    name, environment = f"case{number}", os.environ | {"NBDIST_HOME": str(home)}
    command = [sys.executable, "-m", "nbdist"]
    run = subprocess.Popen([*command, "run", "-n", "2", "--name", name, __file__, case], env=environment)
    while len(list(home.glob(f"runs/*-{name}-*/ranks/*/steps"))) < 2:
        time.sleep(0.5)
    subprocess.run([*command, "profile", name, "--for", "4s"], env=environment, check=True)
    run.wait()
    (directory,) = home.glob(f"runs/*-{name}-*")
    trace = json.loads(gzip.decompress((directory / "profile.trace.json.gz").read_bytes()))
    spans = [each for each in events_of(trace) if each.get("cat") == "Trace"]
    base = trace["baseTimeNanoseconds"] / 1e9
    begin = base + max(span["ts"] for span in spans) / 1e6
    end = base + min(span["ts"] + span["dur"] for span in spans) / 1e6
    for rank in json.loads((directory / "profile.json").read_text())["ranks"]:
        folder = directory / "ranks" / str(rank["rank"])
        truth, theirs = (json.loads((folder / f"{n}.json").read_text()) for n in ("truth", "theirs"))
        for number, part in enumerate(MEASURED):
            spent = (min(end, step[number + 1]) - max(begin, step[number]) for step in truth["steps"])
            share = sum(seconds for seconds in spent if seconds > 0) / (end - begin)
            samples.add(case, TIMERS, rank["rank"], 100 * abs(rank["parts"][part] - share))
        changes = _changes(events_of(theirs))
        seconds = changes[-1][0] - changes[0][0]
        parts = _divided(0, changes, changes[0][0], seconds, 1).parts
        samples.add(case, PROFILER, rank["rank"], 100 * abs(parts["compute"] - truth["operators"] / seconds))


def measure_traces(folder: Path, samples: Samples) -> None:
    """Compare with HTA, which leaves steps out that are not complete, and rounds to microseconds."""
    from hta.trace_analysis import TraceAnalysis

    for path in sorted(folder.glob("*.json.gz")):
        analysis = TraceAnalysis(trace_files={0: str(path)}, trace_dir=str(folder))
        table = analysis.t.get_trace(0)
        kernels = table[table["stream"].ne(-1)]
        theirs = analysis.get_temporal_breakdown(visualize=False).iloc[0]
        begin, seconds = (kernels.ts.min() + analysis.t.min_ts) / 1e6, theirs["kernel_time(us)"] / 1e6
        changes = _changes(events_of(json.loads(gzip.decompress(path.read_bytes()))))
        within = [(min(max(at, begin), begin + seconds), *change) for at, *change in changes]
        parts = _divided(0, within, begin, seconds, 1).parts
        share = 100 * (parts["compute"] + parts["overlapped"])
        samples.add(path.name.partition(".json")[0], HTA, 0, abs(share - theirs["compute_time_pctg"]))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="written nowhere")
    parser.add_argument("--traces", type=Path, help="a folder of traces, for HolisticTraceAnalysis")
    asked = parser.parse_args(arguments)
    machine, samples = Machine.now(["torch", "nbdist"]), Samples(unit="points")
    print(machine.header())
    if asked.traces is not None:
        measure_traces(asked.traces, samples)
    with tempfile.TemporaryDirectory() as folder:
        for number, case in enumerate(CASES):
            measure(Path(folder), number, case, samples)
    rows = samples.rows({})
    print(table(["", "most"], [[f"{row.case}, {row.metric}", f"{row.maximum:.2g}"] for row in rows]))
    most = max(row.maximum for row in rows if row.metric != HTA)
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
