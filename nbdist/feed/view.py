"""How a run stands, as a screen shows it: its ranks, what they use, its figures in words."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from statistics import median
from types import MappingProxyType
from typing import Any

import psutil

from nbdist import config
from nbdist.devices.gpus import GpuUse, memory_by_pid
from nbdist.devices.usage import TreeUsage, tree_usage
from nbdist.feed.given import NOTHING, Given, inputs_of
from nbdist.feed.labels import exit_text
from nbdist.feed.progress import Progress
from nbdist.feed.stalling import SlowView, StallView
from nbdist.model import Rank, RankState, Reason, Run, RunState
from nbdist.store import MetricPoint
from nbdist.text import Both, reason_text, say


@dataclass(frozen=True, slots=True, kw_only=True)
class RankUsage:
    """What a rank uses now, or did on the whole once its run has ended (``RankView``)."""

    memory: int | None = None
    memory_total: int | None = None
    gpu_memory: int | None = None
    gpu_memory_total: int | None = None
    cpu: float | None = None
    gpu: float | None = None
    wait: float | None = None


_SHOWN = 50_000_000
"""Bytes of a GPU that are worth a word."""


class UsageWatch:
    """Watches a run's ranks while they live, so that the summary can say which GPU memory they freed."""

    def __init__(
        self,
        *,
        holders: Callable[[], list[GpuUse]] = memory_by_pid,
        tree: Callable[..., TreeUsage | None] = tree_usage,
        name: Callable[[int], str] = lambda pid: _name(pid),
    ) -> None:
        self._holders, self._tree, self._name = holders, tree, name
        self._gpus: frozenset[int] = frozenset()
        self._held: Counter[int] = Counter()
        self._ours: set[int] = set()

    def look(self, run: Run) -> Mapping[int, RankUsage]:
        """What each live rank on this machine uses now."""
        if run.spec.engine:
            return {}  # its machines are others, and so are their GPUs
        self._gpus = frozenset(r.spec.device.index for r in run.ranks if r.spec.device.kind == "gpu")
        holders = self._holders() if self._gpus else []
        found: dict[int, RankUsage] = {}
        held: Counter[int] = Counter()
        for rank in run.ranks:
            runs = rank.process is not None and rank.state is RankState.RUNNING
            if not runs or (usage := self._tree(rank.process)) is None:
                continue
            self._ours |= usage.pids
            own = Counter[int]()
            for use in holders:
                own[use.index] += use.memory if use.pid in usage.pids else 0
            held += own
            on_gpu = rank.spec.device.kind == "gpu"
            found[rank.rank] = RankUsage(memory=usage.memory, gpu_memory=own.total() if on_gpu else None)
        self._held = held if found else self._held
        return found

    def report(self, language: str) -> list[str]:
        """After the end, a line per GPU of the run: what came back, and who still holds memory of it."""
        if not self._gpus:
            return []
        lines = []
        holders = [use for use in self._holders() if use.index in self._gpus]
        for index in sorted(self._gpus):
            here = [use for use in holders if use.index == index]
            ours = sum(use.memory for use in here if use.pid in self._ours)
            freed = max(0, self._held[index] - ours)
            if freed >= _SHOWN:
                lines.append(say("panel.gpu-freed", language, index=index, size=freed / 1e9))
            lines += self._still_held(index, here, language)
        return lines

    def _still_held(self, index: int, holders: Sequence[GpuUse], language: str) -> list[str]:
        """Who holds memory of a GPU: on one that is shared many may, and the largest is named."""
        holders = [use for use in holders if use.memory >= _SHOWN]
        if not holders:
            return []
        most = max(holders, key=lambda use: use.memory)
        row = "panel.gpu-held" if len(holders) == 1 else "panel.gpu-held-by-several"
        size, name = sum(use.memory for use in holders) / 1e9, self._name(most.pid)
        largest = {"name": name, "pid": most.pid, "most": most.memory / 1e9}
        return [say(row, language, index=index, size=size, count=len(holders), **largest)]


def _name(pid: int) -> str:
    try:
        return psutil.Process(pid).name()
    except psutil.Error:
        return "?"


