"""Many runs from one program: the values of a sweep, and the run of each point."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

from nbdist.model.decoding import build
from nbdist.model.spec import ProcessId, RankSpec, RunSpec, SweepPoint

MOST = 200  # runs that are compared at once, and points of a sweep
Points = tuple[Mapping[str, str], ...]  # each with its values by name, as typed

_NAME = re.compile(r"\{\{|\}\}|\{([A-Za-z_]\w*)\}")


def grid(lists: Sequence[Points]) -> Points:
    """Return every combination of the points of each list, the last list's changing first."""
    return tuple({name: point[name] for point in row for name in point} for row in product(*lists))


def names_of(points: Points) -> list[str]:
    """Return the names that any of the points has."""
    return list(dict.fromkeys(name for point in points for name in point))


def names_in(word: str) -> list[str]:
    """Return the names in braces in ``word``."""
    return [match[1] for match in _NAME.finditer(word) if match[1]]


def filled(word: str, values: Mapping[str, str]) -> str:
    """Return ``word`` with values for names in braces; doubled braces become plain, unknown names stay."""
    return _NAME.sub(lambda m: values.get(m[1], m[0]) if m[1] else m[0][0], word)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """A sweep as it was asked for. Written once, never changed. ``spec`` is the run of a point, without
    what differs; its arguments may hold names in braces. ``runs`` are the ids of the points' runs,
    ``points`` their values as typed. ``slots`` are the ranks of each concurrent run. ``metric`` sorts the
    points at first (empty: the first there is). ``warm`` is as in ``Options``.

    A sweep with a ``span`` is a scale: its points differ in the number of ranks, and each has a slot. They
    run one after another, ``span`` seconds each from their first steps on."""

    sweep_id: str
    name: str
    created: float
    spec: RunSpec
    runs: tuple[str, ...]
    points: Points
    slots: tuple[tuple[RankSpec, ...], ...]
    metric: str = ""
    warm: bool | None = None
    span: float | None = None

    @property
    def label(self) -> str:
        """Return its name and the end of its id, as a run has it."""
        return self.sweep_id.split("-", 2)[2]

    @property
    def is_cell(self) -> bool:
        """Return whether the program is a cell, and each run has a copy."""
        return Path(self.spec.program).parts[-2:-1] == (self.spec.run_id,)

    def run_of(
        self, number: int, *, slot: int = 0, created: float, owner: ProcessId | None = None
    ) -> RunSpec:
        """Return the run of one point, which belongs to the process ``owner``."""
        values, run_id, spec = self.points[number], self.runs[number], self.spec
        program = Path(spec.program)
        ranks = self.slots[slot if self.span is None else number]
        return replace(
            spec,
            run_id=run_id,
            name=f"{self.name}-{number + 1 if self.span is None else f'n{len(ranks)}'}",
            created=created,
            program=str(program.parents[1] / run_id / program.name) if self.is_cell else spec.program,
            args=tuple(filled(word, values) for word in spec.args),
            # a point that went on from the checkpoint of another one would not be that point
            checkpoints=f"{spec.checkpoints}/{number + 1}" if spec.checkpoints else "",
            ranks=ranks,
            detached=False,
            owner=owner,
            sweep=SweepPoint(sweep=self.sweep_id, number=number, values=values, points=len(self.points)),
        )

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, data: object) -> Sweep:
        """Raise KeyError, TypeError, ValueError or AttributeError when ``data`` is no sweep."""
        sweep = build(cls, data)
        slots = 1 if sweep.span is None else len(sweep.points)
        if len(sweep.slots) < slots or len(sweep.runs) != len(sweep.points):
            raise ValueError("each point has a run, and a place to run")
        return sweep
