"""The rank that holds the others up at each step, as it is shown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nbdist.model import RankState, Run
from nbdist.store.metrics import last_points
from nbdist.text import say

if TYPE_CHECKING:
    from nbdist.diagnosis.stragglers import Paces, Slow
    from nbdist.store import RunDirectory

_ROOM = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowView:
    """``over`` is the rank's own time of a step over the median of the others', in milliseconds, None
    where it is not known; ``factor`` the two divided."""

    rank: int
    factor: float
    over: float | None
    reason: str = ""
    reason_zh: str = ""


def slow_view(paces: Paces, run: Run, rates: Mapping[int, float | None], now: float) -> SlowView | None:
    """None while no rank is clearly slower than the others."""
    running = [rank.rank for rank in run.ranks if rank.state is RankState.RUNNING]
    if run.stalled is not None or len(running) < 2:
        return None
    return _view(paces.slowest(running, rates, now))


def ended_slow(run: Run, directory: RunDirectory) -> SlowView | None:
    """The rank that held the others up towards the end of a run; None where none did, or it hung."""
    if run.stalled is not None or len(run.ranks) < 2:
        return None
    from nbdist.diagnosis.stragglers import Paces

    paces, last = Paces(), 0.0
    for rank in run.ranks:
        points = last_points(directory.rank(rank.rank, run.attempt).system, _ROOM)
        paces.take(rank.rank, points)
        last = max([last, *(point.time for point in points)])
    return _view(paces.slowest([rank.rank for rank in run.ranks], {}, last))


def _view(found: Slow | None) -> SlowView | None:
    if found is None:
        return None
    # in steps that can be seen: it is drawn again when it changes
    return SlowView(
        rank=found.rank,
        factor=round(found.factor, 1),
        over=None if found.over is None else float(f"{1000 * found.over:.2g}"),
        reason=found.reason,
        reason_zh=found.reason_zh,
    )


def slow_text(slow: SlowView, language: str) -> str:
    """``rank 1 is the slowest: 18 ms a step over the others (1.6 times); it waits for a core …``."""
    reason = slow.reason_zh if language == "zh" else slow.reason
    code = "panel.slow" if slow.over is not None else "panel.slow-times"
    text = say(code, language, rank=slow.rank, over=f"{slow.over or 0:.3g}", factor=f"{slow.factor:.1f}")
    return say("diagnosis.and", language).join(filter(None, (text, reason)))
