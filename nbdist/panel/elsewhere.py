"""What a screen on one machine says of a rank on another one: where it runs, and that its log is there."""

from __future__ import annotations

from nbdist import config
from nbdist.model import Rank, RankState, Run
from nbdist.text import say


def device_text(run: Run, rank: Rank) -> str:
    """``CPU``, ``GPU 0``, and of a rank on another machine on which: ``CPU · node 1``."""
    device = str(rank.spec.device)
    alone = run.spec.nodes == 1 or (_is_here(run, rank) and not run.spec.engine)
    return device if alone else f"{device} · node {rank.spec.node_rank}"


def log_place(run: Run, rank: Rank) -> str:
    """Where the log of a rank on another machine is, or why nothing comes of it; empty for one that is
    here."""
    node = rank.spec.node_rank
    awaited = node in run.awaited and not run.state.terminal
    held = awaited and rank.state is RankState.RUNNING
    if _is_here(run, rank) and not held:
        return ""
    key = "held" if held else "awaited" if awaited else "log"
    known = run.hosts or run.spec.addresses
    return say(f"panel.node-{key}", config.language(), node=node, address=known[node] if known else "")


def _is_here(run: Run, rank: Rank) -> bool:
    return run.spec.is_here(rank.spec)
