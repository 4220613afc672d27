"""The actions of the verbs on runs, with their results as values."""

from __future__ import annotations

import contextlib
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
from nbdist.errors import LaunchError, UnknownRun, UsageMistake
from nbdist.feed import comparison
from nbdist.feed.comparison import Comparison
from nbdist.feed.curves import Curve, read_curves
from nbdist.feed.explanation import Explanation, explain_run
from nbdist.feed.log_lines import LineReader, Place
from nbdist.feed.profile import Profile, read_profile, start_profile
from nbdist.feed.report_text import report_text
from nbdist.feed.sweep_state import SweepView
from nbdist.model import Reason, Run
from nbdist.model.sweep import MOST
from nbdist.options import options_first
from nbdist.runner import RunHandle, SweepHandle
from nbdist.store import RunDirectory
from nbdist.store.run_store import is_run_locked
from nbdist.verbs.verb import Frontend

if TYPE_CHECKING:
    from nbdist.board import Reach
    from nbdist.diagnosis.stacks import StackReport
    from nbdist.panel.report_file import Report

_LATEST = 10
_PAIR = 2
_STOP_LIMIT = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """The runs to list: the ``named`` ones, or all live ones and the latest ten. ``watch``, ``json``: the
    format in a terminal."""

    named: tuple[RunDirectory, ...]
    watch: bool
    json: bool

    def directories(self) -> tuple[RunDirectory, ...]:
        """Return the runs to list now. Raises NotPrivate."""
        if self.named:
            return self.named
        newest = runner.store().directories()
        # a run without a supervisor here has ended, or is one of the latest
        return (*newest[:_LATEST], *filter(is_run_locked, newest[_LATEST:]))


def status(_: Frontend, *, run: Sequence[str], watch: bool = False, json: bool = False) -> Listed:
    """Return the named runs, or runs of named sweeps; without names the latest. Raises UnknownRun."""
    handles = _named(run) or runner.runs()[:_LATEST]
    directories = tuple(handle.directory for handle in handles)
    return Listed(named=directories if run else (), watch=watch, json=json)


def _named(names: Sequence[str]) -> list[RunHandle]:
    """Return the run of each name, or the runs of its sweep. Raises UnknownRun."""
    handles: list[RunHandle] = []
    for name in names:
        handle = _run_or_sweep(name)
        handles += [handle] if isinstance(handle, RunHandle) else handle.runs
    return handles


def _run_or_sweep(name: str) -> RunHandle | SweepHandle:
    try:
        return runner.attach(name)
    except UnknownRun:
        with contextlib.suppress(UnknownRun):
            return runner.sweep(name)
        raise


@dataclass(frozen=True, slots=True, kw_only=True)
class Logs:
    """The logs of ``ranks`` on this machine: the lines that match ``pattern``, or the last ``tail`` of them.
    ``named``: the user named the rank. ``follow``: until the run ends. ``json``: the format in a terminal,
    with ``since`` as the place to read each rank from."""

    handle: RunHandle
    ranks: tuple[int, ...]
    pattern: re.Pattern[str]
    tail: int | None
    named: bool
    follow: bool
    json: bool
    since: Mapping[int, Place]

    def readers(self) -> list[LineReader]:
        """Return readers of each rank's lines and their places."""
        directory, run = self.handle.directory, self.handle.run
        return [LineReader(directory, run, rank, self.since.get(rank)) for rank in self.ranks]

    def lines(self, rank: int) -> Iterable[str]:
        """Return the matching lines of one rank, from disk."""
        lines = filter(self.pattern.search, self.handle.log_lines(rank))
        return lines if self.tail is None else deque(lines, maxlen=self.tail)


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
    """Return the logs of a run. Raises UnknownRun, and UsageMistake for a rank whose log is elsewhere."""
    if since is not None and not json:
        raise UsageMistake("--since needs --json: write  nbdist logs --json --since N")
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
        named=rank is not None,
        follow=follow,
        json=json,
        since=dict.fromkeys(ranks, since) if isinstance(since, Place) else since or {},
    )


