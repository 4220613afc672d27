"""Processes left behind when something ends a run, and seconds until the cell is free: nbdist, its peers.

    python benchmarks/faults.py [--rounds N] [--quick] [--only case,case] [--cost | --no-cost]

Two ranks with two DataLoader workers each wait in a collective for rank 1, which is stuck or raises. Then the
kernel is interrupted, restarted or killed, or the launcher is killed. The second table is the price of
nbdist's answer: CPU and memory of a run's reaper and supervisor, by number of ranks.

This module alone decides what counts as left behind, and whether the goals hold.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from common import Goal, Machine, NotMeasured, Row, Samples, spread, table, without_paths, write_results
from fault_cases import CASES, RAISES, STUCK, FaultCase, FaultSite
from kernels import CellFailed, Kernel, Submission
from launch_cases import RANKS

LEAST_ROUNDS = 3
PACKAGES = (
    "nbdist",
    "torch",
    "paddlepaddle",
    "ipykernel",
    "jupyter_client",
    "accelerate",
    "nbdistributed",
    "jupyter-distributed",
)
INTERRUPT, RESTART, KERNEL_KILLED = "interrupt", "restart", "kernel_killed"
LAUNCHER_KILLED, RANK_RAISES = "launcher_killed", "rank_raises"
FAULTS = (INTERRUPT, RESTART, KERNEL_KILLED, LAUNCHER_KILLED, RANK_RAISES)
# only the cell is over then: workers that are meant to live on are not left behind
ENDS_A_CELL = (INTERRUPT, RANK_RAISES)
SETTLING = 5.0
LIMIT = 40.0
SECONDS_TO_START = 90.0

RANK_NUMBERS = (2, 8, 64, 256)
QUIET = "import time\nprint('ready')\ntime.sleep(3600)"
PRINTING = "import time\nprint('ready')\nwhile True:\n    print('step 1, loss 0.5')\n    time.sleep(0.1)"
# the first seconds of a run are its start: what it costs to keep is measured after them
COST_SETTLING = 12.0
COST_WINDOW = 10.0

NOTES = (
    "Left: processes that came of the cell and still run 5 s after the cell was free again (after the "
    "fault where nothing becomes free; after 40 s where the cell never became free). The kernel and "
    "the server are not counted, nor is what nbdistributed and jupyter-distributed keep for the next "
    "cell (a process for each rank) when only a cell has ended.",
    "Free: seconds from the fault until the kernel is idle, for a restart until the new kernel "
    "answers; 40 stands for never within 40 s.",
    "The launcher is the parent of rank 0: torchrun's agent, nbdist's supervisor. Where the kernel "
    "itself is the launcher there is no figure: kernel_killed is that figure.",
    "A kernel is restarted as a notebook does it: asked to end, killed when it does not.",
    "Cost: CPU seconds per second and memory (PSS) of reaper and supervisor together, over 10 s after 12 s "
    "of running. "
    "Each rank is a Python process that sleeps, or prints 10 lines a second.",
)


class NoSuchFault(Exception):
    """This fault cannot happen to this launcher; the text is the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Options of the command line."""

    cases: tuple[FaultCase, ...]
    rounds: int
    faults: bool
    cost: bool

    @property
    def is_a_look(self) -> bool:
        """Return whether this is too little to replace the recorded measurement."""
        return self.rounds < LEAST_ROUNDS or self.cases != CASES or not (self.faults and self.cost)


@dataclass(slots=True)
class Outcome:
    """Figures of the rounds by unit, and reasons for missing ones."""

    left: Samples = field(default_factory=lambda: Samples(unit="processes"))
    free: Samples = field(default_factory=Samples)
    cpu: Samples = field(default_factory=lambda: Samples(unit="CPU s/s"))
    memory: Samples = field(default_factory=lambda: Samples(unit="MB"))
    reasons: dict[str, list[str]] = field(default_factory=dict)

    def failed(self, case: str, reason: str) -> None:
        known = self.reasons.setdefault(case, [])
        if reason not in known:
            known.append(reason)

    def not_measured(self) -> list[NotMeasured]:
        return [NotMeasured(case=case, reason="; ".join(reasons)) for case, reasons in self.reasons.items()]

    def rows(self) -> list[Row]:
        against = {case: ["!torchrun"] for case in self.left.cases()}
        first = [f"{RANK_NUMBERS[0]} ranks, {how}" for how in ("quiet", "printing")]
        costs = {case: [base for base in first if base.split()[-1] in case] for case in self.cpu.cases()}
        return [
            *self.left.rows({}),
            *self.free.rows(against),
            *self.cpu.rows(costs),
            *self.memory.rows(costs),
        ]


def measure_faults(settings: Settings, outcome: Outcome, scratch: Path) -> None:
    cases = [case for case in settings.cases if available(case, outcome)]
    for round_number in range(settings.rounds):
        for fault in FAULTS:
            for case in cases:
                say(f"round {round_number + 1}/{settings.rounds}: {fault}, {case.name}")
                directory = scratch / f"{round_number}-{fault}-{CASES.index(case)}"
                try:
                    left, free = history(case, fault, directory)
                except NoSuchFault as why:
                    outcome.failed(f"{case.name}, {fault}", str(why))
                except (CellFailed, OSError) as failure:
                    outcome.failed(f"{case.name}, {fault}", without_paths(str(failure), directory, scratch))
                    say(f"  failed: {failure}")
                else:
                    say(f"  left {left}, free after {free and round(free, 2)} s")
                    outcome.left.add(case.name, fault, round_number, left)
                    if free is not None:
                        outcome.free.add(case.name, fault, round_number, free)


def available(case: FaultCase, outcome: Outcome) -> bool:
    missing = case.missing()
    if missing:
        outcome.failed(case.name, f"not available here: no module {', '.join(missing)}")
    return not missing


def history(case: FaultCase, fault: str, directory: Path) -> tuple[int, float | None]:
    """Return the history of one fault in a fresh kernel: processes left behind, seconds until the cell was
    free.

    The seconds are None where no cell can become free (the kernel is gone).
    """
    directory.mkdir()
    kernel = case.kernel(directory)
    try:
        if case.prepare is not None:
            kernel.run([case.prepare], seconds=SECONDS_TO_START)
        before = set(kernel.processes())
        if case.start:
            kernel.run(case.start, seconds=SECONDS_TO_START)
        site = FaultSite.at(directory / "cell", RAISES if fault == RANK_RAISES else STUCK)
        submission = kernel.send(case.cells(site), seconds=SECONDS_TO_START + LIMIT)
        ranks = site.wait_for_ranks(SECONDS_TO_START)
        ranks_now = {pid for pid, _ in ranks.values()}
        happened = ranks[1][1] if fault == RANK_RAISES else time.time()
        free = strike(kernel, fault, ranks[0][0], submission, happened)
        not_left = before | set(kernel.kernel_processes())
        pause_until(time.time() + SETTLING if free is None or free < LIMIT else 0.0)
        not_left |= set(kernel.kernel_processes())
        return (
            sum(
                process not in not_left
                and not (case.resident and fault in ENDS_A_CELL and process.pid in ranks_now)
                for process in kernel.processes()
            ),
            free,
        )
    finally:
        kernel.end()


def strike(kernel: Kernel, fault: str, rank_0: int, submission: Submission, happened: float) -> float | None:
    """Cause the fault; return the seconds until the cell was free again."""
    match fault:
        case "restart":
            kernel.restart(seconds=LIMIT)
            return time.time() - happened
        case "kernel_killed":
            for process in kernel.kernel_processes():
                process.kill()
            return None
        case "interrupt":
            kernel.interrupt()
        case "launcher_killed":
            launcher_of(rank_0, kernel).kill()
    submission.seconds = LIMIT
    with contextlib.suppress(CellFailed):
        return min(LIMIT, submission.finish().idle - happened)
    # an error frees the cell as well as success does
    return min(LIMIT, time.time() - happened) if submission.error is not None else LIMIT


def launcher_of(rank: int, kernel: Kernel) -> psutil.Process:
    """Return the parent of a rank. Raises NoSuchFault for the kernel."""
    launcher = psutil.Process(rank).parent()
    if launcher is None or launcher in kernel.kernel_processes():
        raise NoSuchFault("the kernel itself is the launcher: see kernel_killed")
    return launcher


def pause_until(moment: float) -> None:
    time.sleep(max(0.0, moment - time.time()))


def measure_cost(settings: Settings, outcome: Outcome, scratch: Path) -> None:
    """Measure without a kernel: the supervisor does not know its starter."""
    os.environ["NBDIST_HOME"] = str(scratch / "cost")
    for round_number in range(settings.rounds):
        for number in RANK_NUMBERS:
            for how, program in (("quiet", QUIET), ("printing", PRINTING)):
                case = f"{number} ranks, {how}"
                say(f"round {round_number + 1}/{settings.rounds}: {case}")
                try:
                    cpu, memory = cost(number, program, scratch)
                except (CellFailed, OSError) as failure:
                    outcome.failed(case, without_paths(str(failure), scratch))
                    continue
                say(f"  {cpu:.4f} CPU s/s, {memory:.1f} MB")
                outcome.cpu.add(case, "supervisor_cpu", round_number, cpu)
                outcome.memory.add(case, "supervisor_pss", round_number, memory)


def cost(number: int, program: str, scratch: Path) -> tuple[float, float]:
    """Return CPU seconds per second, and MB, of the reaper and the supervisor of a run."""
    from nbdist import options, runner

    parsed = options.parse(f"-n {number} -d --framework none --name cost")
    handle = runner.start(runner.plan(parsed, cell=program, cwd=str(scratch)))
    try:
        wait_until(lambda: all(handle.logs(rank) for rank in range(number)), SECONDS_TO_START)
        pause_until(time.time() + COST_SETTLING)
        supervisor = handle.run.supervisor
        assert supervisor is not None, "a run whose ranks have spoken has a supervisor"
        processes = [psutil.Process(supervisor.pid)]
        processes += [parent for parent in [processes[0].parent()] if parent is not None]
        began, before = time.monotonic(), sum(map(cpu_seconds, processes))
        pause_until(time.time() + COST_WINDOW)
        spent = sum(map(cpu_seconds, processes)) - before
        elapsed = time.monotonic() - began
        memory = sum(process.memory_full_info().pss for process in processes)
        return spent / elapsed, memory / 1e6
    finally:
        handle.stop("measured", timeout=60)


def wait_until(condition: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise CellFailed(f"not all ranks had started after {seconds:g} s")
        time.sleep(0.1)


def cpu_seconds(process: psutil.Process) -> float:
    taken = process.cpu_times()
    return float(taken.user + taken.system)


def judge(outcome: Outcome) -> list[Goal]:
    goals = []
    for fault in FAULTS:
        left = outcome.left.values("nbdist", fault)
        goals.append(
            Goal(
                goal=f"nbdist leaves nothing after {fault}",
                holds=not any(left) if left else None,
                seen=f"at most {max(left):g} in {len(left)} rounds" if left else "not measured",
            )
        )
    for how in ("quiet", "printing"):
        few, many = (f"{number} ranks, {how}" for number in (RANK_NUMBERS[0], RANK_NUMBERS[-1]))
        goals.append(per_rank(outcome.cpu, "supervisor_cpu", few, many, "CPU"))
        goals.append(per_rank(outcome.memory, "supervisor_pss", few, many, "memory"))
    return goals


def per_rank(samples: Samples, metric: str, few: str, many: str, what: str) -> Goal:
    words = f"a supervisor's {what} per rank does not grow from {few} to {many}"
    medians: Mapping[str, float | None] = {case: samples.median(case, metric) for case in (few, many)}
    least, most = medians[few], medians[many]
    if least is None or most is None:
        return Goal(goal=words, holds=None, seen="not measured")
    each = [value / int(case.split()[0]) for case, value in ((few, least), (many, most))]
    seen = f"{each[0]:.4g} and {each[1]:.4g} {samples.unit} a rank"
    return Goal(goal=words, holds=each[1] <= each[0], seen=seen)


def report(outcome: Outcome, goals: Sequence[Goal]) -> str:
    parts = []
    if outcome.left:
        parts += [fault_table("processes left", outcome.left), fault_table("seconds to free", outcome.free)]
    if outcome.cpu:
        parts.append(cost_table(outcome))
    if missing := outcome.not_measured():
        parts.append("Not measured:\n" + "\n".join(f"  {gap.case}: {gap.reason}" for gap in missing))
    parts.append("Notes:\n" + "\n".join(f"  {note}" for note in NOTES))
    parts.append("Goals:\n" + "\n".join(f"  {goal}" for goal in goals))
    return "\n\n".join(parts)


def fault_table(what: str, samples: Samples) -> str:
    lines = [[case, *(in_short(samples.values(case, fault)) for fault in FAULTS)] for case in samples.cases()]
    return table([f"{what}: median (min-max)", *(fault.replace("_", " ") for fault in FAULTS)], lines)


def in_short(values: Sequence[float]) -> str:
    """Return `spread`, or one number if all are equal."""
    return f"{statistics.median(values):.3g}" if len(set(values)) == 1 else spread(values)


def cost_table(outcome: Outcome) -> str:
    lines = [
        [
            case,
            "".join(f"{v * 1000:.2f}" for v in [outcome.cpu.median(case, "supervisor_cpu")] if v is not None),
            spread(outcome.memory.values(case, "supervisor_pss")),
        ]
        for case in outcome.cpu.cases()
    ]
    return table(["reaper and supervisor", "CPU ms per second", "MB: median (min-max)"], lines)


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def parse(arguments: Sequence[str] | None) -> Settings:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=LEAST_ROUNDS, help=f"default: {LEAST_ROUNDS}")
    parser.add_argument("--quick", action="store_true", help="one round, for a look")
    parser.add_argument("--only", metavar="CASE,CASE", help=", ".join(c.name for c in CASES))
    part = parser.add_mutually_exclusive_group()
    part.add_argument("--cost", action="store_true", help="the supervisor's CPU and memory alone")
    part.add_argument("--no-cost", action="store_true", help="the faults alone")
    flags = parser.parse_args(arguments)
    names = [case.name for case in CASES] if flags.only is None else flags.only.split(",")
    unknown = [name for name in names if name not in [case.name for case in CASES]]
    if unknown:
        parser.error(f"no case {', '.join(unknown)}: there are {', '.join(case.name for case in CASES)}")
    if flags.rounds < 1:
        parser.error(f"{flags.rounds} rounds measure nothing: ask for 1 or more")
    return Settings(
        cases=tuple(case for case in CASES if case.name in names),
        rounds=1 if flags.quick else flags.rounds,
        faults=not flags.cost,
        cost=not flags.no_cost,
    )


def main(arguments: Sequence[str] | None = None) -> int:
    settings = parse(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that kernels are ended first
    machine = Machine.now(PACKAGES)
    outcome = Outcome()
    with tempfile.TemporaryDirectory(prefix="bench-faults-") as scratch:
        if settings.faults:
            measure_faults(settings, outcome, Path(scratch))
        if settings.cost:
            measure_cost(settings, outcome, Path(scratch))
    goals = judge(outcome)
    print(f"{machine.header()}\n\n{report(outcome, goals)}")
    if not outcome.left and not outcome.cpu:
        return 1
    write_results(
        "faults",
        machine,
        outcome.rows(),
        settings={"rounds": settings.rounds, "ranks": RANKS, "settling": SETTLING, "limit": LIMIT},
        not_measured=outcome.not_measured(),
        notes=NOTES,
        goals=goals,
        is_a_look=settings.is_a_look,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
