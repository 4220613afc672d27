"""Ranks that wait for a thread or a process of theirs that an error has ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nbdist.diagnosis.hangs.held import may_be_fed
from nbdist.diagnosis.known import Hint
from nbdist.diagnosis.positions import Side, hint


def of_threads(held: Sequence[Side], raised: Mapping[int, str]) -> Hint | None:
    """Name the error of the thread or the process that a rank waits for; ``raised`` is by rank."""
    ranks = (rank for side in held if may_be_fed(side) for rank in side.ranks)
    dead = next((rank for rank in ranks if rank in raised), None)
    return hint("hang-thread", who=(dead,), error=raised[dead]) if dead is not None else None
