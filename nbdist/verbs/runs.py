"""What the verbs do with runs: which are meant, and what came of it as a value."""

from __future__ import annotations

import math
import re
import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nbdist import config, runner
from nbdist.errors import UnknownRun, UsageMistake
from nbdist.feed import comparison
from nbdist.feed.comparison import Comparison
from nbdist.feed.curves import Curve, read_curves
from nbdist.feed.explanation import Explanation, explain_run
from nbdist.feed.log_lines import LineReader, Place
from nbdist.feed.report_text import report_text
from nbdist.feed.sweeps import SweepView
from nbdist.model import Reason, Run
from nbdist.model.sweep import MOST
from nbdist.options import split_program
from nbdist.runner import RunHandle, SweepHandle
from nbdist.store import RunDirectory
from nbdist.verbs.verb import Frontend

if TYPE_CHECKING:
    from nbdist.board import Reach
    from nbdist.diagnosis.stacks import StackReport
    from nbdist.panel.report import Report

_LATEST = 10
_PAIR = 2
_STOP_LIMIT = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """The runs whose state is wanted. ``watch``, ``json``: how a terminal is to show it."""

    directories: tuple[RunDirectory, ...]
    watch: bool
    json: bool

    @staticmethod
    def beside() -> list[str]:
        """Return what there is beside runs, a line each: sweeps that go on, ranks that wait, and runs that
        cannot be read."""
        waiting = runner.describe_warm(runner.warm_ranks.state())
        going = [runner.describe_sweep(one) for one in runner.live_sweeps()]
        return [*going, *waiting, *runner.describe_refused()]


def status(_: Frontend, *, run: Sequence[str], watch: bool = False, json: bool = False) -> Listed:
    """The runs with these names, or of sweeps; the latest ten where none is named. Raises UnknownRun."""
    handles = _named(run) or runner.runs()[:_LATEST]
    return Listed(directories=tuple(handle.directory for handle in handles), watch=watch, json=json)


def _named(names: Sequence[str]) -> list[RunHandle]:
    """The run of each name, or those that a sweep of this name has started. Raises UnknownRun."""
    found: list[RunHandle] = []
    for name in names:
        one = _run_or_sweep(name)
        found += [one] if isinstance(one, RunHandle) else one.runs
    return found


def _run_or_sweep(name: str) -> RunHandle | SweepHandle:
    try:
        return runner.attach(name)
    except UnknownRun:
        try:
            return runner.sweep(name)
        except UnknownRun:
            pass
        raise


@dataclass(frozen=True, slots=True, kw_only=True)
class Logs:
    """The logs of ``ranks``, each of this machine: of the lines that match ``pattern`` the last ``tail``, or
    all. ``one``: a rank was named. ``follow``: until the run has ended. ``json``: how a terminal is to show
    it; then ``since`` has the place from which a rank is read."""

    handle: RunHandle
    ranks: tuple[int, ...]
    pattern: re.Pattern[str]
    tail: int | None
    one: bool
    follow: bool
    json: bool
    since: Mapping[int, Place]

    def readers(self) -> list[LineReader]:
        """What reads the lines of each rank with their places."""
        directory, run = self.handle.directory, self.handle.run
        return [LineReader(directory, run, rank, self.since.get(rank)) for rank in self.ranks]

    def lines(self, rank: int) -> Iterable[str]:
        """The lines of one rank that are asked for, from disk."""
        found = (line for line in self.handle.log_lines(rank) if self.pattern.search(line))
        return found if self.tail is None else deque(found, maxlen=self.tail)


def logs(
    _: Frontend,
    *,
    run: str | None,
    rank: int | None,
    tail: int | None,
    grep: str | None,
    follow: bool = False,
    json: bool = False,
    since: Mapping[int, Place] | Place | None = None,
) -> Logs:
    """Raises UnknownRun, and UsageMistake for a rank whose log is not here."""
    if since is not None and not json:
        raise UsageMistake("--since goes on behind what --json printed: write  nbdist logs --json --since N")
    handle = runner.attach(run)
    pattern = log_pattern(grep)
    if rank is not None:
        handle.check_log(rank)
    ranks = [spec.rank for spec in handle.run.spec.here] if rank is None else [rank]
    return Logs(
        handle=handle,
        ranks=tuple(ranks),
        pattern=pattern,
        tail=tail,
        one=rank is not None,
        follow=follow,
        json=json,
        since=dict.fromkeys(ranks, since) if isinstance(since, Place) else since or {},
    )


def log_pattern(text: str | None) -> re.Pattern[str]:
    """The pattern behind ``--grep``; without one, what every line matches. Raises UsageMistake."""
    try:
        return re.compile(text or "")
    except re.error as error:
        raise UsageMistake(f"--grep {text}: {error}: write a regular expression") from None


# what is longer is the place of no file
_SINCE = re.compile(r"(?:(\d{1,9}):)?(\d{1,18})(?:\+(\d{1,18}))?")


