"""Seconds until a cell has become ranks: nbdist, its peers, and the limit.

    python benchmarks/launch.py [--ranks N] [--rounds N] [--quick] [--only case,case]

This module alone decides how rounds are taken, what is compared with what, and whether the goals hold.
Seconds run from sending the cell to a real kernel; ranks stamp the same clock themselves.
"""

from __future__ import annotations

import argparse
import signal
import statistics
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from common import (
    Goal,
    Machine,
    NotMeasured,
    Samples,
    compile_nbdist,
    spread,
    table,
    times,
    without_paths,
    write_results,
)
from kernels import CellFailed, Finished, tail
from launch_cases import CASES, LIVE, RANKS, TRAININGS, WARM, Case, Site, rerun, trained

GIVEN_UP_AFTER = 2
SMALL_CELLS = 30
SMALL_CELL = {2: 0.010, 8: 0.030}
"""Seconds from a small cell to the idle kernel, by the number of ranks that live on."""
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
    "ipyparallel",
)

PREPARE, FIRST_LINE, ALL_REDUCE, END = "prepare", "first_line", "all_reduce", "end"
LAST_LINE, STEP, SMALL = "last_line", "step", "small_cell"
COMPARED = (FIRST_LINE, ALL_REDUCE, END)

NOTES = (
    "First line and all_reduce are those of the last rank to get there; the end is when the "
    "kernel is idle again.",
    "Every case starts in a fresh kernel. The first cell of a launcher whose workers live on "
    "contains their start; its later cell is a second one in the same kernel.",
    "A small cell (x = 1) is the median of 30 in a kernel whose workers live on, until the kernel is idle.",
    "Where workers live on they keep their process group, as their users do; the others "
    "destroy it in the cell, and their ranks exit.",
    "nbdistributed's program is sent when its workers have connected: %dist_init returns before, "
    "and what is sent in between is lost.",
    "re-run at once is the cell after a training, sent when that is done; step is what a step of the "
    "training took, with the next ranks made ready beside it and without.",
    "launcher is !torchrun, and paddle.distributed.launch for the paddle program.",
    "prepare is %load_ext, sent before the cell and not part of the other columns; of a warm case it "
    "contains the imports of the ranks that wait, which elsewhere happen while nobody waits for them.",
    "paddle's rank 1 sleeps 3 s when it connects before rank 0 listens, and whether it does is "
    "chance under a launcher that starts both at once: read the minimum too.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Options of the command line."""

    cases: tuple[Case, ...]
    rounds: int
    seconds: float
    ranks: int

    @property
    def is_a_look(self) -> bool:
        """Return whether this is too little to replace the recorded measurement."""
        return self.rounds < LEAST_ROUNDS or self.cases != CASES

    @property
    def baselines(self) -> dict[str, list[str]]:
        return {name: case.baselines_of(name) for case in self.cases for name, _ in case.steps}


@dataclass(slots=True)
class Outcome:
    """Figures of the rounds, and reasons for missing ones."""

    samples: Samples = field(default_factory=Samples)
    reasons: dict[str, list[str]] = field(default_factory=dict)
    failures_in_a_row: Counter[str] = field(default_factory=Counter)

    def failed(self, case: Case, reason: str) -> None:
        self.reasons.setdefault(case.name, []).append(reason)
        self.failures_in_a_row[case.name] += 1

    def given_up(self, case: Case) -> bool:
        """Return whether to give up: the time limit is too long for every round."""
        return self.failures_in_a_row[case.name] >= GIVEN_UP_AFTER

    def not_measured(self) -> list[NotMeasured]:
        return [
            NotMeasured(case=case, reason=self._in_words(case, reasons))
            for case, reasons in self.reasons.items()
        ]

    def _in_words(self, case: str, reasons: Sequence[str]) -> str:
        measured = len(self.samples.values(case, END))
        times_seen = Counter(reasons).items()
        text = "; ".join(f"{reason} ({n} x)" if n > 1 else reason for reason, n in times_seen)
        if self.failures_in_a_row[case] >= GIVEN_UP_AFTER:
            text += f"; given up after {GIVEN_UP_AFTER} failures in a row"
        return f"{text} (measured in {measured} other rounds)" if measured else text


def timings(case: Case, directory: Path, seconds: float, ranks: int) -> Iterator[tuple[str, str, float]]:
    """Yield name, metric and seconds of all that one fresh kernel shows of a case.

    A generator, so that the first cell counts even when the later one fails.
    """
    directory.mkdir()
    kernel = case.start(directory, ranks)
    try:
        if case.prepare is not None:
            yield case.name, PREPARE, kernel.run([case.prepare(ranks)], seconds=seconds).seconds
        for number, (name, cells) in enumerate(case.steps):
            site = Site.new(directory / f"cell-{number}", ranks)
            finished = kernel.run(cells(site), seconds=seconds)
            for metric, value in stamped(site, finished):
                yield name, metric, value
        if case.small:
            taken = [kernel.run([case.small], seconds=seconds).seconds for _ in range(SMALL_CELLS)]
            yield case.later_name, SMALL, statistics.median(taken)
    finally:
        kernel.end()


def stamped(site: Site, finished: Finished) -> Iterator[tuple[str, float]]:
    """Yield every metric of a cell, in seconds after it was submitted."""
    stamps = [read_stamps(site.stamps / str(rank), finished) for rank in range(site.ranks)]
    if step := [stamp for _, _, _, *rest in stamps for stamp in rest]:
        yield STEP, max(step)
    moments = zip((FIRST_LINE, ALL_REDUCE, LAST_LINE), zip(*stamps, strict=True), strict=False)
    for metric, moment in moments:
        yield metric, max(moment) - finished.submitted
    for rank, (first_line, *_) in enumerate(stamps):
        yield f"{FIRST_LINE}_rank_{rank}", first_line - finished.submitted
    yield END, finished.seconds


def read_stamps(path: Path, finished: Finished) -> tuple[float, ...]:
    try:
        return tuple(float(stamp) for stamp in path.read_text().split())
    except FileNotFoundError:
        reason = f"rank {path.name} did not come to its last line{tail(finished.text)}"
        raise CellFailed(reason) from None


def measure(settings: Settings, scratch: Path) -> Outcome:
    outcome = Outcome()
    cases = [case for case in settings.cases if available(case, outcome)]
    warm_up(cases, scratch, settings)
    for round_number in range(settings.rounds):
        # each round starts with another case, so that none always follows the same one
        start = round_number % len(cases) if cases else 0
        for case in cases[start:] + cases[:start]:
            if not outcome.given_up(case) and round_number % case.every == 0:
                say(f"round {round_number + 1}/{settings.rounds}: {case.name}")
                take(case, round_number, outcome, scratch, settings)
    return outcome


def available(case: Case, outcome: Outcome) -> bool:
    missing = case.missing()
    if missing:
        outcome.failed(case, f"not available here: no module {', '.join(missing)}")
    return not missing


def warm_up(cases: Sequence[Case], scratch: Path, settings: Settings) -> None:
    """Read torch and paddle from disk into memory, so that the first case does not pay for it."""
    for limit in dict.fromkeys(case.limit for case in cases):
        case = next(case for case in CASES if case.name == limit)
        say(f"warm-up: {case.name}")
        take(case, -1, Outcome(), scratch, settings)


def take(case: Case, round_number: int, outcome: Outcome, scratch: Path, settings: Settings) -> None:
    directory = scratch / f"{round_number}-{CASES.index(case)}"
    try:
        for name, metric, value in timings(case, directory, settings.seconds, settings.ranks):
            outcome.samples.add(name, metric, round_number, value)
    except (CellFailed, OSError) as failure:  # OSError: the machine would not start a process
        outcome.failed(case, without_paths(str(failure), directory, scratch))
        say(f"  failed: {failure}")
    else:
        outcome.failures_in_a_row[case.name] = 0


def judge(samples: Samples, ranks: int) -> list[Goal]:
    """Judge the goals of a cold and of a warm start, of the torch program.

    The first line of two bare processes comes after some 20 ms, where a ratio says little: there it is
    nbdist's own share in seconds. paddle's limit is a toss of a coin (see NOTES).
    """
    nbdist = next(case for case in CASES if case.name == "nbdist")
    share = samples.differences("nbdist", FIRST_LINE, nbdist.limit, FIRST_LINE)
    freed = samples.differences(WARM, END, WARM, LAST_LINE)
    return [
        *(goal(samples, nbdist.limit, metric, most=1.05) for metric in (ALL_REDUCE, END)),
        goal(samples, nbdist.launcher, END, most=1 / 1.4),
        goal(samples, nbdist.launcher, ALL_REDUCE, most=1 / 35, of=WARM),
        goal(samples, nbdist.launcher, END, most=1 / 12, of=WARM),
        within("nbdist's own share of the first line", share, 0.06),
        within(f"{WARM}: the cell is free after the last rank's last statement", freed, 0.2),
        *small_cells(samples, ranks),
        *(within(f"{rerun(n)}: the end", samples.values(rerun(n), END), 0.5) for n in TRAININGS if n >= 10),
        *(
            goal(samples, trained(n, alone=True), STEP, most=1.02, of=trained(n))
            for n in TRAININGS
            if n >= 10
        ),
    ]


def small_cells(samples: Samples, ranks: int) -> list[Goal]:
    """Judge the goal of a cell with almost no work on living ranks, if there is one for so many."""
    live = next(case for case in CASES if case.name == LIVE).later_name
    most = SMALL_CELL.get(ranks)
    return [] if most is None else [within(f"{live}: a small cell", samples.values(live, SMALL), most)]


def within(words: str, seconds: Sequence[float], most: float) -> Goal:
    words = f"{words} within {most:g} s"
    if not seconds:
        return Goal(goal=words, holds=None, seen="not measured")
    middle = statistics.median(seconds)
    return Goal(
        goal=words, holds=middle <= most, seen=f"{middle:.3f} s, rounds {min(seconds):.3f}-{max(seconds):.3f}"
    )


def goal(samples: Samples, vs: str, metric: str, *, most: float, of: str = "nbdist") -> Goal:
    ratios = samples.ratios(of, metric, vs)
    words = f"{of}: {metric} within {most:.3g} x {vs}"
    if not ratios:
        return Goal(goal=words, holds=None, seen="not measured")
    ratio = statistics.median(ratios)
    seen = f"{ratio:.3g} x, rounds {min(ratios):.3g}-{max(ratios):.3g}"
    return Goal(goal=words, holds=ratio <= most, seen=seen)


def report(settings: Settings, outcome: Outcome, goals: Sequence[Goal]) -> str:
    samples = outcome.samples
    parts = [seconds_table(samples), ratio_table(samples, settings.baselines)] if samples else []
    missing = outcome.not_measured()
    if missing:
        lines = "\n".join(f"  {skipped.case}: {skipped.reason}" for skipped in missing)
        parts.append(f"Not measured, or not in every round:\n{lines}")
    parts.append("Notes:\n" + "\n".join(f"  {note}" for note in NOTES))
    parts.append("Goals:\n" + "\n".join(f"  {goal}" for goal in goals))
    return "\n\n".join(parts)


def seconds_table(samples: Samples) -> str:
    columns = (PREPARE, *COMPARED)
    lines = [
        [
            case,
            *(spread(samples.values(case, metric)) for metric in columns),
            spread(samples.values(case, SMALL), digits=3),
        ]
        for case in complete(samples)
    ]
    headings = [
        "seconds: median (min-max)",
        "prepare",
        "first line",
        "all_reduce",
        "cell's end",
        "small cell",
    ]
    return table(headings, lines)


def ratio_table(samples: Samples, baselines: dict[str, list[str]]) -> str:
    lines = [
        [
            case,
            *(
                times(samples.ratio(case, metric, vs)) if case != vs else "1"
                for vs in (*baselines[case], case)[:2]
                for metric in COMPARED
            ),
        ]
        for case in complete(samples)
    ]
    metrics = ["first", "reduce", "end"]
    against = [f"{metric}/{vs}" for vs in ("bare", "launcher") for metric in metrics]
    return table(["ratios: median over rounds", *against], lines)


def complete(samples: Samples) -> list[str]:
    return [case for case in samples.cases() if samples.values(case, END)]


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def parse(arguments: Sequence[str] | None) -> Settings:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9, help="default: 9")
    parser.add_argument("--ranks", type=int, default=RANKS, help=f"default: {RANKS}")
    parser.add_argument("--quick", action="store_true", help="one round, for a look")
    parser.add_argument(
        "--only", metavar="CASE,CASE", help=", ".join(c.name.replace("%", "%%") for c in CASES)
    )
    parser.add_argument("--limit", type=float, default=120.0, help="seconds a cell may take")
    flags = parser.parse_args(arguments)
    names = [case.name for case in CASES] if flags.only is None else flags.only.split(",")
    unknown = [name for name in names if name not in [case.name for case in CASES]]
    if unknown:
        known = ", ".join(case.name for case in CASES)
        parser.error(f"no case {', '.join(unknown)}: there are {known}")
    if flags.ranks < 1:
        parser.error(f"{flags.ranks} ranks: ask for 1 or more")
    if flags.rounds < 1:
        parser.error(f"{flags.rounds} rounds measure nothing: ask for 1 or more")
    return Settings(
        cases=tuple(case for case in CASES if case.name in names),
        rounds=1 if flags.quick else flags.rounds,
        seconds=flags.limit,
        ranks=flags.ranks,
    )


def main(arguments: Sequence[str] | None = None) -> int:
    settings = parse(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that kernels are ended first
    compile_nbdist()
    machine = Machine.now(PACKAGES)
    with tempfile.TemporaryDirectory(prefix="bench-launch-") as scratch:
        outcome = measure(settings, Path(scratch))
    goals = judge(outcome.samples, settings.ranks)
    print(f"{machine.header()}\n\n{report(settings, outcome, goals)}")
    if not outcome.samples:
        return 1
    write_results(
        "launch" if settings.ranks == RANKS else f"launch-{settings.ranks}-ranks",
        machine,
        outcome.samples.rows(settings.baselines),
        settings={"rounds": settings.rounds, "ranks": settings.ranks, "seconds_a_cell": settings.seconds},
        not_measured=outcome.not_measured(),
        notes=NOTES,
        goals=goals,
        is_a_look=settings.is_a_look,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
