"""A run as a screen shows it: its ranks, what they use, its figures in words."""

from __future__ import annotations

import math
import os
import re
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
from nbdist.diagnosis.training import Training
from nbdist.feed.given import NOTHING, Given, inputs_of
from nbdist.feed.labels import exit_text
from nbdist.feed.profile import Profile
from nbdist.feed.progress import Progress
from nbdist.feed.stalling import SlowView, StallView
from nbdist.feed.training_view import TrainingView, training_view
from nbdist.model import AT_LIMIT, Rank, RankState, Reason, Run, RunState
from nbdist.store import MetricPoint
from nbdist.text import Both, reason_text, say
from nbdist.worker.checkpoints import finished


@dataclass(frozen=True, slots=True, kw_only=True)
class RankUsage:
    """A rank's use of its machine: ``memory`` in bytes of its process tree, of ``memory_total`` (the GPU's
    in ``gpu_memory``); ``cpu`` in percent of one core, ``gpu`` of its GPU, ``wait`` of its time. None when
    unknown. Once the run has ended: the most memory, and the mean of the others."""

    memory: int | None = None
    memory_total: int | None = None
    gpu_memory: int | None = None
    gpu_memory_total: int | None = None
    cpu: float | None = None
    gpu: float | None = None
    wait: float | None = None


_SHOWN = 50_000_000  # bytes of a GPU that are worth a word


class UsageWatch:
    """A watch on a run's live ranks, so that the summary can name the GPU memory that they freed."""

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
        """Return the usage of each live rank on this machine."""
        if run.spec.engine:
            return {}  # other machines and GPUs
        self._gpus = frozenset(r.spec.device.index for r in run.ranks if r.spec.device.kind == "gpu")
        holders = self._holders() if self._gpus else []
        usages: dict[int, RankUsage] = {}
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
            usages[rank.rank] = RankUsage(memory=usage.memory, gpu_memory=own.total() if on_gpu else None)
        self._held = held if usages else self._held
        return usages

    def report(self, language: str) -> list[str]:
        """Return, after the end, a line per GPU of the run: the memory that came back, and its holders."""
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
    """Return ``CPU``, ``GPU 0``, and for a rank on another machine ``CPU · node 1``."""
    device = str(rank.spec.device)
    alone = run.spec.nodes == 1 or (run.spec.is_here(rank.spec) and not run.spec.engine)
    return device if alone else f"{device} · node {rank.spec.node_rank}"


