"""A sweep as it stands: its points, each a run that has ended, goes on or waits for room."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from nbdist.diagnosis import failure_headline, first_failure
from nbdist.diagnosis.report import error_text
from nbdist.feed.ansi import printable
from nbdist.feed.comparison import FAILED, Comparison, Row, compare, main_metric, ranking
from nbdist.feed.labels import clipped
from nbdist.feed.scale import Scaling, scaling_of
from nbdist.model import Reason, Run, RunState
from nbdist.model.decoding import MALFORMED
from nbdist.model.sweep import Sweep
from nbdist.store import RunDirectory, RunReader
from nbdist.store.journal import read_object
from nbdist.store.paths import SweepDirectory
from nbdist.store.run_store import is_run_locked, read_sweep
from nbdist.text import reason_text

_CAUSE = 200  # characters


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepView:
    """A sweep, with the ``runs`` of all points in their order; a waiting point's run is PENDING and has no
    directory. ``live``: a process goes on with it. ``reason``: why it ended early."""

    sweep: Sweep
    runs: tuple[tuple[Run, RunDirectory], ...]
    live: bool
    reason: Reason

    @property
    def counts(self) -> Mapping[str, int]:
        """Return the numbers of points: ended, failed, running, and waiting, also once it has ended."""
        begun = Counter(
            run.state for run, _ in self.runs if run.supervisor is not None or run.state in FAILED
        )
        ended = sum(count for state, count in begun.items() if state.terminal)
        running = begun.total() - ended
        return {
            "points": len(self.runs),
            "ended": ended,
            "failed": sum(begun[state] for state in FAILED),
            "running": running,
            "waiting": len(self.runs) - ended - running,
        }

    @property
    def state(self) -> RunState:
        if self.live:
            return RunState.RUNNING
        if {run.state for run, _ in self.runs} <= {RunState.FINISHED}:
            return RunState.FINISHED
        states = {"": RunState.FAILED, "sweep-stuck": RunState.FAILED, "sweep-ended": RunState.LOST}
        return states.get(self.reason.code, RunState.STOPPED)

    @property
    def scaling(self) -> Scaling | None:
        """Return the rates of a scale's points; None for another sweep."""
        return None if self.sweep.span is None else scaling_of(self.runs)

    def compare(self) -> Comparison:
        """Return the points beside each other, with the rows that tell them apart."""
        compared = compare(self.runs)
        return replace(compared, rows=tuple(filter(_is_shown, compared.rows)), step=None)


# results stand there from the first point on; inputs are the values of the sweep
_ALWAYS = frozenset({"sweep", "run", "last", "best"})
_NEVER = frozenset({"at", "argument", "option", "code", "version", "time"})


def _is_shown(row: Row) -> bool:
    return row.group in _ALWAYS or (row.differs and row.group not in _NEVER)


class SweepReader:
    """A reader of one sweep. Raises UnknownRun and NotPrivate where it cannot be read."""

    def __init__(self, directory: SweepDirectory) -> None:
        self.sweep = read_sweep(directory)
        self._directory = directory
        runs = directory.path.parent.parent / "runs"
        self._runs = [RunDirectory(runs / run_id) for run_id in self.sweep.runs]
        self._readers = list(map(RunReader, self._runs))
        self._ended: dict[int, Run] = {}

    def look(self) -> SweepView:
        # before the runs, to see what it records before it ends
        live = is_run_locked(self._directory)
        reason = Reason() if live else self._reason()
        runs = [self._look(number, reason, live=live) for number in range(len(self._runs))]
        pairs = tuple(zip(runs, self._runs, strict=True))
        return SweepView(sweep=self.sweep, runs=pairs, live=live, reason=reason)

    def _look(self, number: int, reason: Reason, *, live: bool) -> Run:
        if number in self._ended:
            return self._ended[number]
        run = self._readers[number].look()
        if run is None:
            run = Run.of(self.sweep.run_of(number, created=self.sweep.created))
            return run if live else replace(run, state=RunState.STOPPED, reason=reason)
        if run.state.terminal:
            self._ended[number] = run
        return run

    def _reason(self) -> Reason:
        ended = read_object(self._directory.ended)
        try:
            return Reason.decode(ended["reason"])
        except MALFORMED:
            return Reason("sweep-ended")  # no file: it was killed


class SweepTable:
    """The content of screens that show a sweep, again and again, in one language."""

    def __init__(self, language: str) -> None:
        self._language = language
        self._causes: dict[str, str] = {}

    def compare(self, view: SweepView) -> Comparison:
        """Return the points, and why some have failed."""
        points = view.compare()
        causes = tuple(self.cause(run, directory) for run, directory in view.runs)
        if not any(causes):
            return points
        return replace(points, rows=(*points.rows, Row(group="run", name="failure", values=causes)))

    def cause(self, run: Run, directory: RunDirectory) -> str:
        """Return a failed run's error in one line, else how it ended; empty for other runs."""
        if run.state not in FAILED:
            return ""
        if run.run_id not in self._causes:
            failure = first_failure(run, directory)
            text = "" if failure is None else error_text(failure) or failure_headline(failure, self._language)
            line = (text or reason_text(run.reason, self._language)).partition("\n")[0]
            self._causes[run.run_id] = clipped(printable(line), _CAUSE)
        return self._causes[run.run_id]

    def data(self, view: SweepView) -> dict[str, Any]:
        """Return ``sweep`` of the page's protocol: a comparison of all points, and the sweep's state."""
        points = self.compare(view)
        row, descending = main_metric(points, view.sweep.metric)
        data = points.to_dict(all_rows=True, curves=True, metric=view.sweep.metric) | {
            "sweep_id": view.sweep.sweep_id,
            "label": view.sweep.label,
            "state": view.state.value,
            "live": view.live,
            "reason": reason_text(view.reason, self._language),
            "counts": dict(view.counts),
            "sort": None if row is None else {"group": row.group, "name": row.name, "descending": descending},
            "order": ranking(points, view.sweep.metric),
        }
        scaling = view.scaling
        return data if scaling is None else data | {"scale": scaling.to_dict(self._language)}
