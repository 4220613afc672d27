"""Counts whole and torn saves of runs that are ended while they save: nbdist and torchrun.

    python benchmarks/endings.py [--rounds N] [--quick] [--at-once N]

Two ranks work until something ends them, and then write a file in parts of 64 kB, ten a second. Whole: the
file has all its parts. Torn: it has some. Runs are ended at the same time, since most of them only wait; a
program that saves nothing is ended alone, for its time.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from common import Goal, Machine, Samples, compile_nbdist, rounded, table, write_results

PART = 65_536
SECONDS = (0.1, 1.0, 5.0, 12.0, 25.0, 60.0)
# torchrun and the default of --grace: longer saves need a block that nbdist knows of
WITHIN_GRACE = 25.0
ROUNDS, AT_ONCE = 3, 12
READY_LIMIT = 120.0
LIMIT = 45  # seconds from the start, of the run's limit of time

FRAMEWORKS = {
    "": "",
    "torch": "import torch, torch.distributed as dist\ndist.init_process_group('gloo')\n",
    "paddle": "import paddle, paddle.distributed as dist\ndist.init_parallel_env()\n",
}
SAVE = """
import os, signal, sys, time
rank = os.environ["RANK"] if "RANK" in os.environ else os.environ["PADDLE_TRAINER_ID"]
def save():
    with open(f"saved-{{rank}}", "wb") as file:
        for part in range({parts}):
            file.write(b"x" * 65536)
            file.flush()
            time.sleep(0.1)
{join}
open(f"ready-{{rank}}", "w").close()
if rank == "1" and {fails}:
    while not os.path.exists("go"):
        time.sleep(0.05)
    raise ValueError("no data")
