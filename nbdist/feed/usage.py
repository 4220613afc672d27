"""What the ranks of a run use: memory, GPU memory, and what of it came back at the end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import psutil

from nbdist.devices.gpus import GpuUse, memory_by_pid
from nbdist.devices.usage import TreeUsage, tree_usage
from nbdist.model import RankState, Run
from nbdist.text import say


@dataclass(frozen=True, slots=True, kw_only=True)
class RankUsage:
    """Bytes that the process tree of a rank holds; ``gpu_memory`` is None on the CPU."""

    memory: int
    gpu_memory: int | None = None


class UsageWatch:
    """Watches a run's ranks while they live, so that the summary can say which GPU memory they freed."""

    def __init__(
        self,
        *,
        holders: Callable[[], list[GpuUse]] = memory_by_pid,
        tree: Callable[..., TreeUsage | None] = tree_usage,
        name: Callable[[int], str] | None = None,
    ) -> None:
        self._holders = holders
        self._tree = tree
        self._name = name or _name
        self._gpus: frozenset[int] = frozenset()
        self._held: dict[int, int] = {}
        self._ours: set[int] = set()

    def look(self, run: Run) -> Mapping[int, RankUsage]:
        """What each live rank on this machine uses now."""
        if run.spec.engine:
            return {}  # its machines are others, and so are their GPUs
        self._gpus = frozenset(r.spec.device.index for r in run.ranks if r.spec.device.kind == "gpu")
        holders = self._holders() if self._gpus else []
        found: dict[int, RankUsage] = {}
        held: dict[int, int] = {}
        for rank in run.ranks:
            if rank.process is None or rank.state is not RankState.RUNNING:
                continue
            usage = self._tree(rank.process)
            if usage is None:
                continue
            self._ours |= usage.pids
            own = [use for use in holders if use.pid in usage.pids]
            for use in own:
                held[use.index] = held.get(use.index, 0) + use.memory
            on_gpu = rank.spec.device.kind == "gpu"
            total = sum(use.memory for use in own)
            found[rank.rank] = RankUsage(memory=usage.memory, gpu_memory=total if on_gpu else None)
        if found:
            self._held = held
        return found

    def report(self, language: str) -> list[str]:
        """After the end, a line per GPU of the run: what came back, and who still holds memory of it."""
        if not self._gpus:
            return []
        lines = []
        holders = [use for use in self._holders() if use.index in self._gpus]
        for index in sorted(self._gpus):
            ours = sum(use.memory for use in holders if use.index == index and use.pid in self._ours)
            freed = max(0, self._held.get(index, 0) - ours)
            lines.append(say("panel.gpu-freed", language, index=index, size=freed / 1e9))
            lines += [
                say(
                    "panel.gpu-held",
                    language,
                    index=index,
                    size=use.memory / 1e9,
                    name=self._name(use.pid),
                    pid=use.pid,
                )
                for use in holders
                if use.index == index
            ]
        return lines


def _name(pid: int) -> str:
    try:
        return psutil.Process(pid).name()
    except psutil.Error:
        return "?"
