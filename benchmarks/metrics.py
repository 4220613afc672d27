"""Cost of a scalar for a rank: nbdist, and other writers.

    python benchmarks/metrics.py [--rounds N] [--quick] [--only "case;case"] [--points N]

This module alone decides how rounds are taken, what is compared with what, and whether the goals hold.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

from common import Goal, Machine, NotMeasured, Row, Samples, spread, table, without_paths, write_results
from metrics_cases import CASES, Case

LEAST_ROUNDS = 3
LIMIT = 300.0
MOST_MICROSECONDS = 10.0
PACKAGES = ("nbdist", "visualdl", "torch", "tensorboard", "wandb")

CALL, ALL, OPEN, MEMORY, BYTES, LOST = "call", "call_and_close", "open", "memory", "bytes", "lost_at_kill"
UNITS = {CALL: "us", ALL: "us", OPEN: "ms", MEMORY: "MB", BYTES: "bytes", LOST: "points"}

NOTES = (
    "call is the time that the program waits for one point; call_and_close also what is left to do "
    "when the writer is closed, for each point.",
    "open is the import and the first writer, and memory what they take; torch's includes torch itself, "
    "which the program has anyway.",
    "bytes is what lies on disk for each point after the close; values in nbdist's file are doubles, "
    "in the others' floats of 32 bits.",
    "lost_at_kill is how many of the points are in no file when the process gets SIGKILL right after "
    "the last of them. wandb's format is not read here.",
    "visualdl.LogWriter, in a rank: as nbdist changes it, with a copy of each point in nbdist's file.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Options of the command line."""

    cases: tuple[Case, ...]
    rounds: int
    points: int
    asked_in_full: bool

    @property
    def is_a_look(self) -> bool:
        """Return whether this is too little to replace the recorded measurement."""
        return self.rounds < LEAST_ROUNDS or not self.asked_in_full


@dataclass(slots=True)
class Outcome:
    """Figures of the rounds by metric, and reasons for missing ones."""

    samples: dict[str, Samples] = field(
        default_factory=lambda: {metric: Samples(unit=unit) for metric, unit in UNITS.items()}
    )
    reasons: dict[str, str] = field(default_factory=dict)

    def add(self, case: Case, metric: str, round_number: int, value: float) -> None:
        self.samples[metric].add(case.name, metric, round_number, value)

    def rows(self) -> list[Row]:
        against = {case.name: ["visualdl.LogWriter"] for case in CASES}
        return [row for samples in self.samples.values() for row in samples.rows(against)]

    def not_measured(self) -> list[NotMeasured]:
        return [NotMeasured(case=case, reason=reason) for case, reason in self.reasons.items()]


def measure(settings: Settings, scratch: Path) -> Outcome:
    outcome = Outcome()
    for case in settings.cases:
        if find_spec(case.module) is None:
            outcome.reasons[case.name] = f"not available here: no module {case.module}"
    cases = [case for case in settings.cases if case.name not in outcome.reasons]
    for round_number in range(settings.rounds):
        # each round starts with another case, so that none always follows the same one
        start = round_number % len(cases) if cases else 0
        for case in cases[start:] + cases[:start]:
            print(f"round {round_number + 1}/{settings.rounds}: {case.name}", file=sys.stderr, flush=True)
            directory = scratch / f"{round_number}-{CASES.index(case)}"
            try:
                take(case, settings.points, round_number, directory, outcome)
            except (OSError, ValueError, subprocess.SubprocessError) as failure:
                outcome.reasons[case.name] = without_paths(str(failure), directory, scratch)
    return outcome


def take(case: Case, points: int, round_number: int, directory: Path, outcome: Outcome) -> None:
    closed = run(case, directory / "closed", points, "close")
    outcome.add(case, CALL, round_number, closed["calls"] / points * 1e6)
    outcome.add(case, ALL, round_number, closed["all"] / points * 1e6)
    outcome.add(case, OPEN, round_number, closed["opened"] * 1000)
    outcome.add(case, MEMORY, round_number, closed["memory"])
    outcome.add(case, BYTES, round_number, size(directory / "closed") / points)
    if case.count is not None:
        few = min(points, 1000)
        run(case, directory / "killed", few, "kill")
        outcome.add(case, LOST, round_number, few - max(0, case.count(directory / "killed")))


