"""The inputs and results of a run in a few words each, from the spec and the indexes: no value is read."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from nbdist.diagnosis.exits import rank_ranges
from nbdist.model import Input, Run
from nbdist.privacy import MASK
from nbdist.store import RunDirectory
from nbdist.store.results import Result, read_index
from nbdist.text import Both, both, say, size_text
from nbdist.worker.result_files import CALL, LAST, RETURNED

_MOST = 12
_VALUE = 24  # characters
_RANKS_A_SECOND = 32
_NUMBER = re.compile(r"np\.\w+\((.+)\)")


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenValue:
    """A value; ``about``: a number, or type and size (``list, 8 kB``); ``ranks`` gave it (empty: rank 0)."""

    name: str
    about: str
    about_zh: str = ""
    ranks: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """The first values; ``more`` counts the others."""

    values: tuple[GivenValue, ...] = ()
    more: int = 0

    @classmethod
    def of(cls, values: Sequence[GivenValue]) -> Given:
        return cls(values=tuple(values[:_MOST]), more=max(0, len(values) - _MOST))

    def texts(self, language: str) -> Iterator[tuple[str, str]]:
        """Yield the name of each value and its description."""
        for value in self.values:
            about = (language == "zh" and value.about_zh) or value.about
            ranks = say("panel.of-ranks", language, ranks=value.ranks) if value.ranks else ""
            yield value.name, ", ".join(filter(None, (about, ranks)))


NOTHING = Given()


def inputs_of(run: Run) -> Given:
    """Return the ranks' names from the notebook, the ones that nobody named last."""
    shown = [given for given in run.spec.inputs if given.name != CALL]
    ordered = sorted(shown, key=lambda given: not given.asked)
    return Given.of([GivenValue(name=given.name, about=_of_input(given)) for given in ordered])


def results_of(run: Run, directory: RunDirectory) -> Given:
    """Return the ranks' results of the last attempt; of a name that several ranks give, the lowest rank's."""
    first: dict[str, Result] = {}
    givers: dict[str, list[int]] = {}
    for rank in run.ranks:
        for name, result in read_index(directory.rank(rank.rank, run.attempt)).items():
            if name != LAST:
                first.setdefault(name, result)
                givers.setdefault(name, []).append(rank.rank)
    return Given.of([_given(result, givers[name]) for name, result in first.items()])


class ResultsWatch:
    """The ranks' results, read again when they have changed, about once a second."""

    def __init__(self, directory: RunDirectory) -> None:
        self._directory = directory
        self._looked = 0.0
        self._known: object = None
        self._results = NOTHING

    def look(self, run: Run, now: float) -> Given:
        """Return the results at ``now`` (Unix seconds)."""
        ended = run.state.terminal
        if not ended and 0 <= now - self._looked < max(1.0, len(run.ranks) / _RANKS_A_SECOND):
            return self._results
        self._looked = now
        # a file system's times are coarse: once more at the end, whatever they say
        known = run.attempt if ended else tuple(self._changed(run))
        if known != self._known:
            self._known = known
            self._results = results_of(run, self._directory)
        return self._results

    def _changed(self, run: Run) -> Iterator[int]:
        for rank in run.ranks:
            try:
                yield os.stat(self._directory.rank(rank.rank, run.attempt).results).st_mtime_ns
            except OSError:
                yield 0


def _of_input(given: Input) -> str:
    if given.value and given.value != MASK:
        return given.value
    return given.type if given.is_definition else f"{_short(given.type)}, {size_text(given.size)}"


def _given(result: Result, ranks: Sequence[int]) -> GivenValue:
    about = both("panel.not-stored") if result.problem else Both(*[_of_result(result)] * 2)
    return GivenValue(
        # as users read it: run.result()
        name="result()" if result.name == RETURNED else result.name,
        about=about.en,
        about_zh=about.zh,
        ranks="" if 0 in ranks else rank_ranges(ranks),
    )


def _of_result(result: Result) -> str:
    """Return ``0.93``; ``Tensor float32, 10 × 10, 472 B``; ``state_dict (Linear), 12 MB``."""
    kind = _short(result.type)
    if kind in ("bool", "float", "int") and 0 < len(result.repr) <= _VALUE:
        return result.repr
    value = _NUMBER.sub(r"\1", result.repr) if result.kind in ("value", "number") else ""
    if result.kind == "state_dict":
        kind = f"state_dict ({kind})"
    elif result.dtype not in ("", kind):
        kind = f"{kind} {result.dtype}"
    whole = 0 < len(value) <= _VALUE and "..." not in value
    shown = value if whole else size_text(result.bytes)
    return ", ".join(filter(None, (kind, " × ".join(map(str, result.shape)), shown)))


def _short(name: str) -> str:
    return name.rpartition(".")[2]
