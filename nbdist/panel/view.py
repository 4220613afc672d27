"""The view model of a run: what every surface draws, as plain values. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from nbdist.diagnosis import describe_exit
from nbdist.model import Rank, RankState, Run
from nbdist.panel.usage import RankUsage


@dataclass(frozen=True, slots=True, kw_only=True)
class RankView:
    """One rank in the strip. Memory in bytes of the rank's process tree, None when unknown."""

    rank: int
    state: str
    device: str
    pid: int | None
    memory: int | None
    gpu_memory: int | None
    exit: str
    elapsed: float
    last_line: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunView:
    """The header and the strip. ``elapsed`` is seconds at the moment the view was made."""

    run_id: str
    label: str
    state: str
    live: bool
    reason: str
    elapsed: float
    ranks: tuple[RankView, ...]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def view_of(
    run: Run,
    *,
    now: float,
    usage: Mapping[int, RankUsage] | None = None,
    last_lines: Mapping[int, str] | None = None,
) -> RunView:
    """The view of a run at the moment ``now`` (Unix seconds)."""
    usage, last_lines = usage or {}, last_lines or {}
    return RunView(
        run_id=run.run_id,
        label=run.label,
        state=run.state.value,
        live=not run.state.terminal,
        reason=run.reason or run.stop_reason,
        elapsed=run.elapsed(now),
        ranks=tuple(
            _rank_view(rank, now, usage.get(rank.rank), last_lines.get(rank.rank, "")) for rank in run.ranks
        ),
    )


def _rank_view(rank: Rank, now: float, usage: RankUsage | None, last_line: str) -> RankView:
    running = rank.process is not None and not rank.state.terminal
    return RankView(
        rank=rank.rank,
        state=rank.state.value,
        device=str(rank.spec.device),
        pid=rank.process.pid if rank.process is not None and running else None,
        memory=usage.memory if usage is not None and running else None,
        gpu_memory=usage.gpu_memory if usage is not None and running else None,
        exit=""
        if rank.code is None
        else describe_exit(rank.code, oom=rank.oom, ended=rank.state is RankState.ENDED),
        elapsed=_elapsed(rank, now),
        last_line=last_line[:200],
    )


def _elapsed(rank: Rank, now: float) -> float:
    if rank.started is None:
        return 0.0
    return max(0.0, (now if rank.exited is None else rank.exited) - rank.started)


def duration(seconds: float) -> str:
    """``0:47``, ``12:05``, ``3:02:10``."""
    whole = int(seconds)
    hours, minutes = divmod(whole // 60, 60)
    if hours:
        return f"{hours}:{minutes:02}:{whole % 60:02}"
    return f"{minutes}:{whole % 60:02}"


def bytes_text(count: int | None) -> str:
    """``312 MB``, ``1.4 GB``; empty when unknown."""
    if count is None:
        return ""
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.0f} MB"