def run(case: Case, directory: Path, points: int, end: str) -> dict[str, float]:
    """Run a case in a fresh process with the environment of a rank."""
    rank = directory / "ranks" / "0"
    rank.mkdir(parents=True)
    (directory / "board").mkdir()
    environment = {
        **os.environ,
        "NBDIST_RUN_DIR": str(directory),
        "NBDIST_RANK_DIR": str(rank),
        "NBDIST_RANK": "0",
        "WANDB_SILENT": "true",
    }
    program = Path(__file__).with_name("metrics_cases.py")
    command = [sys.executable, str(program), case.name, str(directory), str(points), end]
    done = subprocess.run(
        command, env=environment, cwd=directory, capture_output=True, text=True, timeout=LIMIT
    )
    if done.returncode != (0 if end == "close" else -signal.SIGKILL):
        raise ValueError(f"exit {done.returncode}: {done.stderr.strip()[-300:]}")
    result: dict[str, float] = json.loads(done.stdout.strip().splitlines()[-1])
    return result


def size(directory: Path) -> int:
    """Return the bytes of all files."""
    return sum(file.stat().st_size for file in directory.rglob("*") if file.is_file())


def judge(outcome: Outcome) -> list[Goal]:
    calls = outcome.samples[CALL].values("nbdist.log", CALL)
    lost = outcome.samples[LOST].values("nbdist.log", LOST)
    return [
        Goal(
            goal=f"nbdist.log takes at most {MOST_MICROSECONDS:g} us a scalar",
            holds=statistics.median(calls) <= MOST_MICROSECONDS if calls else None,
            seen=f"{spread(calls)} us",
        ),
        Goal(
            goal="a killed rank has lost no point of nbdist.log",
            holds=max(lost) == 0 if lost else None,
            seen=f"{max(lost):g} lost" if lost else "not measured",
        ),
    ]


def report(outcome: Outcome, goals: Sequence[Goal]) -> str:
    cases = outcome.samples[CALL].cases()
    lines = [
        [case, *(spread(outcome.samples[metric].values(case, metric)) for metric in UNITS)] for case in cases
    ]
    headings = ["median (min-max)", *(f"{metric} [{unit}]" for metric, unit in UNITS.items())]
    parts = [table(headings, lines)] if lines else []
    rates = [
        [case, f"{1e6 / statistics.median(outcome.samples[CALL].values(case, CALL)):,.0f}"] for case in cases
    ]
    parts += [table(["points a second, before the close", ""], rates)] if rates else []
    if outcome.reasons:
        missing = "\n".join(f"  {case}: {reason}" for case, reason in outcome.reasons.items())
        parts.append(f"Not measured:\n{missing}")
    parts.append("Notes:\n" + "\n".join(f"  {note}" for note in NOTES))
    parts.append("Goals:\n" + "\n".join(f"  {goal}" for goal in goals))
    return "\n\n".join(parts)


def parse(arguments: Sequence[str] | None) -> Settings:
    names = [case.name for case in CASES]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7, help="default: 7")
    parser.add_argument("--points", type=int, default=100_000, help="of each case and round; default: 100000")
    parser.add_argument("--quick", action="store_true", help="one round of fewer points, for a look")
    parser.add_argument("--only", metavar="CASE;CASE", help="; ".join(names))
    flags = parser.parse_args(arguments)
    chosen = names if flags.only is None else flags.only.split(";")
    unknown = [name for name in chosen if name not in names]
    if unknown:
        parser.error(f"no case {', '.join(unknown)}: there are {'; '.join(names)}")
    if min(flags.rounds, flags.points) < 1:
        parser.error("less than one round or point measures nothing")
    return Settings(
        cases=tuple(case for case in CASES if case.name in chosen),
        rounds=1 if flags.quick else flags.rounds,
        points=min(flags.points, 10_000) if flags.quick else flags.points,
        asked_in_full=flags.only is None,
    )


def main(arguments: Sequence[str] | None = None) -> int:
    settings = parse(arguments)
    machine = Machine.now(PACKAGES)
    with tempfile.TemporaryDirectory(prefix="bench-metrics-") as scratch:
        outcome = measure(settings, Path(scratch))
    goals = judge(outcome)
    print(f"{machine.header()}\n\n{report(outcome, goals)}")
    if not outcome.samples[CALL]:
        return 1
    write_results(
        "metrics",
        machine,
        outcome.rows(),
        settings={"rounds": settings.rounds, "points": settings.points},
        not_measured=outcome.not_measured(),
        notes=NOTES,
        goals=goals,
        is_a_look=settings.is_a_look,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
