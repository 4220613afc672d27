"""Several runs beside each other: inputs, results, and the differences of their programs. This module
alone decides what is compared; commands, magics and the server encode it."""

from __future__ import annotations

import difflib
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from math import isfinite, isnan
from typing import Any

from nbdist.diagnosis.accuracy import METRIC, Change, Trained, changes
from nbdist.diagnosis.training import Training
from nbdist.feed.curves import Curve, has_diverged, main_tag, picked, read_curves
from nbdist.feed.explanation import time_spent
from nbdist.feed.labels import clipped
from nbdist.feed.training_view import read_training
from nbdist.model import Run, RunState
from nbdist.model.spec import Value
from nbdist.privacy import Privacy
from nbdist.store import RunDirectory
from nbdist.store.metrics import read_hparams
from nbdist.store.scraped.log import read_points
from nbdist.store.step_records import read_records
from nbdist.text import size_text
from nbdist.version import JSON_VERSION
from nbdist.worker.result_files import CALL

FAILED = (RunState.FAILED, RunState.LOST)

_TAGS = 50
_TEXT = 200  # characters of a value
_PROGRAM = 200_000  # characters of a program whose lines are compared
_DIFF = 2_000  # lines
_CHANGED = 4  # runs with more ranks whose trainings are compared
_POINTS = 100_000  # of all curves that a page gets
_EACH = (60, 600)  # points of one of them

