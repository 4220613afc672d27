"""How a sweep stands: its points, each a run that has ended, goes on or waits for room."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import isnan
from typing import Any

from nbdist.diagnosis import failure_headline, first_failure
from nbdist.diagnosis.report import error_text
from nbdist.feed.ansi import printable
from nbdist.feed.comparison import Comparison, Row, best_of, compare
from nbdist.feed.labels import clipped
from nbdist.model import Reason, Run, RunState
from nbdist.model.decoding import MALFORMED
from nbdist.model.sweep import Sweep
from nbdist.store import RunDirectory, RunReader
from nbdist.store.journal import read_object
from nbdist.store.paths import SweepDirectory
from nbdist.store.run_store import is_run_locked, read_sweep
from nbdist.text import reason_text

_CAUSE = 200  # characters
_FAILED = (RunState.FAILED, RunState.LOST)


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepView:
    """``runs`` are those of all points, in their order; of a point that waits its run is PENDING, and has no
    directory. ``live``: a process goes on with it. ``reason`` is why it ended early."""

    sweep: Sweep
    runs: tuple[tuple[Run, RunDirectory], ...]
    live: bool
    reason: Reason

    @property
    def counts(self) -> Mapping[str, int]:
        """How many points have ended, failed, go on, and wait, or would wait had the sweep not ended."""
        begun = Counter(
            run.state for run, _ in self.runs if run.supervisor is not None or run.state in _FAILED
        )
        ended = sum(count for state, count in begun.items() if state.terminal)
        running = begun.total() - ended
        return {
            "points": len(self.runs),
            "ended": ended,
            "failed": sum(begun[state] for state in _FAILED),
            "running": running,
            "waiting": len(self.runs) - ended - running,
        }

    @property
    def state(self) -> RunState:
        if self.live:
            return RunState.RUNNING
        states = {run.state for run, _ in self.runs}
        if states <= {RunState.SUCCEEDED}:
            return RunState.SUCCEEDED
        return self._ended if self._ended is not RunState.SUCCEEDED else RunState.FAILED

    @property
    def _ended(self) -> RunState:
        if not self.reason:
            return RunState.SUCCEEDED
        states = {"sweep-stuck": RunState.FAILED, "sweep-ended": RunState.LOST}
        return states.get(self.reason.code, RunState.CANCELLED)

    def compare(self) -> Comparison:
        """The points beside each other: of their rows those that tell one from another."""
        found = compare(self.runs)
        return replace(found, rows=tuple(filter(_is_shown, found.rows)), step=None)


# what came out stands there from the first point on; what went in are the values of the sweep
_ALWAYS = frozenset({"sweep", "run", "last", "best"})
_NEVER = frozenset({"at", "argument", "option", "code", "version", "time"})


def _is_shown(row: Row) -> bool:
    return row.group in _ALWAYS or (row.differs and row.group not in _NEVER)


class SweepReader:
    """Looks at one sweep again and again. Raises UnknownRun and NotPrivate where it cannot be read."""

    def __init__(self, directory: SweepDirectory) -> None:
        self.sweep = read_sweep(directory)
        self._directory = directory
        runs = directory.path.parent.parent / "runs"
        self._runs = [RunDirectory(runs / run_id) for run_id in self.sweep.runs]
        self._readers = list(map(RunReader, self._runs))
        self._ended: dict[int, Run] = {}

    def look(self) -> SweepView:
        # asked first: what it records before it ends is seen then
        live = is_run_locked(self._directory)
        reason = Reason() if live else self._reason()
        found = [self._look(number, reason, live=live) for number in range(len(self._runs))]
        runs = tuple(zip(found, self._runs, strict=True))
        return SweepView(sweep=self.sweep, runs=runs, live=live, reason=reason)

    def _look(self, number: int, reason: Reason, *, live: bool) -> Run:
        if number in self._ended:
            return self._ended[number]
        run = self._readers[number].look()
        if run is None:
            run = Run.of(self.sweep.run_of(number, created=self.sweep.created))
            return run if live else replace(run, state=RunState.CANCELLED, reason=reason)
        if run.state.terminal:
            self._ended[number] = run
        return run

    def _reason(self) -> Reason:
        """Why it ended early; none where it came to its end."""
        ended = read_object(self._directory.ended)
        try:
            return Reason.decode(ended["reason"])
        except MALFORMED:
            return Reason("sweep-ended")  # nothing was written: it was killed


class SweepTable:
    """What screens show of a sweep, again and again, in one language."""

    def __init__(self, language: str) -> None:
        self._language = language
        self._causes: dict[str, str] = {}

    def compare(self, view: SweepView) -> Comparison:
        """The points with why some have failed."""
        found = view.compare()
        causes = tuple(self.cause(run, directory) for run, directory in view.runs)
        if not any(causes):
            return found
        return replace(found, rows=(*found.rows, Row(group="run", name="failure", values=causes)))

    def cause(self, run: Run, directory: RunDirectory) -> str:
        """Why a run has failed, in a line: the error, else how it ended; empty of others."""
        if run.state not in _FAILED:
            return ""
        if run.run_id not in self._causes:
            failure = first_failure(run, directory)
            said = "" if failure is None else error_text(failure) or failure_headline(failure, self._language)
            line = (said or reason_text(run.reason, self._language)).partition("\n")[0]
            self._causes[run.run_id] = clipped(printable(line), _CAUSE)
        return self._causes[run.run_id]

    def data(self, view: SweepView) -> dict[str, Any]:
        """``sweep`` in the page's protocol: a comparison of all points, and how the sweep stands."""
        found = self.compare(view)
        row, descending = main_metric(found, view.sweep.metric)
        return found.to_dict(all_rows=True, curves=True) | {
            "sweep_id": view.sweep.sweep_id,
            "label": view.sweep.label,
            "state": view.state.value,
            "live": view.live,
            "reason": reason_text(view.reason, self._language),
            "counts": dict(view.counts),
            "sort": None if row is None else {"group": row.group, "name": row.name, "descending": descending},
            "order": ranking(found, view.sweep.metric),
        }


def main_metric(found: Comparison, wanted: str = "") -> tuple[Row | None, bool]:
    """What the points of a sweep are sorted by at first, the best where its name tells which that is, and
    whether from the highest value down. The metric ``wanted``, else the first whose name tells, else the
    first. None where there is no metric (of this name) yet."""
    metrics = [row for row in found.rows if row.group in ("last", "best")]
    names = [wanted] if wanted else [row.name for row in metrics]
    name = next((name for name in names if best_of(name)), names[0] if names else "")
    rows = {row.group: row for row in metrics if row.name == name}
    return rows.get("best", rows.get("last")), best_of(name) is max


def ranking(found: Comparison, wanted: str = "") -> list[int]:
    """The numbers of the points, the best first; those without a value, and those that have failed, are last
    in their order."""
    row, descending = main_metric(found, wanted)
    values = row.values if row is not None else ()
    known = {number: value for number, value in enumerate(values) if isinstance(value, (int, float))}
    failed = {number for number, one in enumerate(found.runs) if one.run.state in _FAILED}
    known = {number: value for number, value in known.items() if not isnan(value) and number not in failed}
    order = sorted(known, key=lambda number: known[number], reverse=descending)
    return [*order, *(number for number in range(len(found.runs)) if number not in known)]
