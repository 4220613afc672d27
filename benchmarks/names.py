"""Cost of an array from the notebook (`--push`), against ipyparallel's push, and of a state_dict from the
ranks (`--pull`).

    python benchmarks/names.py [--rounds N] [--megabytes N] [--quick]

Two ranks print when their first line runs and when they have read every byte of the array. ipyparallel's two
engines are there before the clock starts. A rank notes when it calls `nbdist.result`. The cases alternate
within each round.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from common import Goal, Machine, NotMeasured, Samples, compile_nbdist, spread, table, times, write_results

from nbdist import options, runner
from nbdist.warm.pool import Standby

PUSHED, PLAIN, PEER = "nbdist, --push", "nbdist, no names", "ipyparallel, push"
PULLED = "nbdist, --pull"
FILE = "a file, written"
FIRST, READ, WARM, BACK = "first line", "all of it read", "first line, warm", "pulled"
METRICS = (FIRST, READ, WARM, BACK)
LEAST_ROUNDS = 5
RANKS, MANY = 2, 8

TOUCH = """
import time
begun = time.time()
total = float(a.sum()) if "a" in globals() else 0.0
print(begun, time.time(), total, flush=True)
"""
HOLD = """
import os, time
total = float(a.sum())
print("holds", flush=True)
while not os.path.exists("go"):
    time.sleep(0.05)
"""
GIVE = """
import time, nbdist, torch
model = {{f"layer{{number}}": torch.ones({elements}) for number in range(100)}}
print(time.time(), flush=True)
nbdist.result(model=model)
"""
SMALL = {"lr": 0.1, "layers": [64] * 100, "name": "x" * 400}

NOTES = (
    "first line: from the call that plans the run until the first line of the last rank; the write is "
    "part of it. All of it read: until the last of two processes has summed the array. warm: ranks that have "
    "waited, with torch, and a dict of 1 kB. copies: the proportional sizes (Pss) of 8 ranks that have read "
    "the array, less those of 8 ranks without it, over the size of the array. pulled: from the call of "
    "nbdist.result in one rank that has waited, with torch, until the run has ended and a state_dict of the "
    "same size, of 100 tensors, is in the memory of the process that asks. A file, written: the array's "
    "bytes alone, which takes 0.1 s or 1 s on virtual machines that give free memory back to their host.",
)


def planned(
    names: dict[str, Any], cell: str, ranks: int, folder: Path, framework: str = "none"
) -> runner.Plan:
    push = f"--push {','.join(names)}" if names else ""
    return runner.plan(
        options.parse(f"-n {ranks} {push} --framework {framework} --no-check"),
        cell=cell,
        cwd=str(folder),
        namespace=runner.Namespace(values={"__name__": "__main__", **names}),
    )


def finished(handle: runner.RunHandle, ranks: int) -> list[list[float]]:
    """Return the numbers that each rank has printed in one line."""
    if handle.wait(120) != "finished":
        raise RuntimeError(handle.logs(0))
    return [[float(word) for word in handle.logs(rank).split()] for rank in range(ranks)]


def take_cold(samples: Samples, case: str, number: int, names: dict[str, Any], folder: Path) -> None:
    begun = time.time()
    handle = runner.start(planned(names, TOUCH, RANKS, folder), warm=False)
    reports = finished(handle, RANKS)
    if names and any(total != float(names["a"].sum()) for *_, total in reports):
        raise RuntimeError("a rank has read something else")
    samples.add(case, FIRST, number, max(first for first, *_ in reports) - begun)
    samples.add(case, READ, number, max(read for _, read, _ in reports) - begun)


def take_warm(samples: Samples, case: str, number: int, names: dict[str, Any], folder: Path) -> None:
    # as ranks are kept ready: with torch imported, and much of the standard library by it
    standby = Standby(planned({}, "", RANKS, folder, "torch"), idle=120.0)
    try:
        if not standby.wait_until_ready(60.0):
            raise RuntimeError(standby.gone)
        begun = time.time()
        plan = planned(names, TOUCH, RANKS, folder, "torch")
        directory = runner.store().create(plan.spec, plan.cell, plan.write_inputs)
        if problem := standby.go(directory, plan.environment):
            raise RuntimeError(problem)
        reports = finished(runner.RunHandle(directory), RANKS)
        samples.add(case, WARM, number, max(first for first, *_ in reports) - begun)
    finally:
        standby.leave()


def take_back(samples: Samples, number: int, megabytes: int, folder: Path) -> None:
    cell = GIVE.format(elements=megabytes * 2500)
    standby = Standby(planned({}, "", 1, folder, "torch"), idle=120.0)
    try:
        if not standby.wait_until_ready(60.0):
            raise RuntimeError(standby.gone)
        plan = planned({}, cell, 1, folder, "torch")
        directory = runner.store().create(plan.spec, plan.cell, plan.write_inputs)
        if problem := standby.go(directory, plan.environment):
            raise RuntimeError(problem)
        handle = runner.RunHandle(directory)
        [[called]] = finished(handle, 1)
        model = handle.results["model"]
        samples.add(PULLED, BACK, number, time.time() - called)
        if len(model) != 100 or any(float(tensor[-1]) != 1.0 for tensor in model.values()):
            raise RuntimeError("something else came back")
        shutil.rmtree(directory.rank(0).results)
    finally:
        standby.leave()


@contextmanager
def engines() -> Iterator[Any]:
    """Start ipyparallel's engines, and yield a view of them; None if it is not installed."""
    if find_spec("ipyparallel") is None:
        yield None
        return
    import ipyparallel

    with ipyparallel.Cluster(n=RANKS, log_level=40) as clients:
        clients.wait_for_engines(RANKS, timeout=60)
        view = clients[:]
        view.apply_sync(lambda: __import__("numpy").ones(3).sum())
        yield view