def log_place(run: Run, rank: Rank) -> str:
    """Return where the log of a rank on another machine is, or why none comes; empty for a local rank."""
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
_SLOW = 0.9  # the slowest rank does this part of the others' steps, or less
_NONE: Mapping[int, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class RankView(RankUsage):
    """One rank; ``rate`` in steps a second, None when unknown. ``exit`` is also what a rank does on its way
    out, and where a debugger has ``held`` it, with the ``values`` at the line."""

    rank: int
    state: str
    device: str
    pid: int | None
    exit: str
    elapsed: float
    last_line: str
    exit_zh: str = ""
    held: bool = False
    values: tuple[str, ...] = ()
    node: int = 0
    rate: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteView:
    """A sentence: the advice of a warning, or a fact beside a failure's cause."""

    text: str
    text_zh: str

    def sentence(self, language: str) -> str:
        return self.text_zh if language == "zh" else self.text


@dataclass(frozen=True, slots=True, kw_only=True)
class CallView:
    """A line of the user's on the way to a failure, in ``source``, whose first line is ``first``. ``file``
    names the module at ``path``; both are empty for the cell."""

    file: str
    path: str
    line: int
    first: int
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureView:
    """The first failure. ``message`` is the exception's type and text, or the last words of a rank that
    raised none. ``line`` is a line of the cell (1 is the magic's); ``file``, ``file_line`` and ``source``
    are the innermost line in a module of the user's. ``cause`` and ``fix`` are empty for an unknown error.
    ``notes`` have values in the failing line and facts about other ranks, ``calls`` the way to the line."""

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
    calls: tuple[CallView, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunView:
    """The header and the strip. ``elapsed`` in seconds; ``stall`` whatever the state; ``idle``: a session
    that waits for a cell. ``about``: what a list shows of a run that has ended. ``notes``: those of the
    ended panel, the ``warnings`` among them. ``resumed``: the label of the run that this one goes on from;
    ``checkpoint``: the one that a run which did not come to its end can be resumed from, ``step 60``.
    ``importing``: what the ranks import before their first line, and for how long."""

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
    checkpoint: str = ""
    importing: str = ""
    importing_zh: str = ""
    about: str = ""
    progress: Progress | None = None
    failure: FailureView | None = None
    stall: StallView | None = None
    slow: SlowView | None = None
    training: TrainingView | None = None
    profile: Profile | None = None
    warnings: tuple[NoteView, ...] = ()
    notes: tuple[str, ...] = ()
    inputs: Given = NOTHING
    results: Given = NOTHING

    @property
    def hangs(self) -> bool:
        """Return whether screens show it as stalled."""
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
    training: Training | None = None,
    profile: Profile | None = None,
    results: Given = NOTHING,
    importing: tuple[str, float] | None = None,
    mistakes: Sequence[Both] = (),
) -> RunView:
    """Return the view of a run at ``now`` (Unix seconds). ``system`` is the supervisor's last measurement
    of each rank, or all in one once the run has ended; ``usage`` replaces its memory until there is any.
    ``importing``: a module and for how many seconds it has been imported."""
    reason = current_reason(run, None if failure is None else failure.rank)
    stopped = run.stopped_as_asked and failure is None
    texts = [
        (stopped and stop_text(run, progress, each)) or reason_text(reason, each) for each in ("en", "zh")
    ]
    ended, unused = run.state.terminal, RankUsage()
    # samples hold the imports, too
    waits = {} if training is None else training.waits_at(now)
    return RunView(
        run_id=run.run_id,
        label=run.label,
        state=run.state.value,
        live=not ended,
        idle=run.idle,
        reason=texts[0],
        reason_zh=texts[1],
        elapsed=run.elapsed(now),
        resumed=run.spec.resumed_label,
        checkpoint=last_checkpoint(run),
        importing=_importing(importing, "en"),
        importing_zh=_importing(importing, "zh"),
        ranks=tuple(
            RankView(
                rank=rank.rank,
                node=rank.spec.node_rank,
                state=rank.state.value,
                device=device_text(run, rank),
                pid=rank.process.pid if rank.process is not None and _runs(rank) else None,
                rate=rates.get(rank.rank) if run.state.terminal or _runs(rank) else None,
                exit=exit_text(rank, "en", now),
                exit_zh=exit_text(rank, "zh", now),
                held=rank.rank in run.held,
                values=rank.held.values if rank.held is not None else (),
                elapsed=max(0.0, (rank.exited or now) - rank.started) if rank.started is not None else 0.0,
                last_line=(log_place(run, rank) or last_lines.get(rank.rank, ""))[:_LINE],
                **asdict(_used(rank, now, system.get(rank.rank), usage.get(rank.rank, unused), ended=ended))
                | ({"wait": 100 * waits[rank.rank]} if rank.rank in waits else {}),
            )
            for rank in run.ranks
        ),
        progress=replace(progress, remaining=None) if progress and ended else progress,
        failure=failure,
        stall=stall,
        slow=slow,
        training=training_view(training),
        profile=profile,
        inputs=inputs_of(run),
        results=results,
        warnings=tuple(NoteView(text=mistake.en, text_zh=mistake.zh) for mistake in mistakes),
    )


def _importing(importing: tuple[str, float] | None, language: str) -> str:
    module, seconds = importing or ("", 0.0)
    return say("panel.importing", language, module=module, seconds=int(seconds)) if seconds >= 1 else ""


def last_checkpoint(run: Run) -> str:
    """Return ``step 60``, or the name of the checkpoint from which an ended run can be resumed; empty for a
    run that goes on or came to its end, and where there is none."""
    came_to_its_end = run.state is RunState.FINISHED and run.reason.code != AT_LIMIT
    if not run.state.terminal or came_to_its_end or not run.spec.checkpoints:
        return ""
    name = os.path.basename(next(iter(finished(run.spec.checkpoints)), ""))
    return re.sub(r"^step-0*(\d+)$", r"step \1", name)


def end_reason(run: Run, first: int | None) -> Reason:
    """Return why a run has ended; ``first`` is the first rank to fail by its report, which knows better."""
    ranks = run.reason.fields.get("ranks", ())
    if run.reason.code != "ranks-failed" or first is None or not isinstance(ranks, tuple) or first in ranks:
        return run.reason
    return Reason("ranks-failed", ranks=(first,))


def stop_text(run: Run, progress: Progress | None, language: str) -> str:
    """Return ``You stopped it at step 61/2000``; empty for a run that no user stopped, or
    that its kernel's restart ended."""
    if not run.stopped_as_asked or run.reason.code in ("kernel-restarted", "kernel-ended"):
        return ""
    at = "" if progress is None else progress.text or percent(progress.fraction)
    return say("panel.you-stopped", language, at=at)


def current_reason(run: Run, first: int | None) -> Reason:
    """Return why a run has ended or will end, else what it waits for, or its session's cell."""
    reason = end_reason(run, first) or run.stop_reason or run.queued
    if not reason and run.importing and run.state is RunState.RUNNING:
        reason = Reason("importing", framework=run.spec.framework)
    return reason or cell_reason(run)


def cell_reason(run: Run) -> Reason:
    """Return the cell that a live session executes, or executed last; none for other runs."""
    if not run.cell or run.state is not RunState.RUNNING:
        return Reason()
    return Reason("session-waits" if run.idle else "session-executes", cell=run.cell, line=run.cell_line)


def _used(rank: Rank, now: float, point: MetricPoint | None, usage: RankUsage, *, ended: bool) -> RankUsage:
    if not ended and not _runs(rank):
        return RankUsage()
    # of a short run only the system's figure for the ended process is known
    if point is None:
        return RankUsage(memory=rank.memory or None) if usage == RankUsage() else usage
    # when a supervisor has stopped measuring, its last figures are wrong
    values = point.values if ended or now - point.time <= _STALE else {}
    known: dict[str, Any] = {
        field.name: int(value) if "memory" in field.name else value
        for field in fields(RankUsage)
        if math.isfinite(value := values.get(field.name, math.nan))
    }
    return RankUsage(**known | {"memory": max(known.get("memory", 0), rank.memory) or None})


def _runs(rank: Rank) -> bool:
    return rank.process is not None and not rank.state.terminal


def duration(seconds: float) -> str:
    """Return ``0:47``, ``12:05``, ``3:02:10``."""
    hours, minutes = divmod(int(seconds) // 60, 60)
    start = f"{hours}:{minutes:02}" if hours else f"{minutes}"
    return f"{start}:{int(seconds) % 60:02}"


def bytes_text(count: int | None) -> str:
    """Return ``312 MB``, ``1.4 GB``; empty when unknown."""
    if count is None:
        return ""
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.0f} MB"


def memory_text(rank: RankView) -> str:
    """Return ``312 MB``; on a GPU its memory and the total: ``11.2/80 GB``."""
    if rank.gpu_memory is None or not rank.gpu_memory_total:
        return bytes_text(rank.memory if rank.gpu_memory is None else rank.gpu_memory)
    return f"{rank.gpu_memory / 1e9:.1f}/{rank.gpu_memory_total / 1e9:.0f} GB"


def use_text(rank: RankView) -> str:
    """Return ``98 %`` of its GPU, or of one core."""
    share = rank.cpu if rank.gpu is None else rank.gpu
    return "" if share is None else f"{share:.0f} %"


def rate_text(rate: float | None) -> str:
    """Return steps a second: ``7.9``, ``0.12``, ``1240``."""
    if rate is None:
        return ""
    return f"{rate:.0f}" if rate >= 100 else f"{rate:.1f}" if rate >= 1 else f"{rate:.2g}"


def progress_text(view: RunView, language: str) -> str:
    """Return ``62 % · epoch 3/4 · 0:51 left``."""
    if view.progress is None:
        return ""
    progress = view.progress
    left = ""
    if view.live and progress.remaining is not None:
        left = say("panel.remaining", language, time=duration(progress.remaining))
    return " · ".join(filter(None, [percent(progress.fraction), progress.text, left]))


def percent(fraction: float) -> str:
    """Return whole percents; 100 only when all is done."""
    return f"{math.floor(100 * fraction + 1e-9)} %"


def number_text(value: float) -> str:
    """Return a metric in four digits."""
    return f"{value:.4g}" if math.isfinite(value) else str(value)


def slowest(ranks: Sequence[RankView]) -> RankView | None:
    """Return the rank with clearly fewer steps a second than the others; None where none has."""
    rated = [(rank.rate, rank) for rank in ranks if rank.rate is not None]
    if len(rated) < 2:
        return None
    rate, last = min(rated, key=lambda pair: pair[0])
    return last if rate < _SLOW * median(known for known, _ in rated) else None
