"""Views of runs as a test wants them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nbdist.feed.progress import Progress
from nbdist.feed.view import RankView, RunView


def a_rank(number: int, **changes: Any) -> RankView:
    """Return a rank on a GPU in the middle of its work."""
    values: dict[str, Any] = {
        "rank": number,
        "state": "running",
        "device": f"GPU {number}",
        "pid": 4001 + number,
        "memory": 9_400_000_000,
        "gpu_memory": 11_200_000_000,
        "gpu_memory_total": 80_000_000_000,
        "gpu": 81.0,
        "rate": 7.9,
        "exit": "",
        "elapsed": 61.0,
        "last_line": f"step {number}",
    }
    return RankView(**(values | changes))


def a_run(ranks: int | Sequence[RankView] = 2, **changes: Any) -> RunView:
    values: dict[str, Any] = {
        "run_id": "20261120-141503-lenet-k3f9",
        "label": "lenet-k3f9",
        "state": "running",
        "live": True,
        "reason": "",
        "elapsed": 84.0,
        "ranks": tuple(map(a_rank, range(ranks)) if isinstance(ranks, int) else ranks),
    }
    return RunView(**(values | changes))


def so_far(fraction: float, text: str = "epoch 3/4", remaining: float | None = 51.0) -> Progress:
    return Progress(fraction=fraction, remaining=remaining, text=text)
