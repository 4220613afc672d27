"""Summary, table and results file of the timings of all benchmarks.

This module alone decides the format of `results/NAME.json`:

    {"benchmark", "measured", "python", "platform", "cores", "load", "versions", "settings",
     "rows": [{"case", "metric", "unit", "median", "min", "max", "rounds", "vs", "ratio"}],
     "not_measured": [{"case", "reason"}], "notes": [str], "goals": [{"goal", "holds", "seen"}]}

A case has one row per metric and baseline; a case without a baseline has one with `vs` null. `ratio` is the
median of the ratios within each round, not the ratio of the medians: a slow minute of the machine then counts
on both sides.
"""

from __future__ import annotations

import compileall
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).resolve().parent / "results"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of a results file; `vs` names the case that `ratio` compares with."""

    case: str
    metric: str
    unit: str
    median: float
    minimum: float
    maximum: float
    rounds: int
    vs: str | None = None
    ratio: float | None = None

    def as_json(self) -> dict[str, Any]:
        return {
            "case": self.case,
            "metric": self.metric,
            "unit": self.unit,
            "median": rounded(self.median),
            "min": rounded(self.minimum),
            "max": rounded(self.maximum),
            "rounds": self.rounds,
            "vs": self.vs,
            "ratio": None if self.ratio is None else rounded(self.ratio),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class NotMeasured:
    """Case without figures, or with fewer than requested, and the reason."""

    case: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """Goal in words; `holds` is None if the figures do not decide it."""

    goal: str
    holds: bool | None
    seen: str

    def __str__(self) -> str:
        verdict = {True: "holds", False: "DOES NOT HOLD", None: "not judged"}[self.holds]
        return f"{verdict}: {self.goal} ({self.seen})"


@dataclass(slots=True)
class Samples:
    """Every value measured, by case and metric, and by the round in which it was taken."""

    unit: str = "s"
    _taken: dict[tuple[str, str], dict[int, float]] = field(default_factory=dict)

    def add(self, case: str, metric: str, round_number: int, value: float) -> None:
        self._taken.setdefault((case, metric), {})[round_number] = value

    def __bool__(self) -> bool:
        return bool(self._taken)

    def cases(self) -> list[str]:
        return list(dict.fromkeys(case for case, _ in self._taken))

    def metrics(self, case: str) -> list[str]:
        return [metric for measured, metric in self._taken if measured == case]

    def values(self, case: str, metric: str) -> list[float]:
        return list(self._taken.get((case, metric), {}).values())

    def median(self, case: str, metric: str) -> float | None:
        values = self.values(case, metric)
        return statistics.median(values) if values else None

    def ratios(self, case: str, metric: str, vs: str) -> list[float]:
        """Return `case` / `vs` in every round that has both."""
        mine = self._taken.get((case, metric), {})
        theirs = self._taken.get((vs, metric), {})
        return [mine[n] / theirs[n] for n in mine.keys() & theirs.keys() if theirs[n] > 0]

    def ratio(self, case: str, metric: str, vs: str) -> float | None:
        """The median of `ratios`; None where no round has both."""
        ratios = self.ratios(case, metric, vs)
        return statistics.median(ratios) if ratios else None

    def differences(self, case: str, metric: str, vs: str, vs_metric: str) -> list[float]:
        """Return `case` - `vs` in every round that has both."""
        mine = self._taken.get((case, metric), {})
        theirs = self._taken.get((vs, vs_metric), {})
        return [mine[n] - theirs[n] for n in mine.keys() & theirs.keys()]

    def rows(self, baselines: Mapping[str, Sequence[str]]) -> list[Row]:
        """Return the rows; `baselines` has, for each case, those to compare it with."""
        return [
            self._row(case, metric, vs)
            for case, metric in self._taken
            for vs in self._comparable(case, metric, baselines.get(case, ())) or [None]
        ]

    def _comparable(self, case: str, metric: str, baselines: Sequence[str]) -> list[str | None]:
        return [vs for vs in baselines if vs != case and self.ratio(case, metric, vs) is not None]

    def _row(self, case: str, metric: str, vs: str | None) -> Row:
        values = self.values(case, metric)
        return Row(
            case=case,
            metric=metric,
            unit=self.unit,
            median=statistics.median(values),
            minimum=min(values),
            maximum=max(values),
            rounds=len(values),
            vs=vs,
            ratio=None if vs is None else self.ratio(case, metric, vs),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Machine, load and versions of a benchmark, as far as they affect the figures."""

    measured: str
    python: str
    platform: str
    cores: int
    load_before: tuple[float, ...]
    versions: Mapping[str, str]

    @classmethod
    def now(cls, packages: Iterable[str]) -> Machine:
        return cls(
            measured=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            python=platform.python_version(),
            platform=f"{platform.system()} {platform.machine()}",
            cores=usable_cores(),
            load_before=load(),
            versions={package: version(package) for package in packages},
        )

    def header(self) -> str:
        versions = ", ".join(f"{package} {number}" for package, number in self.versions.items())
        averages = " ".join(f"{average:.2f}" for average in self.load_before)
        return (
            f"{self.measured}, Python {self.python}, {self.platform}, "
            f"{self.cores} cores, load {averages}\n{versions}"
        )


