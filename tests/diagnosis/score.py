"""How good a report is: what the header of a program asks for, held against what the report says.

This module alone decides what counts as right. The words in a header are regular expressions.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "diagnosis-score.md"
MARK = "# here"
COLUMNS = ("program", "rank", "line", "cause", "fix")
CAUSES = ("right", "itself", "vague", "cryptic", "lost", "misleading")
_KEYS = frozenset({"expect", "cause", "fix", "never", "run", "needs"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """``rank`` is None where all do the same; ``lines`` are those that a report must all name, of ``file``
    where that is not the cell. ``fix`` is empty where the exception is advice enough."""

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
        found = re.fullmatch(r"(hang, )?rank (any|\d+)(?:, line (\d+) of (\S+))?", header["expect"])
        assert found is not None, header["expect"]
        hangs, rank, line, file = found.groups()
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
    """``ranks`` are those that a report holds responsible, ``error`` the exception's own text in it."""

    report: str
    ranks: frozenset[int] = frozenset()
    error: str = ""
    hinted: bool = False

    @property
    def explained(self) -> list[str]:
        """The lines that are neither a stack nor what the exception says."""
        own = set(self.error.split("\n"))
        return [
            line for line in self.report.split("\n") if line.strip() and line[0] != " " and line not in own
        ]


@dataclass(frozen=True, slots=True)
class Score:
    """Each in one word; ``cause`` one of ``CAUSES``: right or misleading in nbdist's words, named by the
    exception itself, vague words about another thing, cryptic where nbdist has none, lost where not even
    the place is right."""

    rank: str
    line: str
    cause: str
    fix: str


def score(said: Said, expected: Expected) -> Score:
    explained = said.explained
    advice = "\n".join(line for line in explained if line.startswith("fix:"))
    words = "\n".join(line for line in explained if not line.startswith("fix:"))
    rank = bool(said.report) and (expected.rank is None or expected.rank in said.ranks)
    of_file = rf" of \S*{re.escape(expected.file)}" if expected.file else r"\b"
    line = all(re.search(rf"\bline {number}{of_file}", words) for number in expected.lines)
    if expected.never and _has(expected.never, f"{words}\n{advice}"):
        cause = "misleading"
    elif _has(expected.cause, words):
        cause = "right"
    elif _has(expected.cause, said.error):
        cause = "itself"
    elif not rank or not line:
        cause = "lost"
    else:
        cause = "vague" if said.hinted else "cryptic"
    fix = "–"
    if expected.fix:
        fix = "right" if _has(expected.fix, advice) else "itself" if _has(expected.fix, said.error) else "no"
    return Score("right" if rank else "wrong", "right" if line else "wrong", cause, fix)


def _has(words: str, text: str) -> bool:
    return re.search(words, text, re.IGNORECASE) is not None


def row(name: str, one: Score) -> str:
    return f"| {name} | {' | '.join(astuple(one))} |"


def table(scores: Mapping[str, Score]) -> list[str]:
    """The totals in a sentence, then a row for each program, as in ``PAGE``."""
    rows = [row(name, one) for name, one in sorted(scores.items())]
    return [totals(scores.values()), "", f"| {' | '.join(COLUMNS)} |", "|---" * len(COLUMNS) + "|", *rows]


def totals(scores: Iterable[Score]) -> str:
    """``Rank 70 of 82, line 65, cause 31 right, …; fix 25 of 70``."""
    scores = list(scores)
    ranks = sum(one.rank == "right" for one in scores)
    lines = sum(one.line == "right" for one in scores)
    causes = Counter(one.cause for one in scores)
    cause = ", ".join(f"{causes[kind]} {kind}" for kind in CAUSES)
    wanted = [one.fix for one in scores if one.fix != "–"]
    fix = f"{sum(one != 'no' for one in wanted)} of {len(wanted)}"
    return f"Of {len(scores)} programs: rank {ranks}, line {lines}; cause {cause}; fix {fix}."


def recorded(page: str) -> dict[str, Score]:
    """The rows of the tables of programs in ``page``, the last row of each."""
    cells = [line.strip("| ").split(" | ") for line in page.split("\n") if line.startswith("| ")]
    cells = [row for row in cells if len(row) == len(COLUMNS)]
    return {name: Score(*rest) for name, *rest in cells if name != COLUMNS[0]}