def log_pattern(text: str | None) -> re.Pattern[str]:
    """Compile the pattern of ``--grep``; by default one that matches every line. Raises UsageMistake."""
    try:
        return re.compile(text or "")
    except re.error as error:
        raise UsageMistake(f"--grep {text} is no regular expression ({error}): correct it") from None


# longer numbers are the place of no file
_SINCE = re.compile(r"(?:(\d{1,9}):)?(\d{1,18})(?:\+(\d{1,18}))?")


def log_places(text: str) -> Mapping[int, Place] | Place:
    """Parse ``--since``: one place, or ``0:4096,1:80+2`` by rank. Raises UsageMistake."""
    matches = [_SINCE.fullmatch(part) for part in text.split(",")]
    parts = [(match[1], Place(int(match[2]), int(match[3] or 0))) for match in matches if match is not None]
    named = {int(rank): place for rank, place in parts if rank is not None}
    if len(parts) < len(matches) or (len(matches) > 1 and len(named) < len(matches)):
        raise UsageMistake(f"--since {text}: write what --json has printed as next:  --since 0:4096,1:80")
    return named or parts[0][1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """The explanation of a run's state. ``copy``, ``json``: the format to show."""

    run: Run
    directory: RunDirectory
    copy: bool
    json: bool

    @property
    def explanation(self) -> Explanation:
        # programs read one language
        return explain_run(self.run, self.directory, "en" if self.json else config.language())

    @property
    def report(self) -> str:
        """Return the text to copy for another reader."""
        return report_text(self.run, self.directory, config.language())


def explain(_: Frontend, *, run: str | None, copy: bool = False, json: bool = False) -> Explained:
    """Explain the run. Raises UnknownRun."""
    handle = runner.attach(run)
    return Explained(run=handle.run, directory=handle.directory, copy=copy, json=json)


@dataclass(frozen=True, slots=True, kw_only=True)
class Waited:
    """The ``moment`` that has come; empty if the run ended without, or the time was over (``late``).
    ``json``: the format in a terminal."""

    run: Run
    moment: str
    late: bool
    json: bool

    def to_dict(self) -> dict[str, Any]:
        """Return ``wait`` of the schema, without its version."""
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
    """Wait for one of the moments. Raises UnknownRun."""
    handle = runner.attach(run)
    came = handle.wait(timeout, until=until)
    now = handle.run
    moment = came if came in until else ""
    return Waited(run=now, moment=moment, late=not moment and not now.state.terminal, json=json)


@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics:
    """The metrics of runs, each with its last points. ``json``: the format in a terminal."""

    runs: tuple[tuple[Run, tuple[Curve, ...]], ...]
    json: bool

    def to_list(self) -> list[dict[str, Any]]:
        """Return ``metrics`` of the schema, without versions."""
        rows = []
        for run, curves in self.runs:
            values = {curve.tag: [_point(*point) for point in curve.points] for curve in curves}
            names = {"run_id": run.run_id, "label": run.label, "state": run.state.value}
            rows.append({**names, "metrics": values})
        return rows


def _point(step: float, value: float) -> dict[str, Any]:
    """Return a point with ``"nan"``, ``"inf"`` and ``"-inf"``, which JSON has not, as float() reads them."""
    return {"step": int(step), "value": value if math.isfinite(value) else str(value)}


def metrics(_: Frontend, *, run: Sequence[str], last: int, json: bool = False) -> Metrics:
    """Return the metrics of the named runs or sweeps; by default of the latest run. Raises UnknownRun."""
    rows = []
    for handle in _named(run) or [runner.attach()]:
        curves = read_curves(handle.run, handle.directory)
        kept = tuple(replace(curve, points=curve.points[-last:]) for curve in curves)
        rows.append((handle.run, kept))
    return Metrics(runs=tuple(rows), json=json)


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """Runs side by side. ``all_rows``: with their common rows. ``json``: the format in a terminal."""

    comparison: Comparison
    all_rows: bool
    json: bool


def compare(_: Frontend, *, run: Sequence[str], all: bool, step: int | None, json: bool = False) -> Beside:
    """Compare the named runs or sweeps, and the latest others up to two. Raises UnknownRun, UsageMistake."""
    handles = _named(run)
    if len(handles) < _PAIR:
        named = {handle.run_id for handle in handles}
        others = (handle for handle in runner.runs() if handle.run_id not in named)
        handles = [*reversed(list(islice(others, _PAIR - len(handles)))), *handles]
    if len(handles) < _PAIR:
        raise UsageMistake("there is no second run to compare: start another one")
    if len(handles) > MOST:
        raise UsageMistake(f"{len(handles)} runs are too many: name at most {MOST}")
    runs = [(handle.run, handle.directory) for handle in handles]
    return Beside(comparison=comparison.compare(runs, step=step), all_rows=all, json=json)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped:
    """The runs and ``sweeps`` that have ended on request. ``going_on`` has a line for each that has not,
    ``note`` one if there was none."""

    ended: tuple[Run, ...]
    going_on: tuple[str, ...]
    note: str
    sweeps: tuple[SweepView, ...] = ()


def stop(frontend: Frontend, *, run: str | None, all: bool) -> Stopped:
    """Stop the run, sweep, or all of them, and wait for their ends. Raises UsageMistake for an ended one."""
    verb = f"{frontend.prefix}stop"
    handles: list[RunHandle | SweepHandle] = [*runner.live_sweeps()] if all else [_live(run, frontend)]
    _end(handles, verb)
    if all:
        # without those of the sweeps, which have ended
        others = _live_runs()
        _end(others, verb)
        handles += others
    stopped = [handle.run for handle in handles if isinstance(handle, RunHandle)]
    views = [handle.look() for handle in handles if isinstance(handle, SweepHandle)]
    left = [run.label for run in stopped if not run.state.terminal]
    left += [view.sweep.label for view in views if view.live]
    return Stopped(
        ended=tuple(run for run in stopped if run.state.terminal),
        going_on=tuple(f"{run} still runs: stop it again with  {verb} {run}" for run in left),
        note="" if handles else "no run to stop",
        sweeps=tuple(view for view in views if not view.live),
    )


def _end(handles: Sequence[RunHandle | SweepHandle], command: str) -> None:
    for handle in handles:
        handle.request_stop(Reason("stopped-by", command=command))
    for handle in handles:
        handle.wait(_STOP_LIMIT)
        while isinstance(handle, RunHandle) and handle.run.saves:
            handle.wait(_STOP_LIMIT)


def _live(name: str | None, frontend: Frontend) -> RunHandle | SweepHandle:
    """Return the live run or sweep of this name, by default the latest. Raises UsageMistake."""
    if name is not None:
        handle = _run_or_sweep(name)
        if isinstance(handle, RunHandle):
            label, ended = handle.run.label, handle.run.state.terminal
        else:
            label, ended = handle.label, not handle.look().live
        if ended:
            raise UsageMistake(f"{label} has already ended: {handle.status}")
        return handle
    if not (runs := _live_runs()):
        raise UsageMistake(f"no run to stop: see the latest with  {frontend.prefix}status")
    point = runs[0].run.spec.sweep
    sweeps = (sweep for sweep in runner.live_sweeps() if point is not None and sweep.sweep_id == point.sweep)
    return next(sweeps, runs[0])


def _live_runs() -> list[RunHandle]:
    """Return the live runs, the newest first."""
    handles = []
    for handle in runner.runs():
        with contextlib.suppress(UnknownRun):  # half made, or half removed
            if not handle.run.state.terminal:
                handles.append(handle)
    return handles


@dataclass(frozen=True, slots=True, kw_only=True)
class Stacks:
    """The stacks of ranks, on request with py-spy's texts. ``threads``, ``json``: the format to show."""

    report: StackReport
    native: Mapping[int, str] | None
    threads: bool
    json: bool


def stacks(_: Frontend, *, run: str | None, threads: bool, native: bool, json: bool = False) -> Stacks:
    """Take the stacks of a run. Raises UnknownRun."""
    handle = runner.attach(run)
    # imports that only this verb needs
    from nbdist.diagnosis.stacks import native_stacks, take_stacks

    return Stacks(
        report=take_stacks(handle.directory),
        native=native_stacks(handle.run) if native else None,
        threads=threads,
        json=json,
    )


def profile(_: Frontend, *, run: str | None, span: float) -> Profile:
    """Make a profile of a run, or return an ended one's. Raises UnknownRun, UsageMistake and LaunchError."""
    handle = runner.attach(run)
    if handle.run.state.terminal and (made := read_profile(handle.directory, complete=True)) is not None:
        return made
    failed = start_profile(handle.run, handle.directory, span).wait()
    made = read_profile(handle.directory)
    if failed or made is None:
        raise LaunchError(f"the profile of {handle.run.label} could not be written: is the disk full?")
    return made


def attach(_: Frontend, *, run: str | None) -> RunHandle | SweepHandle:
    """Return the run, or sweep, of this name. Raises UnknownRun."""
    handle = runner.attach(run) if run is None else _run_or_sweep(run)
    if isinstance(handle, RunHandle):
        handle.run  # noqa: B018 - an unreadable run raises here, not at its display
    return handle


@dataclass(frozen=True, slots=True, kw_only=True)
class Again:
    """A run to continue, with ``changes``, options in place of its own."""

    handle: RunHandle
    changes: tuple[str, ...]


def resume(_: Frontend, *, words: Sequence[str]) -> Again:
    """Split the words of ``resume``. Raises UnknownRun, and UsageMistake for a run of a scale."""
    before, named = options_first(words)[::2]
    handle = runner.attach(named[0] if named else None)
    if (point := handle.run.spec.sweep) is not None and point.of_scale:
        raise UsageMistake(
            f"{handle.run.label} was a run of a scale, which keeps no checkpoints: name another"
        )
    return Again(handle=handle, changes=(*before, *named[1:]))


_COUNTS = re.compile(r"\d{1,4}(?:,\d{1,4})*")


def scale(frontend: Frontend, *, words: Sequence[str], span: float) -> runner.Scale:
    """Split the words of ``scale``. Raises UnknownRun, and UsageMistake for numbers that cannot be."""
    typed, *more = words if words and _COUNTS.fullmatch(words[0]) else ("", *words)
    changes, kind, named = options_first(more)
    counts = tuple(sorted({int(count) for count in typed.split(",") if count}))
    if 0 in counts:
        raise UsageMistake(f"{typed}: write numbers of ranks, as in  {frontend.prefix}scale 1,2,4")
    if kind or (named and named[0].endswith(".py")):
        return runner.Scale(counts=counts, span=span, program=(*kind, *named), changes=tuple(changes))
    handle = runner.attach(named[0] if named else None)
    return runner.Scale(counts=counts, span=span, handle=handle, changes=(*changes, *named[1:]))


def export(_: Frontend, *, run: str | None, to: str | None) -> runner.Export:
    """Export a run. Raises UnknownRun, UsageMistake and LaunchError."""
    handle = runner.attach(run)
    return runner.export(handle, Path(to or handle.run.label))


@dataclass(frozen=True, slots=True, kw_only=True)
class Curves:
    """The address of the curves of runs. ``height`` of the frame in a notebook, in pixels."""

    handles: tuple[RunHandle, ...]
    reach: Reach
    height: int


def board(
    _: Frontend, *, run: Sequence[str], export: str | None, stop: bool, height: int = 0
) -> Curves | Report | bool:
    """Show or export curves, or ``stop`` the server. Raises UnknownRun, UsageMistake and LaunchError."""
    if stop:
        from nbdist.board import stop_board

        return stop_board(config.home())
    handles = [runner.attach(name) for name in run] or [runner.attach()]
    if export is not None:
        # an import that only this verb needs
        from nbdist.panel import write_report

        shown = [(handle.run, handle.directory) for handle in handles]
        return write_report(shown, Path(export), config.language())
    return Curves(handles=tuple(handles), reach=runner.reach_board(handles), height=height)
