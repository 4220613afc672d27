"""The score of a report: the header of a program compared with the report.

This module alone decides what counts as right. The words in a header are regular expressions.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass
from pathlib import Path

PAGE = Path(__file__).parents[2] / "benchmarks" / "diagnosis-score.md"
MARK = "# here"
COLUMNS = ("program", "rank", "line", "cause", "fix")
CAUSES = ("right", "itself", "vague", "cryptic", "lost", "misleading")
_KEYS = frozenset({"expect", "cause", "fix", "never", "run", "needs"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """The wanted report: ``rank`` is None where all fail alike; it must name all ``lines``, of ``file`` if
    not of the cell. ``fix`` is empty where the exception suffices."""

    hangs: bool
    rank: int | None
    lines: tuple[int, ...]
    file: str
    cause: str
    fix: str
    never: str
    run: str

    @classmethod
    def of(cls, source: str) -> Expected:
        header = dict(re.findall(r"^# (\w+): (.+)$", source, re.MULTILINE))
        assert header.keys() <= _KEYS, f"unknown: {header.keys() - _KEYS}"
        match = re.fullmatch(r"(hang, )?rank (any|\d+)(?:, line (\d+) of (\S+))?", header["expect"])
        assert match is not None, header["expect"]
        hangs, rank, line, file = match.groups()
        marked = [number for number, text in enumerate(source.split("\n"), 1) if text.endswith(MARK)]
        return cls(
            hangs=hangs is not None,
            rank=None if rank == "any" else int(rank),
            lines=tuple(marked) if line is None else (int(line),),
            file=file or "",
            cause=header["cause"],
            fix=header.get("fix", ""),
            never=header.get("never", ""),
            run=header.get("run", "-n 2"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """A report: the ``ranks`` that it holds responsible, and ``error``, the exception's own text."""

    report: str
    ranks: frozenset[int] = frozenset()
    error: str = ""
    hinted: bool = False

    @property
    def explained(self) -> list[str]:
        """Return the lines that are neither a stack nor the exception's words."""
        own = set(self.error.split("\n"))
        return [
            line for line in self.report.split("\n") if line.strip() and line[0] != " " and line not in own
        ]


@dataclass(frozen=True, slots=True)
class Score:
    """One word each; ``cause`` is one of ``CAUSES``: right or misleading in nbdist's words, named by the
    exception itself, vague, cryptic where nbdist has none, lost where even the place is wrong."""

    rank: str
    line: str
    cause: str
    fix: str


def score(diagnosis: Said, expected: Expected) -> Score:
    explained = diagnosis.explained
    advice = "\n".join(line for line in explained if line.startswith("fix:"))
    words = "\n".join(line for line in explained if not line.startswith("fix:"))
    rank = bool(diagnosis.report) and (expected.rank is None or expected.rank in diagnosis.ranks)
    of_file = rf" of \S*{re.escape(expected.file)}" if expected.file else r"\b"
    line = all(re.search(rf"\bline {number}{of_file}", words) for number in expected.lines)
    if expected.never and _has(expected.never, f"{words}\n{advice}"):
        cause = "misleading"
    elif _has(expected.cause, words):
        cause = "right"
    elif _has(expected.cause, diagnosis.error):
        cause = "itself"
    elif not rank or not line:
        cause = "lost"
    else:
        cause = "vague" if diagnosis.hinted else "cryptic"
    fix = "–"
    if expected.fix:
        fix = (
            "right"
            if _has(expected.fix, advice)
            else "itself"
            if _has(expected.fix, diagnosis.error)
            else "no"
        )
    return Score("right" if rank else "wrong", "right" if line else "wrong", cause, fix)


def _has(words: str, text: str) -> bool:
    return re.search(words, text, re.IGNORECASE) is not None


def row(name: str, score: Score) -> str:
    return f"| {name} | {' | '.join(astuple(score))} |"


def table(scores: Mapping[str, Score]) -> list[str]:
    """Return the totals in a sentence, then a row for each program, as in ``PAGE``."""
    rows = [row(name, score) for name, score in sorted(scores.items())]
    return [totals(scores.values()), "", f"| {' | '.join(COLUMNS)} |", "|---" * len(COLUMNS) + "|", *rows]


def totals(scores: Iterable[Score]) -> str:
    """Return ``Rank 70 of 82, line 65, cause 31 right, …; fix 25 of 70``."""
    scores = list(scores)
    ranks = sum(score.rank == "right" for score in scores)
    lines = sum(score.line == "right" for score in scores)
    causes = Counter(score.cause for score in scores)
    cause = ", ".join(f"{causes[kind]} {kind}" for kind in CAUSES)
    wanted = [score.fix for score in scores if score.fix != "–"]
    fix = f"{sum(fixed != 'no' for fixed in wanted)} of {len(wanted)}"
    return f"Of {len(scores)} programs: rank {ranks}, line {lines}; cause {cause}; fix {fix}."


def recorded(page: str) -> dict[str, Score]:
    """Return the rows of the tables in ``page``, the last row of each program."""
    cells = [line.strip("| ").split(" | ") for line in page.split("\n") if line.startswith("| ")]
    cells = [row for row in cells if len(row) == len(COLUMNS)]
    return {name: Score(*rest) for name, *rest in cells if name != COLUMNS[0]}