# words of a metric's name by which more, or less, of it is better
_HIGHER = frozenset(
    {"acc", "accuracy", "auc", "auroc", "bleu", "f1", "iou", "map", "mcc", "miou", "precision", "psnr", "r2"}
    | {"recall", "return", "reward", "rouge", "score", "ssim", "top1", "top5", "throughput"}
)
_LOWER = frozenset(
    {"bpb", "bpc", "cer", "err", "error", "fid", "loss", "losses", "mae", "mse", "nll", "perplexity", "ppl"}
    | {"rmse", "wer"}
)
_OTHER = frozenset({"scale", "scaler", "weight", "lr"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One property of all runs, in their order; None where a run has none. ``steps`` are those of a
    metric's best values. ``name`` is a flag, a user's name, or in the groups ``run``, ``code``,
    ``machine``, ``training`` and ``time`` a code of ``text/compare.toml``."""

    group: str
    name: str
    values: tuple[Value, ...]
    steps: tuple[int | None, ...] = ()

    @property
    def differs(self) -> bool:
        first, *others = map(_plain, self.values)
        return any(value != first for value in others)

    def to_dict(self) -> dict[str, Any]:
        data = {
            "group": self.group,
            "name": clipped(self.name, _TEXT),
            "values": [_plain(value) for value in self.values],
            "differs": self.differs,
        }
        return data | {"steps": list(self.steps)} if self.steps else data


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One of the runs. ``elapsed`` in seconds. ``diff`` are lines of a unified diff from the first run's
    program, without secrets; None where one of the programs is not known any more. ``changes`` of the
    training are those from the run with the fewest ranks."""

    run: Run
    letter: str
    elapsed: float
    curves: tuple[Curve, ...]
    diff: tuple[str, ...] | None
    changes: tuple[Change, ...] = ()

    @property
    def diverged(self) -> bool:
        """Return True where the loss, or else the first metric, has diverged."""
        if not self.curves:
            return False
        tag = main_tag([curve.tag for curve in self.curves])
        curve = next(curve for curve in self.curves if curve.tag == tag)
        finite = [value for _, value in curve.points if isfinite(value)]
        return has_diverged(tag, finite, curve.last)

    def to_dict(self) -> dict[str, Any]:
        run = self.run
        return {
            "run_id": run.run_id,
            "name": run.spec.name,
            "label": run.label,
            "letter": self.letter,
            "state": run.state.value,
            "live": not run.state.terminal,
            "created": run.spec.created,
            "elapsed": round(self.elapsed, 1),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Runs in the order in which they were named. ``step`` is that of the rows of the group ``at``."""

    runs: tuple[Compared, ...]
    rows: tuple[Row, ...]
    step: int | None

    @property
    def base(self) -> Compared:
        """Return the first run with the fewest ranks."""
        return min(self.runs, key=lambda run: run.run.spec.world_size)

    def shown(self, *, all_rows: bool) -> list[Row]:
        """Return the rows in which the runs differ, or all of them."""
        return [row for row in self.rows if all_rows or row.differs]

    def best(self, metric: str = "") -> int | None:
        """Return the run with the best value of ``metric``, or else of the main metric, among those that
        neither failed nor diverged; None where the metric's name does not tell the better value."""
        row, _ = main_metric(self, metric)
        if row is None or best_of(row.name) is None:
            return None
        return next((number for number in _ranked(self, metric) if not self.runs[number].diverged), None)

    def to_dict(self, *, all_rows: bool, curves: bool = False, metric: str = "") -> dict[str, Any]:
        """Return it for JSON, with the programs' differences or, with ``curves``, each run's curves, which
        have diverged, and which run is the best by ``metric``."""
        rows = self.shown(all_rows=all_rows)
        data = {
            "version": JSON_VERSION,
            "runs": [run.to_dict() for run in self.runs],
            "step": self.step,
            "changed": [
                {"run_id": run.run.run_id, "against": self.base.run.run_id, "changes": listed}
                for run in self.runs
                if (listed := [change.to_dict() for change in run.changes])
            ],
            "rows": [row.to_dict() for row in rows if row.group != "hparam"],
            "untrusted": {"rows": [row.to_dict() for row in rows if row.group == "hparam"]},
        }
        if curves:
            count = sum(len(compared.curves) for compared in self.runs)
            most = max(_EACH[0], min(_EACH[1], _POINTS // max(1, count)))
            columns = [[_columns(curve, run.run, most) for curve in run.curves[:_TAGS]] for run in self.runs]
            diverged = [number for number, run in enumerate(self.runs) if run.diverged]
            return data | {"curves": columns, "best": self.best(metric), "diverged": diverged}
        first, *others = self.runs
        diffs = [{"run_id": other.run.run_id, "lines": other.diff} for other in others]
        return data | {"against": first.run.run_id, "diffs": diffs}


def compare(
    runs: Sequence[tuple[Run, RunDirectory]], *, step: int | None = None, now: float | None = None
) -> Comparison:
    """Return the runs at ``now`` (Unix seconds). ``step``: where to compare metrics, too; else the
    shortest run's end."""
    moment = time.time() if now is None else now
    programs = [_program(run, directory) for run, directory in runs]
    changed = dict(_changed(runs))
    compared = tuple(
        Compared(
            run=run,
            letter=letter_of(number),
            elapsed=run.elapsed(moment),
            curves=read_curves(run, directory, len(runs)),
            diff=_diff(programs[0], programs[number]),
            changes=changed.get(number, ()),
        )
        for number, (run, directory) in enumerate(runs)
    )
    ends = [max(int(curve.points[-1][0]) for curve in run.curves) for run in compared if run.curves]
    at = step if step is not None else min(ends) if len(set(ends)) > 1 else None
    parts: list[Mapping[tuple[str, str], Value]] = [
        dict(_inputs(run, directory)) | dict(_machine(run, directory, len(runs))) for run, directory in runs
    ]
    outcome = [dict(_outcome(run)) for run in compared]
    rows = [*_rows(outcome), *_metrics(compared, at), *_rows(parts), *_changes(compared)]
    # results first, then inputs; the rows of a group in their order
    rows.sort(key=lambda row: _GROUPS.index(row.group))
    return Comparison(runs=compared, rows=tuple(rows), step=at)


def _changed(runs: Sequence[tuple[Run, RunDirectory]]) -> Iterator[tuple[int, tuple[Change, ...]]]:
    """Yield numbers of runs with more ranks than the fewest, and what changes in their trainings."""
    ranks = [run.spec.world_size for run, _ in runs]
    fewest = ranks.index(min(ranks))
    more = (number for number, count in enumerate(ranks) if count > ranks[fewest])
    for number in islice(more, _CHANGED):
        base, other = (Trained(ranks[at], read_records(*runs[at])) for at in (fewest, number))
        found = changes(base, other)
        told = runs[number][0].state is RunState.FINISHED and not _log_alike(*runs[number])
        yield number, tuple(change for change in found if told or change.code != METRIC)


def _log_alike(run: Run, directory: RunDirectory) -> bool:
    """Return whether all ranks log the metrics of rank 0, so that their means are shown."""
    first, *others = (
        {tag for each in points for tag in each.values} for points in read_points(run, directory)
    )
    return bool(first) and all(first <= other for other in others)


_GROUPS = (
    *("sweep", "run", "last", "best", "at", "hparam", "training", "time"),
    *("argument", "option", "input", "code", "version", "machine"),
)


def letter_of(number: int) -> str:
    """Return A to Z, AA, AB, …"""
    letters = ""
    while number >= 0:
        letters, number = chr(ord("A") + number % 26) + letters, number // 26 - 1
    return letters


def _rows(parts: Sequence[Mapping[tuple[str, str], Value]]) -> Iterator[Row]:
    for group, name in dict.fromkeys(key for part in parts for key in part):
        values = tuple(part.get((group, name)) for part in parts)
        if any(value not in (None, "") for value in values):
            yield Row(group=group, name=name, values=values)


Property = tuple[tuple[str, str], Value]


def _outcome(compared: Compared) -> Iterator[Property]:
    yield ("run", "state"), compared.run.state.value
    yield ("run", "duration"), round(compared.elapsed, 1)
    yield ("run", "resumed"), compared.run.spec.resumed_label


def _inputs(run: Run, directory: RunDirectory) -> Iterator[Property]:
    spec = run.spec.shown()
    if spec.sweep is not None:
        for name, value in spec.sweep.params.items():
            yield ("sweep", name), value
    for name, setting in read_hparams(run, directory).items():
        yield ("hparam", name), setting
    for name, value in arguments_of(spec.args):
        yield ("argument", name), value
    for name in ("framework", "backend", "nodes"):
        yield ("option", f"--{name}"), getattr(spec, name)
    yield ("option", "--on"), spec.engine or "local"
    for option in spec.engine_options:
        name, _, value = option.partition("=")
        yield ("option", f"--{spec.engine} {name}"), value or True
    for name, value in spec.environment.items():
        yield ("option", f"--env {name}"), value
    for name in ("timeout", "hang_after", "retries", "memory", "scrape"):
        yield ("option", f"--{name.replace('_', '-')}"), getattr(spec, name)
    yield ("option", "--detach"), spec.detached
    yield ("option", "--cwd"), spec.cwd
    for given in spec.inputs:
        if given.name != CALL:
            about = (given.type, "" if given.is_definition else size_text(given.size), given.digest)
            yield ("input", given.name), given.value or ", ".join(filter(None, about))
    yield ("code", "notebook"), spec.notebook
    yield ("code", "script"), "" if directory.is_cell(spec.program) else spec.module or spec.program
    commit, clean = _commit(directory)
    yield ("code", "commit"), commit
    yield ("code", "clean"), clean
    for name, value in spec.versions.items():
        yield ("version", name), value


def _machine(run: Run, directory: RunDirectory, runs: int) -> Iterator[Property]:
    spec = run.spec
    devices = dict.fromkeys(rank.device for rank in spec.ranks)
    yield ("machine", "ranks"), spec.world_size
    yield ("machine", "devices"), ", ".join(map(str, devices))
    yield ("machine", "gpus"), ", ".join(dict.fromkeys(device.name for device in devices if device.name))
    training = read_training(run, directory)
    spent = time_spent(run, directory, runs)
    for name, share in (("wait", spent.wait), ("cpu", spent.cpu), ("gpu", spent.gpu)):
        yield ("time", name), None if share is None else share.mean
    if training is not None:
        # its waits instead of those of the whole run
        yield from _training(training)


_FACTS = (
    *("batch", "global_batch", "accumulation", "epoch_steps", "epoch_samples", "step_rate", "samples_rate"),
    *("optimizer", "lr", "schedule", "parameters", "gradient_bytes", "workers"),
)


def _training(training: Training) -> Iterator[Property]:
    for name in _FACTS:
        value = getattr(training.facts, name)
        yield ("training", name), float(f"{value:.4g}") if isinstance(value, float) else value
    for part, share in training.mean.items():
        yield ("time", part), 100 * share


_NAME = re.compile(r"[-+~]*[A-Za-z][\w.\-/@]*")
_SETTING = re.compile(rf"{_NAME.pattern}=")
_FLAG = re.compile(r"--?[A-Za-z]")


def arguments_of(words: Sequence[str]) -> Iterator[tuple[str, Value]]:
    """Yield a program's arguments by name (``--lr 0.1``, ``lr=0.1``, ``--fast``), others by number."""
    by_name: dict[str, list[str]] = {}
    left, number = list(words), 0
    while left:
        word = left.pop(0)
        name, is_set, value = word.partition("=")
        if is_set and _NAME.fullmatch(name):
            by_name.setdefault(name, []).append(value)
        elif _FLAG.match(word):
            values = by_name.setdefault(word, [])
            if left and not _FLAG.match(left[0]) and not _SETTING.match(left[0]):
                values.append(left.pop(0))
        else:
            number += 1
            by_name[f"[{number}]"] = [word]
    for name, values in by_name.items():
        yield name, " ".join(values) if values else True


def _commit(directory: RunDirectory) -> tuple[str, bool | None]:
    """Return the commit, and whether tracked files were unchanged; nothing where git has no answer."""
    with suppress(OSError):
        lines = directory.git.read_text(errors="replace").splitlines()
        if commits := [line.split()[-1] for line in lines if line.startswith("# branch.oid ")]:
            return commits[0][:12], all(line.startswith("#") for line in lines)
    return "", None


def _metrics(runs: Sequence[Compared], step: int | None) -> Iterator[Row]:
    by_tag = [{curve.tag: curve for curve in run.curves} for run in runs]
    for tag in islice(dict.fromkeys(tag for curves in by_tag for tag in curves), _TAGS):
        curves = [known.get(tag) for known in by_tag]
        row = partial(Row, name=tag)
        yield row(group="last", values=tuple(None if curve is None else curve.last for curve in curves))
        if (best := best_of(tag)) is not None:
            points = [None if curve is None else _best(curve, best) for curve in curves]
            yield row(
                group="best",
                values=tuple(None if point is None else point[1] for point in points),
                steps=tuple(None if point is None else int(point[0]) for point in points),
            )
        if step is not None:
            values = tuple(None if curve is None else _at(curve, step) for curve in curves)
            yield row(group="at", values=values)


def best_of(tag: str) -> Callable[..., Any] | None:
    """Return ``max`` or ``min``, by the words in a metric's name; None where these do not tell."""
    words = set(re.split(r"[^a-z0-9]+", tag.rpartition("/")[2].lower()))
    if words & _OTHER:
        return None
    return min if words & _LOWER else max if words & _HIGHER else None


def _best(curve: Curve, best: Callable[..., Any]) -> tuple[float, float] | None:
    finite = [point for point in curve.points if isfinite(point[1])]
    return best(finite, key=lambda point: point[1]) if finite else None


def _at(curve: Curve, step: int) -> float | None:
    before = [point for point in curve.points if point[0] <= step]
    return max(before, key=lambda point: point[0])[1] if before else None


def _program(run: Run, directory: RunDirectory) -> tuple[str, ...] | None:
    """Return the lines of the program as it ran; None where it is unreadable, or a script changed since."""
    path = directory.program(run.spec.program)
    try:
        if not directory.is_cell(run.spec.program) and path.stat().st_mtime > run.spec.created:
            return None
        text = path.read_text(encoding="utf-8", errors="replace")
    except (OSError, ValueError):
        return None
    if len(text) > _PROGRAM:
        return None
    return tuple(Privacy(run.spec).clean(text).strip("\n").split("\n"))


def _diff(first: tuple[str, ...] | None, other: tuple[str, ...] | None) -> tuple[str, ...] | None:
    if first is None or other is None:
        return None
    # the first two lines name files
    return tuple(islice(difflib.unified_diff(first, other, lineterm=""), 2, _DIFF + 2))


def _changes(runs: Sequence[Compared]) -> Iterator[Row]:
    """Yield the number of lines that each program has more, and fewer, than the first."""
    counts: list[Value] = []
    for run in runs:
        more, fewer = (sum(line.startswith(sign) for line in run.diff or ()) for sign in "+-")
        counts.append(None if run.diff is None else f"+{more} \N{MINUS SIGN}{fewer}" if run.diff else "=")
    yield Row(group="code", name="program", values=tuple(counts))


def _columns(curve: Curve, run: Run, most: int) -> dict[str, Any]:
    begin = run.started or run.spec.created
    places = picked(len(curve.points), most)
    values = [curve.points[at][1] for at in places]
    return {
        "tag": clipped(curve.tag, _TEXT),
        "steps": [int(curve.points[at][0]) for at in places],
        "times": [round(curve.times[at] - begin, 1) for at in places],
        "values": [float(f"{value:.6g}") if isfinite(value) else None for value in values],
    }


def _plain(value: Value) -> Value:
    if isinstance(value, float) and not isfinite(value):
        return str(value)
    return clipped(value, _TEXT) if isinstance(value, str) else value


def main_metric(points: Comparison, wanted: str = "") -> tuple[Row | None, bool]:
    """Return the row that sorts the points at first, of ``wanted``, else of the first metric whose name
    tells the better value, else of the first; and whether the highest value is first."""
    metrics = [row for row in points.rows if row.group in ("last", "best")]
    names = [wanted] if wanted else [row.name for row in metrics]
    name = next((name for name in names if best_of(name)), names[0] if names else "")
    rows = {row.group: row for row in metrics if row.name == name}
    return rows.get("best", rows.get("last")), best_of(name) is max


def ranking(points: Comparison, wanted: str = "") -> list[int]:
    """Return the numbers of the points, the best first; those without a value or that failed are last."""
    order = _ranked(points, wanted)
    return [*order, *(number for number in range(len(points.runs)) if number not in order)]


def _ranked(points: Comparison, wanted: str) -> list[int]:
    row, descending = main_metric(points, wanted)
    values = row.values if row is not None else ()
    known = {
        number: value
        for number, value in enumerate(values)
        if isinstance(value, (int, float)) and not isnan(value)
        if points.runs[number].run.state not in FAILED
    }
    return sorted(known, key=lambda number: known[number], reverse=descending)
