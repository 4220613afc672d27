"""An overview of a moment: runs and their ranks, the machine and who uses its GPUs, warm ranks; as data for
the monitor's page, as text, and as static HTML."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from nbdist.diagnosis.exits import rank_ranges
from nbdist.feed.labels import ranks_text
from nbdist.feed.machine import GpuState, Holder, MachineState
from nbdist.feed.view import RankView, memory_text, use_text
from nbdist.panel.status import Row, StatusView, rank_cells, run_row, shown_ranks, status_html, status_text
from nbdist.text import say
from nbdist.warm.state import WarmState

_TAKEN = 1_000_000_000
"""Bytes of a GPU in use that no process here holds: one of another container does."""
_ILL = ("failed", "lost", "stalled", "slow")
_TITLES = ("rank", "device", "memory", "use", "rate", "samples", "state", "last-line")


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """All that goes on at ``now`` (Unix seconds), live runs first. ``lines``: sweeps, unreadable runs."""

    now: float
    views: Sequence[StatusView]
    machine: MachineState
    warm: WarmState
    lines: Sequence[str] = ()

    def text(self, language: str) -> str:
        return "\n".join([status_text(self.views, language, self.others(language)), *self.lines])

    def bundle(self, language: str, beside: str = "") -> dict[str, str]:
        """Return the still table of a notebook in the folder ``beside``."""
        others = [*self.others(language), *({"last-line": line} for line in self.lines)]
        page = status_html(self.views, language, self.now, others, beside)
        return {"text/plain": self.text(language), "text/html": page}

    def to_dict(self, language: str) -> dict[str, Any]:
        """Return the data of the page (``labextension/src/model/monitor.ts``)."""
        live = [view for view in self.views if view.live]
        runs = [self._run(view, language) for view in self.views]
        ill = sum(run["live"] and any(row["ill"] for row in (run, *run["rows"])) for run in runs)
        ranks = ranks_text(sum(len(view.ranks) for view in live), language) if live else ""
        free = [row["free"] for row in self.others(language) if "free" in row]
        return {
            "time": time.strftime("%H:%M:%S", time.localtime(self.now)),
            "titles": _for_page({name: say(f"panel.{name}", language).capitalize() for name in _TITLES}),
            "summary": say("panel.live-runs", language, count=len(live), ranks=ranks),
            "ill": say("panel.ill", language, count=ill) if ill else "",
            "free": say("panel.gpus-free", language, count=sum(free), all=len(free)) if free else "",
            "runs": runs,
            "others": [_for_page(row) for row in self.others(language)],
            "lines": [*self.lines, *([] if runs else [say("panel.no-runs", language)])],
        }

    def _run(self, view: StatusView, language: str) -> Row:
        names = {f"GPU {gpu.index}": _gpu_name(gpu) for gpu in self.machine.gpus if not view.elsewhere}
        rows = []
        for rank in shown_ranks(view, self.views):
            row = rank_cells(rank, view, language) | _shares(rank)
            rows.append(_for_page(row | {"device": names.get(rank.device, rank.device)}))
        about = {"run_id": view.run_id, "live": view.live, "ranks": ranks_text(len(view.ranks), language)}
        return _for_page(run_row(view, language)) | about | {"rows": rows}

    def others(self, language: str) -> list[Row]:
        """Return the rows below the runs: the machine, warm ranks."""
        rows = []
        for gpu in self.machine.gpus:
            text, taken = self._users(gpu)
            state = {"state": say("panel.in-use" if taken else "panel.free", language), "free": not taken}
            use = _use(_gpu_name(gpu), gpu.memory, gpu.memory_total, gpu.utilisation)
            rows.append(use | state | {"last-line": text})
        if not rows:
            machine = self.machine
            cores = say("panel.cores", language, count=machine.cores)
            rows.append(_use(cores, machine.memory, machine.memory_total, machine.cpu))
        rows[0]["run"] = say("panel.machine", language)
        if (warm := self.warm).ranks:
            ranks = say("panel.warm-ranks", language, count=warm.ranks, framework=warm.framework)
            state = {"state": say("panel.warm-ready" if warm.ready else "panel.warm-importing", language)}
            name = say("panel.warm", language)
            rows.append(_use(name, warm.shared, None, None) | state | {"mark": "pending", "last-line": ranks})
        return rows

    def _users(self, gpu: GpuState) -> tuple[str, bool]:
        """Return who uses a GPU: runs by the devices of their ranks, and other processes; whether it is used,
        by whomever."""
        users: dict[str | None, str] = {}
        for view in self.views:
            ranks = [rank.rank for rank in view.ranks if rank.device == f"GPU {gpu.index}" and rank.pid]
            if view.live and ranks and not view.elsewhere:
                users[view.run_id] = f"{view.label} · {rank_ranges(ranks)}"
        others = [_process(holder) for holder in gpu.holders if holder.run_id not in users and holder.name]
        text = ", ".join(dict.fromkeys([*users.values(), *others]))
        return text, bool(text or gpu.holders or (gpu.memory or 0) > _TAKEN)


def _gpu_name(gpu: GpuState) -> str:
    return f"GPU {gpu.index} · {gpu.name.removeprefix('NVIDIA ')}"


def _process(holder: Holder) -> str:
    if holder.run_id is not None:
        return holder.run_id.split("-", 2)[2]
    return f"{holder.name} ({', '.join(filter(None, [str(holder.pid), holder.user]))})"


def _use(device: str, memory: int | None, total: int | None, share: float | None) -> Row:
    gpu: Any = {"gpu_memory": memory, "gpu_memory_total": total, "gpu": share}
    as_rank = RankView(rank=0, state="", device="", pid=None, exit="", elapsed=0.0, last_line="", **gpu)
    return {"device": device, "memory": memory_text(as_rank), "use": use_text(as_rank), **_shares(as_rank)}


def _shares(rank: RankView) -> Row:
    """Return the parts of memory and time in use, 1 for all."""
    used, total = rank.gpu_memory, rank.gpu_memory_total
    if used is None:
        used, total = rank.memory, rank.memory_total
    share = rank.cpu if rank.gpu is None else rank.gpu
    return {"memory-share": used / total if used and total else None, "use-share": share and share / 100}


def _for_page(row: Row) -> Row:
    return {name.replace("-", "_"): cell for name, cell in row.items()} | {"ill": row.get("mark") in _ILL}