def device_text(run: Run, rank: Rank) -> str:
    """``CPU``, ``GPU 0``, and of a rank on another machine on which: ``CPU · node 1``."""
    device = str(rank.spec.device)
    alone = run.spec.nodes == 1 or (run.spec.is_here(rank.spec) and not run.spec.engine)
    return device if alone else f"{device} · node {rank.spec.node_rank}"


def log_place(run: Run, rank: Rank) -> str:
    """Where the log of a rank on another machine is, or why nothing comes of it; empty for one that is
    here."""
    node = rank.spec.node_rank
    awaited = node in run.awaited and not run.state.terminal
    held = awaited and rank.state is RankState.RUNNING
    if run.spec.is_here(rank.spec) and not held:
        return ""
    key = "held" if held else "awaited" if awaited else "log"
    known = run.hosts or run.spec.addresses
    return say(f"panel.node-{key}", config.language(), node=node, address=known[node] if known else "")


_STALE = 10.0
_LINE = 200  # characters
_NONE: Mapping[int, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class RankView:
    """One rank. ``memory`` in bytes of the rank's process tree, of ``memory_total`` that the
    machine has (the GPU, for ``gpu_memory``); ``cpu`` in percent of one core, ``gpu`` of its GPU;
    ``rate`` in steps a second; ``wait`` the percentage of its time that it waited for other ranks. None
    when unknown. Once the run has ended: the most memory that the rank held, the mean of the others."""

    rank: int
    state: str
    device: str
    pid: int | None
    memory: int | None
    gpu_memory: int | None
    exit: str
    elapsed: float
    last_line: str
    exit_zh: str = ""
    node: int = 0
    memory_total: int | None = None
    gpu_memory_total: int | None = None
    cpu: float | None = None
    gpu: float | None = None
    rate: float | None = None
    wait: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteView:
    """A sentence: of a warning what to write, of a failure what is known beside its cause."""

    text: str
    text_zh: str

    def sentence(self, language: str) -> str:
        return self.text_zh if language == "zh" else self.text


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureView:
    """The first failure. ``message`` is the exception's type and text, or the last words of a rank that
    raised none. ``line`` is a line of the cell (1 is the magic's) where the traceback has one. Where
    it goes on into a module of the user's, ``file``, ``file_line`` and ``source`` are its innermost line.
    ``cause`` and ``fix`` are empty where the error is not known. ``notes`` are the values in the failing line
    and where they were set, and what is known of other ranks."""

    rank: int
    headline: str
    message: str
    line: int | None
    file: str = ""
    file_line: int | None = None
    source: str = ""
    headline_zh: str = ""
    cause: str = ""
    cause_zh: str = ""
    fix: str = ""
    fix_zh: str = ""
    notes: tuple[NoteView, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunView:
    """The header and the strip. ``elapsed`` is seconds at the moment the view was made; ``stall`` is there
    while nothing happens, whatever the state; ``idle``: it is a session that waits for a cell. ``about`` is
    what a list says of a run that has ended: its notebook, when that was, where its main metric stood;
    ``notes`` are what the ended panel says of it, the ``warnings`` among it. ``inputs`` are what the notebook
    gave the ranks, ``results`` what they have given out. ``resumed`` is the label of the run that it goes on
    from."""

    run_id: str
    label: str
    state: str
    live: bool
    reason: str
    elapsed: float
    ranks: tuple[RankView, ...]
    idle: bool = False
    reason_zh: str = ""
    resumed: str = ""
    about: str = ""
    progress: Progress | None = None
    failure: FailureView | None = None
    stall: StallView | None = None
    slow: SlowView | None = None
    warnings: tuple[NoteView, ...] = ()
    notes: tuple[str, ...] = ()
    inputs: Given = NOTHING
    results: Given = NOTHING

    @property
    def hangs(self) -> bool:
        """Whether it is shown as stalled."""
        return self.live and self.stall is not None and self.state == "running"

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def view_of(
    run: Run,
    *,
    now: float,
    usage: Mapping[int, RankUsage] = _NONE,
    last_lines: Mapping[int, str] = _NONE,
    system: Mapping[int, MetricPoint] = _NONE,
    rates: Mapping[int, float | None] = _NONE,
    progress: Progress | None = None,
    failure: FailureView | None = None,
    stall: StallView | None = None,
    slow: SlowView | None = None,
    results: Given = NOTHING,
    mistakes: Sequence[Both] = (),
) -> RunView:
    """The view of a run at the moment ``now`` (Unix seconds).

    ``system`` is the last that the supervisor measured of each rank, or all of it in one once the run has
    ended; ``usage`` stands in for its memory until there is anything.
    """
    reason = current_reason(run, None if failure is None else failure.rank)
    ended, unused = run.state.terminal, RankUsage()
    return RunView(
        run_id=run.run_id,
        label=run.label,
        state=run.state.value,
        live=not ended,
        idle=run.idle,
        reason=reason_text(reason),
        reason_zh=reason_text(reason, "zh"),
        elapsed=run.elapsed(now),
        resumed=run.spec.resumed_label,
        ranks=tuple(
            RankView(
                rank=rank.rank,
                node=rank.spec.node_rank,
                state=rank.state.value,
                device=device_text(run, rank),
                pid=rank.process.pid if rank.process is not None and _runs(rank) else None,
                rate=rates.get(rank.rank) if run.state.terminal or _runs(rank) else None,
                exit=exit_text(rank, "en"),
                exit_zh=exit_text(rank, "zh"),
                elapsed=_elapsed(rank, now),
                last_line=(log_place(run, rank) or last_lines.get(rank.rank, ""))[:_LINE],
                **asdict(_used(rank, now, system.get(rank.rank), usage.get(rank.rank, unused), ended=ended)),
            )
            for rank in run.ranks
        ),
        # of a run that has ended nothing is left, however far it came
        progress=replace(progress, remaining=None) if progress and ended else progress,
        failure=failure,
        stall=stall,
        slow=slow,
        inputs=inputs_of(run),
        results=results,
        warnings=tuple(NoteView(text=one.en, text_zh=one.zh) for one in mistakes),
    )


def end_reason(run: Run, first: int | None) -> Reason:
    """Why a run has ended. ``first`` is the rank that its report calls the first to fail, None where it names
    none: the supervisor may have seen another rank go, which had lost its peer."""
    ranks = run.reason.fields.get("ranks", ())
    if run.reason.code != "ranks-failed" or first is None or not isinstance(ranks, tuple) or first in ranks:
        return run.reason
    return Reason("ranks-failed", ranks=(first,))


def current_reason(run: Run, first: int | None) -> Reason:
    """Why a run has ended or will end, else what it waits for, or which cell a session executes. ``first`` as
    for ``end_reason``."""
    reason = end_reason(run, first) or run.stop_reason or run.queued
    if not reason and run.importing and run.state is RunState.RUNNING:
        reason = Reason("importing", framework=run.spec.framework)
    return reason or cell_reason(run)


def cell_reason(run: Run) -> Reason:
    """Which cell a session that goes on executes, or has executed last; none of other runs."""
    if not run.cell or run.state is not RunState.RUNNING:
        return Reason()
    return Reason("session-waits" if run.idle else "session-executes", cell=run.cell, line=run.cell_line)


def _used(rank: Rank, now: float, point: MetricPoint | None, usage: RankUsage, *, ended: bool) -> RankUsage:
    if not ended and not _runs(rank):
        return RankUsage()
    # what the system says of a process that has ended: of a short run nothing else was measured
    if point is None:
        return RankUsage(memory=rank.memory or None) if usage == RankUsage() else usage
    # a supervisor that has stopped measuring leaves nothing that is still true
    values = point.values if ended or now - point.time <= _STALE else {}
    known: dict[str, Any] = {
        field.name: int(value) if "memory" in field.name else value
        for field in fields(RankUsage)
        if math.isfinite(value := values.get(field.name, math.nan))
    }
    return RankUsage(**known | {"memory": max(known.get("memory", 0), rank.memory) or None})


def _runs(rank: Rank) -> bool:
    return rank.process is not None and not rank.state.terminal


def _elapsed(rank: Rank, now: float) -> float:
    return max(0.0, (rank.exited or now) - rank.started) if rank.started is not None else 0.0


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
