"""The view model of a run: what every surface draws, as plain values. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from nbdist import config
from nbdist.diagnosis import describe_exit
from nbdist.model import Rank, RankState, Run, RunState
from nbdist.panel.elsewhere import device_text, log_place
from nbdist.panel.labels import phrase
from nbdist.panel.progress import Progress
from nbdist.panel.reasons import reason_text
from nbdist.panel.slow import SlowView
from nbdist.panel.stalling import StallView
from nbdist.panel.usage import RankUsage
from nbdist.store import MetricPoint

_STALE = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RankView:
    """One rank in the strip. ``memory`` in bytes of the rank's process tree, of ``memory_total`` that the
    machine has (the GPU, for ``gpu_memory``); ``cpu`` in percent of one core, ``gpu`` of its GPU;
    ``rate`` in steps a second; ``wait`` the percentage of its time that it waited for other ranks. None
    when unknown."""

    rank: int
    state: str
    device: str
    pid: int | None
    memory: int | None
    gpu_memory: int | None
    exit: str
    elapsed: float
    last_line: str
    node: int = 0
    memory_total: int | None = None
    gpu_memory_total: int | None = None
    cpu: float | None = None
    gpu: float | None = None
    rate: float | None = None
    wait: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureView:
    """The first failure. ``line`` is a line of the cell (1 is its first) where the traceback has one. Where
    it goes on into a module of the user's, ``file``, ``file_line`` and ``source`` are its innermost line."""

    rank: int
    headline: str
    message: str
    line: int | None
    file: str = ""
    file_line: int | None = None
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunView:
    """The header and the strip. ``elapsed`` is seconds at the moment the view was made; ``stall`` is there
    while nothing happens, whatever the state."""

    run_id: str
    label: str
    state: str
    live: bool
    reason: str
    elapsed: float
    ranks: tuple[RankView, ...]
    progress: Progress | None = None
    failure: FailureView | None = None
    stall: StallView | None = None
    slow: SlowView | None = None

    @property
    def hangs(self) -> bool:
        """Whether it is shown as stalled."""
        return self.live and self.stall is not None and self.state == "running"

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> RunView:
        """The view behind ``to_dict``. Raises KeyError or TypeError for anything else."""
        progress, failure = data["progress"], data["failure"]
        parts = {
            "ranks": tuple(RankView(**rank) for rank in data["ranks"]),
            "progress": None if progress is None else Progress(**progress),
            "failure": None if failure is None else FailureView(**failure),
            "stall": None if data.get("stall") is None else StallView.from_dict(data["stall"]),
            "slow": None if data.get("slow") is None else SlowView(**data["slow"]),
        }
        return cls(**(dict(data) | parts))


def view_of(
    run: Run,
    *,
    now: float,
    usage: Mapping[int, RankUsage] | None = None,
    last_lines: Mapping[int, str] | None = None,
    system: Mapping[int, MetricPoint] | None = None,
    rates: Mapping[int, float | None] | None = None,
    progress: Progress | None = None,
    failure: FailureView | None = None,
    stall: StallView | None = None,
    slow: SlowView | None = None,
) -> RunView:
    """The view of a run at the moment ``now`` (Unix seconds).

    ``system`` is the last that the supervisor measured of each rank; ``usage`` stands in for its memory
    until there is anything.
    """
    usage, last_lines, system, rates = usage or {}, last_lines or {}, system or {}, rates or {}
    return RunView(
        run_id=run.run_id,
        label=run.label,
        state=run.state.value,
        live=not run.state.terminal,
        reason=run.reason or run.stop_reason or _awaited(run),
        elapsed=run.elapsed(now),
        ranks=tuple(
            _rank_view(
                rank,
                now,
                used=_used(rank, now, system.get(rank.rank), usage.get(rank.rank)),
                rate=rates.get(rank.rank),
                last_line=log_place(run, rank) or last_lines.get(rank.rank, ""),
                device=device_text(run, rank),
            )
            for rank in run.ranks
        ),
        # of a run that has ended nothing is left, however far it came
        progress=replace(progress, remaining=None) if progress and run.state.terminal else progress,
        failure=failure,
        stall=stall,
        slow=slow,
    )


def _awaited(run: Run) -> str:
    """What a run waits for before its programs begin; empty for nothing."""
    language = config.language()
    if run.importing and run.state is RunState.RUNNING:
        return phrase("importing", language).format(framework=run.spec.framework)
    return reason_text(run.queued, language)


def _rank_view(
    rank: Rank, now: float, *, used: _Used, rate: float | None, last_line: str, device: str
) -> RankView:
    running = _runs(rank)
    return RankView(
        rank=rank.rank,
        node=rank.spec.node_rank,
        state=rank.state.value,
        device=device,
        pid=rank.process.pid if rank.process is not None and running else None,
        memory=used.memory,
        memory_total=used.memory_total,
        gpu_memory=used.gpu_memory,
        gpu_memory_total=used.gpu_memory_total,
        cpu=used.cpu,
        gpu=used.gpu,
        rate=rate if running else None,
        wait=used.wait,
        exit=""
        if rank.code is None
        else describe_exit(
            rank.code,
            oom=rank.oom,
            ended=rank.state is RankState.ENDED,
            memory=rank.memory,
            limit=rank.limit,
        ),
        elapsed=_elapsed(rank, now),
        last_line=last_line[:200],
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Used:
    """What a rank uses now; all of it unknown for one that does not run."""

    memory: int | None = None
    memory_total: int | None = None
    gpu_memory: int | None = None
    gpu_memory_total: int | None = None
    cpu: float | None = None
    gpu: float | None = None
    wait: float | None = None


def _used(rank: Rank, now: float, point: MetricPoint | None, usage: RankUsage | None) -> _Used:
    if not _runs(rank):
        return _Used()
    if point is not None:
        # a supervisor that has stopped measuring leaves nothing that is still true
        values = point.values if now - point.time <= _STALE else {}
        return _Used(
            memory=_count(values, "memory"),
            memory_total=_count(values, "memory_total"),
            gpu_memory=_count(values, "gpu_memory"),
            gpu_memory_total=_count(values, "gpu_memory_total"),
            cpu=_finite(values, "cpu"),
            gpu=_finite(values, "gpu"),
            wait=_finite(values, "wait"),
        )
    if usage is not None:
        return _Used(memory=usage.memory, gpu_memory=usage.gpu_memory)
    return _Used()


def _finite(values: Mapping[str, float], tag: str) -> float | None:
    value = values.get(tag)
    return value if value is not None and math.isfinite(value) else None


def _count(values: Mapping[str, float], tag: str) -> int | None:
    value = _finite(values, tag)
    return None if value is None else int(value)


def _runs(rank: Rank) -> bool:
    return rank.process is not None and not rank.state.terminal


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