"""
WAYS = {
    "finally": "try:\n    while True: time.sleep(0.05)\nfinally:\n    save()\n",
    "handler": (
        "def leave(*_):\n    save()\n    os._exit(0)\n"
        "signal.signal(signal.SIGTERM, leave)\nwhile True: time.sleep(0.05)\n"
    ),
    "waits": "try:\n    dist.barrier()\nfinally:\n    save()\n",
    "block": "import nbdist\nwith nbdist.saving():\n    save()\nwhile True: time.sleep(0.05)\n",
    "nothing": "while True: time.sleep(0.05)\n",
}
NOTES = (
    "A save of 60 s is measured within nbdist.saving() alone; torchrun has no more than its 30 s.",
    "torchrun passes SIGTERM on, after which a program without a handler ends at once: its saves are in one.",
    "The rank that fails, fails by itself and saves nothing: one file of two is expected then.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    launcher: str
    end: str
    way: str
    framework: str
    seconds: float
    warm: bool = False

    @property
    def name(self) -> str:
        return f"{self.launcher}{' warm' if self.warm else ''}, {self.end}, {self.way}"

    @property
    def parts(self) -> int:
        return max(1, round(self.seconds * 10))

    @property
    def expected(self) -> int:
        return 0 if self.way == "nothing" else 1 if self.end == "failure" else 2


def cases() -> list[Case]:
    every = []
    for seconds in SECONDS:
        for framework in FRAMEWORKS:
            ways = ["block"] if seconds > WITHIN_GRACE else ["finally", "block"]
            for way in ways:
                for end in ("stop", "limit"):
                    every.append(
                        Case(launcher="nbdist", end=end, way=way, framework=framework, seconds=seconds)
                    )
            if seconds <= WITHIN_GRACE:
                # a rank that does not wait for the failed one gets SIGTERM, as from torchrun
                way = "waits" if framework else "handler"
                every.append(
                    Case(launcher="nbdist", end="failure", way=way, framework=framework, seconds=seconds)
                )
                for launcher in ("nbdist", "torchrun") if framework != "paddle" else ("nbdist",):
                    by_handler = Case(
                        launcher=launcher, end="SIGTERM", way="handler", framework=framework, seconds=seconds
                    )
                    every.append(by_handler)
                if framework:
                    every.append(
                        Case(
                            launcher="nbdist",
                            end="stop",
                            way="finally",
                            framework=framework,
                            seconds=seconds,
                            warm=True,
                        )
                    )
    return every


def command(case: Case, folder: Path) -> list[str]:
    if case.launcher == "torchrun":
        launcher = Path(sys.executable).parent / "torchrun"
        return [str(launcher), "--nproc-per-node", "2", "--master-port", str(free_port()), "program.py"]
    limit = ["--timeout", f"{LIMIT}s"] if case.end == "limit" else []
    return [sys.executable, "-m", "nbdist", "run", "-n", "2", "--no-check", *limit, "program.py"]


def free_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def run_one(case: Case, folder: Path) -> tuple[int, int, float]:
    """End one run; return its whole files, its torn ones, and the seconds to its end beyond the save."""
    folder.mkdir(parents=True)
    text = SAVE.format(parts=case.parts, join=FRAMEWORKS[case.framework], fails=case.end == "failure")
    (folder / "program.py").write_text(text + WAYS[case.way])
    environment = os.environ | {"NBDIST_HOME": str(folder / "home"), "OMP_NUM_THREADS": "1"}
    environment["NBDIST_WARM"] = "always" if case.warm else "off"
    process = subprocess.Popen(
        command(case, folder),
        cwd=folder,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        # a shell's background job ignores it, and so would the launcher
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    try:
        begun = time.monotonic()
        while len(list(folder.glob("ready-*"))) < 2 and time.monotonic() - begun < READY_LIMIT:
            time.sleep(0.05)
        if case.way == "block" and case.end != "limit":
            time.sleep(0.05)  # the save has begun
        asked = time.monotonic()
        if case.end == "failure":
            (folder / "go").touch()
        elif case.end == "SIGTERM":
            os.kill(process.pid, signal.SIGTERM)
        elif case.end == "stop":
            os.kill(process.pid, signal.SIGINT)
        process.wait(timeout=READY_LIMIT + case.seconds)
        took = time.monotonic() - asked
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    sizes = [file.stat().st_size for file in folder.glob("saved-*")]
    whole = sum(size == case.parts * PART for size in sizes)
    return whole, len(sizes) - whole, max(0.0, took - case.seconds)


def measure(
    rounds: int, at_once: int, chosen: Sequence[Case], scratch: Path
) -> tuple[Samples, dict[str, list[int]]]:
    counts: dict[str, list[int]] = {}
    with ThreadPoolExecutor(at_once) as pool:
        jobs = [
            (case, pool.submit(run_one, case, scratch / f"{turn}-{number}"))
            for turn in range(rounds)
            for number, case in enumerate(chosen)
        ]
        for done, (case, job) in enumerate(jobs, 1):
            whole, torn, _ = job.result()
            count = counts.setdefault(case.name, [0, 0, 0, 0])
            for place, value in enumerate((1, case.expected, whole, torn)):
                count[place] += value
            if whole < case.expected:
                print(f"  {case}: {whole} whole, {torn} torn", file=sys.stderr, flush=True)
            if not done % 20:
                print(f"{done} of {len(jobs)} runs", file=sys.stderr, flush=True)
    times = Samples()
    for turn in range(max(rounds, 3)):
        for end in ("stop", "SIGTERM"):
            for launcher in ("nbdist", "torchrun"):
                case = Case(launcher=launcher, end=end, way="nothing", framework="torch", seconds=0.0)
                times.add(case.name, "end", turn, run_one(case, scratch / f"alone-{turn}-{case.name}")[2])
    return times, counts


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"default: {ROUNDS}")
    parser.add_argument(
        "--at-once", type=int, default=AT_ONCE, help=f"runs beside each other; default: {AT_ONCE}"
    )
    parser.add_argument("--quick", action="store_true", help="one round of saves up to 12 s, for a look")
    flags = parser.parse_args(arguments)
    rounds = 1 if flags.quick else flags.rounds
    chosen = [case for case in cases() if not flags.quick or case.seconds <= SECONDS[3]]
    compile_nbdist()
    machine = Machine.now(("nbdist", "torch", "paddlepaddle"))
    with tempfile.TemporaryDirectory(prefix="bench-endings-") as scratch:
        times, counts = measure(rounds, flags.at_once, chosen, Path(scratch))
    lines = [[name, *map(str, count)] for name, count in counts.items()]
    stops = {name: times.median(name, "end") or 0.0 for name in times.cases()}
    lines_of_times = [[name, f"{seconds:.2f}"] for name, seconds in stops.items()]
    ours = [count for name, count in counts.items() if name.startswith("nbdist")]
    lost, torn = sum(count[1] - count[2] for count in ours), sum(count[3] for count in ours)
    goals = [
        Goal(goal="nbdist: no save is torn or cut", holds=lost + torn == 0, seen=f"{lost} lost, {torn} torn"),
        Goal(
            goal="a stop of ranks that save nothing is over within 2.5 s",
            holds=stops["nbdist, stop, nothing"] <= 2.5,
            seen=f"{rounded(stops['nbdist, stop, nothing'])} s (median)",
        ),
    ]
    print(
        f"{machine.header()}\n\n{table(['', 'runs', 'files', 'whole', 'torn'], lines)}\n\n"
        f"{table(['saves nothing', 'end (s)'], lines_of_times)}\n\n" + "\n".join(map(str, goals))
    )
    write_results(
        "endings",
        machine,
        times.rows({}),
        settings={"rounds": rounds, "seconds": list(SECONDS), "counts": counts},
        notes=NOTES,
        goals=goals,
        is_a_look=flags.quick or rounds < ROUNDS,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