def take_peer(samples: Samples, number: int, array: np.ndarray[Any, Any], view: Any) -> None:
    begun = time.time()
    view.push({"a": array}, block=True)
    samples.add(PEER, FIRST, number, time.time() - begun)
    totals = view.apply_sync(lambda: float(globals()["a"].sum()))
    if any(total != float(array.sum()) for total in totals):
        raise RuntimeError("an engine has read something else")
    samples.add(PEER, READ, number, time.time() - begun)
    view.apply_sync(lambda: globals().pop("a") is None)


def take_file(samples: Samples, number: int, array: np.ndarray[Any, Any], folder: Path) -> None:
    """Measure the shortest possible push by a file on this machine."""
    begun = time.time()
    array.tofile(folder / "floor")
    samples.add(FILE, FIRST, number, time.time() - begun)
    (folder / "floor").unlink()


def pss_of(handle: runner.RunHandle) -> int:
    """Return the bytes of all ranks, with shared ones counted once."""
    total = 0
    for rank in handle.run.ranks:
        assert rank.process is not None
        for line in Path(f"/proc/{rank.process.pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                total += int(line.split()[1]) * 1024
    return total


def memory(array: np.ndarray[Any, Any], scratch: Path) -> float:
    """Return the memory that an array adds to 8 ranks, over its size."""
    held = []
    for given in (array, np.ones(1)):
        folder = Path(tempfile.mkdtemp(dir=scratch))
        handle = runner.start(planned({"a": given}, HOLD, MANY, folder), warm=False)
        deadline = time.monotonic() + 120
        while any("holds" not in handle.logs(rank) for rank in range(MANY)):
            if time.monotonic() > deadline or handle.run.state.terminal:
                raise RuntimeError(handle.logs(0))
            time.sleep(0.1)
        held.append(pss_of(handle))
        (folder / "go").touch()
        handle.wait(60)
    return (held[0] - held[1]) / array.nbytes


def measure(samples: Samples, array: np.ndarray[Any, Any], rounds: int, scratch: Path, view: Any) -> None:
    for number in range(rounds):
        cases: list[Callable[[], None]] = [
            lambda n=number: take_cold(samples, PUSHED, n, {"a": array}, scratch),  # type: ignore[misc]
            lambda n=number: take_cold(samples, PLAIN, n, {}, scratch),  # type: ignore[misc]
            lambda n=number: take_warm(samples, PUSHED, n, {"small": SMALL}, scratch),  # type: ignore[misc]
            lambda n=number: take_warm(samples, PLAIN, n, {}, scratch),  # type: ignore[misc]
            lambda n=number: take_back(samples, n, array.nbytes // 10**6, scratch),  # type: ignore[misc]
            lambda n=number: take_file(samples, n, array, scratch),  # type: ignore[misc]
        ]
        if view is not None:
            cases.append(lambda n=number: take_peer(samples, n, array, view))  # type: ignore[misc]
        print(f"round {number + 1}/{rounds}", file=sys.stderr, flush=True)
        for take in cases[:: 1 if number % 2 else -1]:
            take()


def judge(samples: Samples, held: float) -> list[Goal]:
    later = statistics.median(samples.differences(PUSHED, FIRST, PLAIN, FIRST))
    warm = statistics.median(samples.differences(PUSHED, WARM, PLAIN, WARM))
    back = statistics.median(samples.values(PULLED, BACK))
    # less what the start of ranks takes, which the engines have behind them
    more = samples.differences(PUSHED, READ, PLAIN, FIRST)
    peer = samples.median(PEER, READ)
    sooner = None if peer is None else peer / statistics.median(more)
    return [
        Goal(goal="the first line at most 0.6 s later", holds=later <= 0.6, seen=f"{later:.2f} s"),
        Goal(
            goal="read in all ranks 5 x sooner than with ipyparallel (without the start of the ranks)",
            holds=None if sooner is None else sooner >= 5,
            seen=times(sooner),
        ),
        Goal(goal="8 ranks hold at most 1.3 copies", holds=held <= 1.3, seen=f"{held:.2f} copies"),
        Goal(goal="pulled at most 0.8 s after the call", holds=back <= 0.8, seen=f"{back:.2f} s"),
        Goal(goal="1 kB adds at most 5 ms to a warm cell", holds=warm <= 0.005, seen=f"{1e3 * warm:.1f} ms"),
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9, help="default: 9")
    parser.add_argument("--megabytes", type=int, default=500, help="default: 500")
    parser.add_argument("--quick", action="store_true", help="one round, for a look")
    flags = parser.parse_args(arguments)
    rounds = 1 if flags.quick else flags.rounds
    compile_nbdist()
    machine = Machine.now(("nbdist", "torch", "numpy", "cloudpickle", "ipyparallel"))
    samples = Samples()
    array = np.ones(flags.megabytes * 125_000)
    with tempfile.TemporaryDirectory(prefix="bench-names-") as scratch, engines() as view:
        os.environ["NBDIST_HOME"] = str(Path(scratch) / "home")
        measure(samples, array, rounds, Path(scratch), view)
        held = memory(array, Path(scratch))
    goals = judge(samples, held)
    cases = samples.cases()
    lines = [[case, *(spread(samples.values(case, metric)) for metric in METRICS)] for case in sorted(cases)]
    print(f"{machine.header()}\n\n{table(['s: median (min-max)', *METRICS], lines)}\n")
    print("\n".join(map(str, goals)))
    missing = [] if PEER in cases else [NotMeasured(case=PEER, reason="it is not installed")]
    write_results(
        "names",
        machine,
        samples.rows({PUSHED: [PLAIN, PEER]}),
        settings={"rounds": rounds, "megabytes": flags.megabytes, "ranks": RANKS, "copies": round(held, 2)},
        not_measured=missing,
        notes=NOTES,
        goals=goals,
        is_a_look=rounds < LEAST_ROUNDS,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