def log_places(text: str) -> Mapping[int, Place] | Place:
    """What is behind ``--since``: one place, or ``0:4096,1:80+2`` by rank. Raises UsageMistake."""
    found = [_SINCE.fullmatch(part) for part in text.split(",")]
    parts = [(one[1], Place(int(one[2]), int(one[3] or 0))) for one in found if one is not None]
    named = {int(rank): place for rank, place in parts if rank is not None}
    if len(parts) < len(found) or (len(found) > 1 and len(named) < len(found)):
        raise UsageMistake(f"--since {text}: write what --json has printed as next:  --since 0:4096,1:80")
    return named or parts[0][1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """Explain why a run stands as it does. ``copy``, ``json``: how it is to be shown."""

    run: Run
    directory: RunDirectory
    copy: bool
    json: bool

    @property
    def explanation(self) -> Explanation:
        # what a program reads has one language
        return explain_run(self.run, self.directory, "en" if self.json else config.language())

    @property
    def report(self) -> str:
        """The text for another reader."""
        return report_text(self.run, self.directory, config.language())


def explain(_: Frontend, *, run: str | None, copy: bool = False, json: bool = False) -> Explained:
    """Raises UnknownRun."""
    handle = runner.attach(run)
    return Explained(run=handle.run, directory=handle.directory, copy=copy, json=json)


@dataclass(frozen=True, slots=True, kw_only=True)
class Waited:
    """The ``moment`` that has come; empty where the run ended without, or the time was over (``late``).
    ``json``: how a terminal is to show it."""

    run: Run
    moment: str
    late: bool
    json: bool

    def to_dict(self) -> dict[str, Any]:
        """``wait`` of the schema, without its version."""
        return {
            "run_id": self.run.run_id,
            "label": self.run.label,
            "state": self.run.state.value,
            "live": not self.run.state.terminal,
            "moment": self.moment or None,
            "late": self.late,
            "elapsed": round(self.run.elapsed(time.time()), 1),
        }


def wait(
    _: Frontend, *, run: str | None, until: Sequence[str], timeout: float | None, json: bool = False
) -> Waited:
    """Raises UnknownRun."""
    handle = runner.attach(run)
    came = handle.wait(timeout, until=until)
    stands = handle.run
    moment = came if came in until else ""
    return Waited(run=stands, moment=moment, late=not moment and not stands.state.terminal, json=json)


@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics:
    """The metrics of runs, each with its last points. ``json``: how a terminal is to show it."""

    runs: tuple[tuple[Run, tuple[Curve, ...]], ...]
    json: bool

    def to_list(self) -> list[dict[str, Any]]:
        """``metrics`` of the schema, without versions."""
        return [
            {
                "run_id": run.run_id,
                "label": run.label,
                "state": run.state.value,
                "metrics": {curve.tag: [_point(*point) for point in curve.points] for curve in curves},
            }
            for run, curves in self.runs
        ]


def _point(step: float, value: float) -> dict[str, Any]:
    """``"nan"``, ``"inf"`` and ``"-inf"``, which JSON has not, as float() reads them."""
    return {"step": int(step), "value": value if math.isfinite(value) else str(value)}


def metrics(_: Frontend, *, run: Sequence[str], last: int, json: bool = False) -> Metrics:
    """Of the runs with these names, or of sweeps; of the latest where none is named. Raises UnknownRun."""
    found = []
    for handle in _named(run) or [runner.attach()]:
        curves = read_curves(handle.run, handle.directory)
        kept = tuple(replace(curve, points=curve.points[-last:]) for curve in curves)
        found.append((handle.run, kept))
    return Metrics(runs=tuple(found), json=json)


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """Runs beside each other. ``all_rows``: with what they have in common. ``json``: how a terminal is to
    show it."""

    comparison: Comparison
    all_rows: bool
    json: bool


def compare(_: Frontend, *, run: Sequence[str], all: bool, step: int | None, json: bool = False) -> Beside:
    """The runs with these names, or of sweeps. One is compared with the latest other one; where none is
    named, the latest with the one before. Raises UnknownRun and UsageMistake."""
    handles = _named(run)
    if len(handles) < _PAIR:
        named = {handle.run_id for handle in handles}
        others = (handle for handle in runner.runs() if handle.run_id not in named)
        handles = [*reversed(list(islice(others, _PAIR - len(handles)))), *handles]
    if len(handles) < _PAIR:
        raise UsageMistake("there are no two runs to compare: start another one")
    if len(handles) > MOST:
        raise UsageMistake(f"{len(handles)} runs: name at most {MOST}")
    found = comparison.compare([(handle.run, handle.directory) for handle in handles], step=step)
    return Beside(comparison=found, all_rows=all, json=json)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped:
    """The runs that have ended, as they were asked to, and ``sweeps`` with all of theirs. ``going_on`` says
    of each that has not what to type, ``note`` that there was none."""

    ended: tuple[Run, ...]
    going_on: tuple[str, ...]
    note: str
    sweeps: tuple[SweepView, ...] = ()


def stop(frontend: Frontend, *, run: str | None, all: bool) -> Stopped:
    """Ask them to end, and wait for each; of a sweep also no other run is started. Raises UsageMistake where
    the run has already ended."""
    verb = f"{frontend.prefix}stop"
    handles: list[RunHandle | SweepHandle] = [*runner.live_sweeps()] if all else [_live(run, frontend)]
    _end(handles, verb)
    if all:
        # those of a sweep have ended with it
        others = _live_runs()
        _end(others, verb)
        handles += others
    stopped = [handle.run for handle in handles if isinstance(handle, RunHandle)]
    views = [handle.look() for handle in handles if isinstance(handle, SweepHandle)]
    left = [run.label for run in stopped if not run.state.terminal]
    left += [view.sweep.label for view in views if view.live]
    return Stopped(
        ended=tuple(run for run in stopped if run.state.terminal),
        going_on=tuple(f"{run} goes on, though it was asked to end: {verb} {run}  once more" for run in left),
        note="" if handles else "no run is going on",
        sweeps=tuple(view for view in views if not view.live),
    )


def _end(handles: Sequence[RunHandle | SweepHandle], command: str) -> None:
    for handle in handles:
        handle.request_stop(Reason("stopped-by", command=command))
    for handle in handles:
        handle.wait(_STOP_LIMIT)


def _live(name: str | None, frontend: Frontend) -> RunHandle | SweepHandle:
    """Return the run or sweep of this name; without one the latest run, or the sweep that started it. Raises
    UsageMistake where it does not go on."""
    if name is not None:
        handle = _run_or_sweep(name)
        label, ended = (
            (handle.run.label, handle.run.state.terminal)
            if isinstance(handle, RunHandle)
            else (handle.label, not handle.look().live)
        )
        if ended:
            raise UsageMistake(f"{label} has already ended: {handle.status}")
        return handle
    if not (runs := _live_runs()):
        raise UsageMistake(f"no run is going on: {frontend.prefix}status lists them")
    point = runs[0].run.spec.sweep
    sweeps = (sweep for sweep in runner.live_sweeps() if point is not None and sweep.sweep_id == point.sweep)
    return next(sweeps, runs[0])


def _live_runs() -> list[RunHandle]:
    """Every run that goes on, the newest first."""
    return [handle for handle in runner.runs() if _goes_on(handle)]


def _goes_on(handle: RunHandle) -> bool:
    try:
        return not handle.run.state.terminal
    except UnknownRun:
        return False  # it is being made, or removed


@dataclass(frozen=True, slots=True, kw_only=True)
class Stacks:
    """Where the ranks are; ``native`` is what py-spy sees of each, as text; None where that was not asked
    for. ``threads``, ``json``: how it is to be shown."""

    report: StackReport
    native: Mapping[int, str] | None
    threads: bool
    json: bool


def stacks(_: Frontend, *, run: str | None, threads: bool, native: bool, json: bool = False) -> Stacks:
    """Raises UnknownRun."""
    handle = runner.attach(run)
    # both read programs, and no other verb needs them
    from nbdist.diagnosis.stacks import native_stacks, take_stacks

    return Stacks(
        report=take_stacks(handle.directory),
        native=native_stacks(handle.run) if native else None,
        threads=threads,
        json=json,
    )


def attach(_: Frontend, *, run: str | None) -> RunHandle | SweepHandle:
    """The run, or sweep, of this name. Raises UnknownRun."""
    handle = runner.attach(run) if run is None else _run_or_sweep(run)
    if isinstance(handle, SweepHandle):
        return handle
    handle.run  # noqa: B018 - one that cannot be read is a mistake here, not when it is shown
    return handle


@dataclass(frozen=True, slots=True, kw_only=True)
class Again:
    """A run that is to be gone on from, with ``changes``, options in the place of its own."""

    handle: RunHandle
    changes: tuple[str, ...]


def resume(_: Frontend, *, words: Sequence[str]) -> Again:
    """Raises UnknownRun."""
    before, named = split_program(words)
    handle = runner.attach(named[0] if named else None)
    return Again(handle=handle, changes=(*before, *named[1:]))


def export(_: Frontend, *, run: str | None, to: str | None) -> runner.Export:
    """Raises UnknownRun, UsageMistake and LaunchError."""
    handle = runner.attach(run)
    return runner.export(handle, Path(to or handle.run.label))


@dataclass(frozen=True, slots=True, kw_only=True)
class Curves:
    """Where a browser sees the curves of runs. ``height`` of the frame in a notebook, in pixels."""

    handles: tuple[RunHandle, ...]
    reach: Reach
    height: int


def board(
    _: Frontend,
    *,
    run: Sequence[str],
    export: str | None,
    stop: bool,
    height: int = 0,
) -> Curves | Report | bool:
    """With ``stop``, whether there was a server to end. Raises UnknownRun, UsageMistake and LaunchError."""
    if stop:
        from nbdist.board import stop_board

        return stop_board(config.home())
    handles = [runner.attach(name) for name in run] or [runner.attach()]
    if export is not None:
        # no other verb writes reports
        from nbdist.panel import write_report

        shown = [(handle.run, handle.directory) for handle in handles]
        return write_report(shown, Path(export), config.language())
    return Curves(handles=tuple(handles), reach=runner.reach_board(handles), height=height)