def write_results(
    name: str,
    machine: Machine,
    rows: Sequence[Row],
    *,
    settings: Mapping[str, object],
    not_measured: Sequence[NotMeasured] = (),
    notes: Sequence[str] = (),
    goals: Sequence[Goal] = (),
    is_a_look: bool = False,
) -> None:
    """Write `results/name.json` at once, and print so. `is_a_look`: some cases or rounds are no
    measurement, and are not written."""
    if is_a_look:
        print("\nnot written: a look, not a measurement")
        return
    results = {
        "benchmark": name,
        "measured": machine.measured,
        "python": machine.python,
        "platform": machine.platform,
        "cores": machine.cores,
        "load": {"before": machine.load_before, "after": load()},
        "versions": dict(machine.versions),
        "settings": dict(settings),
        "rows": [row.as_json() for row in rows],
        "not_measured": [asdict(missing) for missing in not_measured],
        "notes": list(notes),
        "goals": [asdict(goal) for goal in goals],
    }
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    unfinished = path.with_suffix(".json.part")
    unfinished.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", "utf-8")
    unfinished.replace(path)
    print(f"\nwritten: benchmarks/results/{path.name}")


def table(headings: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Return text in columns: the first to the left, the others to the right."""
    widths = [max(len(cell) for cell in column) for column in zip(headings, *lines, strict=True)]

    def line(cells: Sequence[str]) -> str:
        first, *others = (
            cell.rjust(width) if place else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(cells, widths, strict=True))
        )
        return "  ".join([first, *others]).rstrip()

    return "\n".join([line(headings), line(["-" * width for width in widths]), *map(line, lines)])


def spread(values: Sequence[float], digits: int = 2) -> str:
    """Return `median (min-max)`, or a dash where nothing was measured."""
    if not values:
        return "-"
    middle, least, most = (
        f"{value:.{digits}f}" for value in (statistics.median(values), min(values), max(values))
    )
    return f"{middle} ({least}-{most})"


def times(ratio: float | None) -> str:
    return "-" if ratio is None else f"{ratio:.2f} x"


def version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        # a checkout on PYTHONPATH can be imported, and has no metadata
        return "checkout" if find_spec(package) else "not installed"


def without_paths(text: str, *directories: Path) -> str:
    """Return `text` with names for these directories and those of Python.

    A results file is committed and read on other machines.
    """
    named = {str(directory): "<scratch>" for directory in directories}
    named |= {sys.prefix: "<environment>", sys.base_prefix: "<python>", str(Path.home()): "~"}
    for directory in sorted(named, key=len, reverse=True):
        if directory != os.sep:
            text = text.replace(directory, named[directory])
    return text


def load() -> tuple[float, ...]:
    return tuple(round(average, 2) for average in os.getloadavg())


def compile_nbdist() -> None:
    """Compile nbdist to bytecode, as an installer does: with PYTHONDONTWRITEBYTECODE a checkout has none, and
    a kernel compiles for a quarter of a second."""
    spec = find_spec("nbdist")
    assert spec is not None, "it is what is measured"
    assert spec.submodule_search_locations is not None, "it is a package"
    for place in spec.submodule_search_locations:
        compileall.compile_dir(place, quiet=2)


def usable_cores() -> int:
    if hasattr(os, "sched_getaffinity"):  # not on macOS
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def rounded(value: float) -> float:
    return round(value, 4)
