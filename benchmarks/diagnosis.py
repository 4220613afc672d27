"""Causes named after a failure: by nbdist, torchrun, paddle.distributed.launch.

    python benchmarks/diagnosis.py [--rounds N] [--jobs N] [--quick] [--only program,program]
                                   [--programs FOLDER]

The programs of the runs in `tests/diagnosis/recorded` (or of another folder, with the same first line), each
started on CPU ranks by nbdist and by the launcher of its framework. Nothing is timed, so several run at once.
This module alone decides what counts as naming the right rank, line and cause.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from common import Goal, Machine, NotMeasured, Samples, spread, table, version, write_results
from kernels import free_port

from nbdist.diagnosis.known import Source, signatures

PROGRAMS = Path(__file__).resolve().parents[1] / "tests" / "diagnosis" / "recorded"
PACKAGES = ("nbdist", "torch", "paddlepaddle")
LEAST_ROUNDS = 3
LIMIT = 120.0
A_LOOK = ("torch_label_on_one_rank", "python_raise_from", "healthy_torch_training")
RANK, LINE, CAUSE, ALARM, READ = "right rank", "right line", "right cause", "false alarms", "lines to read"

NOTES = (
    "Rank: the rank that the launcher's own verdict names (torchrun: its root cause; paddle: its failed "
    "container; nbdist: the headline). Where a rank ended early or did not come, that one counts, too.",
    "Line: for peers the right line of the program anywhere in the output; for nbdist in the headline or, "
    "after a crash in native code, in the stack below it.",
    "Cause: only programs whose error is known. For peers the text of the error anywhere in the output, "
    "since they explain nothing; for nbdist the line that begins with `cause:`.",
    "False alarms: healthy programs after which something is said to have failed.",
    "Lines to read: what the launcher printed, and for paddle the logs it tells to look at.",
)


def sources_in(folder: Path) -> dict[str, str]:
    """Return the programs of a folder by name: its modules, and those that recorded runs have kept."""
    recorded = {path.stem: json.loads(path.read_text())["cell.py"] for path in sorted(folder.glob("*.json"))}
    texts = {name: "".join(f"{line}\n" for line in lines) for name, lines in recorded.items()}
    return texts | {path.stem: path.read_text() for path in sorted(folder.glob("*.py"))}


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """Program, and the words of its first line that a report must name."""

    path: Path
    expect: str
    ranks: int

    @classmethod
    def of(cls, name: str, source: str, folder: Path) -> Program:
        """Write the program into a folder."""
        path = folder / f"{name}.py"
        path.write_text(source)
        expect = re.search(r"^# expect: (.+)$", source, re.MULTILINE)
        ranks = re.search(r"^# run: -n (\d+)$", source, re.MULTILINE)
        assert expect is not None, f"{path.name} does not say what to expect"
        return cls(path=path, expect=expect[1], ranks=int(ranks[1]) if ranks is not None else 2)

    @property
    def healthy(self) -> bool:
        return self.expect == "nothing"

    @property
    def framework(self) -> str:
        return "paddle" if "paddle" in self.path.stem else "torch"

    def named(self, key: str) -> list[str]:
        """Return the words after ``rank``, ``line``, ``signature``, ``early`` or ``absent``."""
        return re.findall(rf"\b{key} ([\w-]+)", self.expect)


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """Output of a launcher, files that it names included, and its exit code."""

    text: str
    code: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Launcher:
    """Command of a program, and the pattern of the verdict on ranks in its output."""

    name: str
    framework: str
    command: Callable[[Program, Path], Sequence[str]]
    verdict: str
    explains: bool = False

    def runs(self, program: Program) -> bool:
        return self.framework in ("any", program.framework)


def nbdist(program: Program, scratch: Path) -> Sequence[str]:
    # what it would say before the start would keep some from failing
    return [sys.executable, "-m", "nbdist", "run", "--no-check", "-n", str(program.ranks), str(program.path)]


def torchrun(program: Program, scratch: Path) -> Sequence[str]:
    port = f"--master-port={free_port()}"
    count = f"--nproc-per-node={program.ranks}"
    return [sys.executable, "-m", "torch.distributed.run", count, port, str(program.path)]


def paddle_launch(program: Program, scratch: Path) -> Sequence[str]:
    count = f"--nproc_per_node={program.ranks}"
    logs = f"--log_dir={scratch / 'log'}"
    return [sys.executable, "-m", "paddle.distributed.launch", count, logs, str(program.path)]


LAUNCHERS = (
    Launcher(
        name="nbdist",
        framework="any",
        command=nbdist,
        verdict=r"ranks? ([\d, ]+) (?:failed(?: first)?|timed out waiting for rank \d+)",
        explains=True,
    ),
    Launcher(
        name="torchrun",
        framework="torch",
        command=torchrun,
        verdict=r"Root Cause \(first observed failure\):\n(?:.*\n){0,3}?\s*rank\s*: (\d+)",
    ),
    Launcher(
        name="paddle.distributed.launch",
        framework="paddle",
        command=paddle_launch,
        verdict=r"Container rank (\d+) status failed",
    ),
)


@dataclass(slots=True)
class Tally:
    """Right answers of a launcher in a round, of how many; lengths of the outputs; wrong answers by
    program."""

    right: dict[str, int] = field(default_factory=dict)
    of: dict[str, int] = field(default_factory=dict)
    lengths: list[int] = field(default_factory=list)
    wrong: dict[str, list[str]] = field(default_factory=dict)

    def count(self, what: str, program: Program, right: bool) -> None:
        self.right[what] = self.right.get(what, 0) + right
        self.of[what] = self.of.get(what, 0) + 1
        if right is (what == ALARM):
            self.wrong.setdefault(program.path.stem, []).append(what.removeprefix("right "))

    def percent(self, what: str) -> float | None:
        return 100 * self.right[what] / self.of[what] if self.of.get(what) else None


def judge(program: Program, launcher: Launcher, output: Output, tally: Tally) -> None:
    match = re.search(launcher.verdict, output.text)
    if program.healthy:
        tally.count(ALARM, program, output.code != 0 or match is not None)
        return
    tally.count(RANK, program, match is not None and names_the_rank(program, match[1]))
    [line] = program.named("line")
    if line != "none":
        tally.count(LINE, program, names_the_line(program, launcher, output.text, line))
    [signature] = program.named("signature")
    if signature != "none":
        tally.count(CAUSE, program, names_the_cause(launcher, output.text, signature))
    tally.lengths.append(len(output.text.splitlines()))


def names_the_rank(program: Program, text: str) -> bool:
    right = {*program.named("rank"), *program.named("early"), *program.named("absent")}
    return "any" in right or bool(right & set(re.findall(r"\d+", text)))


def names_the_line(program: Program, launcher: Launcher, text: str, line: str) -> bool:
    name = re.escape(program.path.name)
    if launcher.explains:
        return re.search(rf"at line {line} of {name}", text) is not None
    return re.search(rf'{name}", line {line}\b', text) is not None


def names_the_cause(launcher: Launcher, text: str, signature: str) -> bool:
    known = signatures()[signature]
    if launcher.explains:
        words = re.sub(r"\\\{\w+\\\}", ".+", re.escape(known.cause))
        return re.search(f"cause: {words}", text) is not None
    return known.source is Source.ERROR and re.search(known.pattern, text) is not None


def run(program: Program, launcher: Launcher, scratch: Path) -> Output:
    """Start the program and wait for its end, at most LIMIT seconds; nothing of it stays."""
    scratch.mkdir()
    environment = os.environ | {
        "OMP_NUM_THREADS": "1",
        "NBDIST_HOME": str(scratch / "home"),
        "NBDIST_RUN_ID": uuid.uuid4().hex,  # some programs make a name of it
        "PADDLE_DISTRI_BACKEND": "gloo",
    }
    printed = scratch / "printed"
    with printed.open("wb") as file:
        process = psutil.Popen(
            launcher.command(program, scratch),
            cwd=scratch,
            env=environment,
            stdout=file,
            stderr=subprocess.STDOUT,
        )
        code = wait(process)
    logs = sorted((scratch / "log").glob("workerlog.*"))
    text = "\n".join(path.read_text(errors="replace") for path in [printed, *logs])
    return Output(text=text, code=code)


def wait(process: psutil.Popen) -> int:
    """Return the exit code; 124 for a launcher that had to be ended, with all that came of it."""
    try:
        return int(process.wait(LIMIT))
    except psutil.TimeoutExpired:
        return 124
    finally:
        with contextlib.suppress(psutil.NoSuchProcess):
            for member in [*process.children(recursive=True), process]:
                with contextlib.suppress(psutil.NoSuchProcess):
                    member.kill()


def outputs(
    programs: Sequence[Program], present: Sequence[Launcher], jobs: int, scratch: Path
) -> Iterator[tuple[Program, Launcher, Output]]:
    """Yield the output of each program under each launcher that runs it, ``jobs`` of them at once."""
    pairs = [(program, launcher) for program in programs for launcher in present if launcher.runs(program)]

    def output_of(pair: tuple[Program, Launcher]) -> Output:
        program, launcher = pair
        say(f"  {program.path.stem}, {launcher.name}")
        return run(program, launcher, scratch / f"{program.path.stem}-{launcher.name}")

    with ThreadPoolExecutor(jobs) as pool:
        for (program, launcher), output in zip(pairs, pool.map(output_of, pairs), strict=True):
            yield program, launcher, output


def measure(
    programs: Sequence[Program], rounds: int, jobs: int, scratch: Path
) -> tuple[Samples, Samples, list[NotMeasured], list[str]]:
    """Return percentages by launcher and question, lines to read, what could not be measured, what was
    wrong."""
    shares, lengths = Samples(unit="%"), Samples(unit="lines")
    missing = [
        NotMeasured(case=launcher.name, reason=f"{package} is not installed")
        for launcher, package in zip(LAUNCHERS[1:], ("torch", "paddlepaddle"), strict=True)
        if version(package) == "not installed"
    ]
    present = [launcher for launcher in LAUNCHERS if launcher.name not in [gap.case for gap in missing]]
    wrong: dict[str, set[str]] = {}
    for number in range(rounds):
        say(f"round {number + 1}/{rounds}")
        tallies = {launcher.name: Tally() for launcher in present}
        place = scratch / str(number)
        place.mkdir()
        for program, launcher, output in outputs(programs, present, jobs, place):
            judge(program, launcher, output, tallies[launcher.name])
        for name, tally in tallies.items():
            for what in (RANK, LINE, CAUSE, ALARM):
                if (percent := tally.percent(what)) is not None:
                    shares.add(name, what, number, percent)
                    say(f"  {name}: {what} {tally.right[what]} of {tally.of[what]}")
            if tally.lengths:
                lengths.add(name, READ, number, sorted(tally.lengths)[len(tally.lengths) // 2])
            wrong.setdefault(name, set()).update(
                f"{program} ({', '.join(what)})" for program, what in tally.wrong.items()
            )
    notes = [f"Not named by {name}: {'; '.join(sorted(those)) or 'nothing'}" for name, those in wrong.items()]
    return shares, lengths, missing, notes


def goals_of(shares: Samples) -> list[Goal]:
    goals = []
    for what, wanted in ((RANK, 100), (LINE, 90), (CAUSE, 90)):
        values = shares.values("nbdist", what)
        holds = min(values) >= wanted if values else None
        seen = f"{min(values):.0f} % at least" if values else "not measured"
        goals.append(Goal(goal=f"nbdist: {what} in {wanted} % of the programs", holds=holds, seen=seen))
    alarms = shares.values("nbdist", ALARM)
    seen = f"{max(alarms):.0f} %" if alarms else "not measured"
    holds = not any(alarms) if alarms else None
    return [*goals, Goal(goal="nbdist: no false alarm", holds=holds, seen=seen)]


def report(
    shares: Samples,
    lengths: Samples,
    missing: Sequence[NotMeasured],
    notes: Sequence[str],
    goals: Sequence[Goal],
) -> str:
    lines = [
        [
            name,
            *(spread(shares.values(name, what)) for what in (RANK, LINE, CAUSE, ALARM)),
            spread(lengths.values(name, READ)),
        ]
        for name in dict.fromkeys([*shares.cases(), *lengths.cases()])
    ]
    parts = [table(["%: median (min-max)", RANK, LINE, CAUSE, ALARM, READ], lines)]
    if missing:
        parts.append("Not measured:\n" + "\n".join(f"  {gap.case}: {gap.reason}" for gap in missing))
    parts.append("Notes:\n" + "\n".join(f"  {note}" for note in notes))
    parts.append("Goals:\n" + "\n".join(f"  {goal}" for goal in goals))
    return "\n\n".join(parts)


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=LEAST_ROUNDS, help=f"default: {LEAST_ROUNDS}")
    parser.add_argument("--quick", action="store_true", help="three programs once, for a look")
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count(), help="programs at once; default: the cores"
    )
    parser.add_argument("--only", metavar="PROGRAM,PROGRAM", help="names without .py")
    parser.add_argument("--programs", metavar="FOLDER", type=Path, default=PROGRAMS, help="others than ours")
    flags = parser.parse_args(arguments)
    every = sources_in(flags.programs.resolve())
    names = flags.only.split(",") if flags.only else A_LOOK if flags.quick else tuple(every)
    if unknown := [name for name in names if name not in every]:
        parser.error(f"no program {', '.join(unknown)}: see {flags.programs}")
    if flags.rounds < 1 or flags.jobs < 1 or not names:
        parser.error("no rounds, jobs or programs measure nothing: ask for 1 or more")
    rounds = 1 if flags.quick else flags.rounds
    machine = Machine.now(PACKAGES)
    with tempfile.TemporaryDirectory(prefix="bench-diagnosis-") as scratch:
        chosen = [Program.of(name, every[name], Path(scratch)) for name in names]
        shares, lengths, missing, wrong = measure(chosen, rounds, flags.jobs, Path(scratch))
    goals = goals_of(shares)
    notes = (*NOTES, *wrong)
    print(f"{machine.header()}\n\n{report(shares, lengths, missing, notes, goals)}")
    write_results(
        "diagnosis",
        machine,
        [*shares.rows({}), *lengths.rows({})],
        settings={"rounds": rounds, "programs": len(names), "jobs": flags.jobs, "limit": LIMIT},
        not_measured=missing,
        notes=notes,
        goals=goals,
        is_a_look=rounds < LEAST_ROUNDS or len(names) < len(every) or flags.programs != PROGRAMS,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
