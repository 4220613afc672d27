"""The figures of a view as they stand on a screen: one way to write each. Empty where unknown."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

from nbdist.feed.view import RankView, RunView, bytes_text, duration
from nbdist.text import say

# a rank is called the slowest when it does this part of the others' steps, or less
_SLOW = 0.9


def memory_text(rank: RankView) -> str:
    """``312 MB``; on a GPU that memory, and of how much: ``11.2/80 GB``."""
    if rank.gpu_memory is None:
        return bytes_text(rank.memory)
    if not rank.gpu_memory_total:
        return bytes_text(rank.gpu_memory)
    return f"{rank.gpu_memory / 1e9:.1f}/{rank.gpu_memory_total / 1e9:.0f} GB"


def use_text(rank: RankView) -> str:
    """``98 %`` of its GPU, or of one core."""
    share = rank.cpu if rank.gpu is None else rank.gpu
    return "" if share is None else f"{share:.0f} %"


def rate_text(rate: float | None) -> str:
    """Steps a second: ``7.9``, ``0.12``, ``1240``."""
    if rate is None:
        return ""
    return f"{rate:.0f}" if rate >= 100 else f"{rate:.1f}" if rate >= 1 else f"{rate:.2g}"


def progress_text(view: RunView, language: str) -> str:
    """``62 % · epoch 3/4 · 0:51 left``."""
    if view.progress is None:
        return ""
    progress = view.progress
    left = ""
    if view.live and progress.remaining is not None:
        left = say("panel.remaining", language, time=duration(progress.remaining))
    return " · ".join(filter(None, [percent(progress.fraction), progress.text, left]))


def percent(fraction: float) -> str:
    """Whole percents; 100 only for what is done."""
    return f"{math.floor(100 * fraction + 1e-9)} %"


def number_text(value: float) -> str:
    """A metric in four digits."""
    return f"{value:.4g}" if math.isfinite(value) else str(value)


def slowest(ranks: Sequence[RankView]) -> RankView | None:
    """The rank that does clearly fewer steps a second than the others; None where none does."""
    rated = [(rank.rate, rank) for rank in ranks if rank.rate is not None]
    if len(rated) < 2:
        return None
    rate, last = min(rated, key=lambda pair: pair[0])
    return last if rate < _SLOW * median(known for known, _ in rated) else None
