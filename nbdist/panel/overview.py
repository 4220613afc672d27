"""What goes on at a moment: runs and their ranks, the machine and who uses its GPUs, warm ranks; as data for
the monitor's page, as text, and as static HTML."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from nbdist.diagnosis.exits import rank_ranges
from nbdist.feed.machine import GpuState, Holder, MachineState
from nbdist.feed.view import bytes_text
from nbdist.panel.status import Row, StatusView, shows_ranks, status_html, status_text
from nbdist.text import say
from nbdist.warm.pool import WarmState

_TAKEN = 1_000_000_000
"""Bytes of a GPU in use that no process seen here holds: a container's neighbour does."""
_UNUSED = ("failure", "notes", "inputs", "results", "checkpoint")


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """A user of a GPU: a run of this user with its ranks there, or a process."""

    text: str
    run_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """What goes on at ``now`` (Unix seconds), live runs first. ``lines``: sweeps, unreadable runs."""

    now: float
    views: Sequence[StatusView]
    machine: MachineState
    warm: WarmState
    lines: Sequence[str] = ()

    def users(self, gpu: GpuState) -> list[User]:
        """Return who uses a GPU: runs by their ranks' devices, other processes by what they hold."""
        users = []
        for view in self.views:
            ranks = [rank.rank for rank in view.ranks if rank.device == f"GPU {gpu.index}" and rank.pid]
            if view.live and ranks and not view.elsewhere:
                users.append(User(text=f"{view.label} · {rank_ranges(ranks)}", run_id=view.run_id))
        known = {user.run_id for user in users} - {None}
        others = (_process(holder) for holder in gpu.holders if holder.name or holder.run_id)
        return users + [user for user in dict.fromkeys(others) if user.run_id not in known]

    def taken(self, gpu: GpuState) -> bool:
        """Return whether something uses a GPU, seen or not."""
        return bool(self.users(gpu) or gpu.holders or (gpu.memory or 0) > _TAKEN)

    @property
    def foot(self) -> int:
        """Return the number of lines of text below the runs."""
        return max(1, len(self.machine.gpus)) + bool(self.warm.ranks) + len(self.lines)

    @property
    def states(self) -> list[tuple[str, str]]:
        """Return the state of each run."""
        return [(view.run_id, view.state) for view in self.views]

    def to_dict(self) -> dict[str, Any]:
        """Return the data of the page (``labextension/src/monitor.ts``)."""
        gpus = [
            {name: value for name, value in asdict(gpu).items() if name != "holders"}
            | {"taken": self.taken(gpu), "users": [asdict(user) for user in self.users(gpu)]}
            for gpu in self.machine.gpus
        ]
        machine = {name: value for name, value in asdict(self.machine).items() if name != "gpus"}
        runs = [self._run(view) for view in self.views]
        about = {"warm": asdict(self.warm), "lines": list(self.lines)}
        return {"now": self.now, "runs": runs, "gpus": gpus, "machine": machine, **about}

    def _run(self, view: StatusView) -> dict[str, Any]:
        data = view.to_dict()
        for name in _UNUSED:
            del data[name]
        for rank in data["ranks"]:
            rank["samples"] = view.samples.get(rank["rank"])
        data |= {"session": view.session, "size": len(view.ranks)}
        return data if shows_ranks(view, self.views) else data | {"ranks": ()}

    def text(self, language: str) -> str:
        return "\n".join([status_text(self.views, language, self._rows(language)), *self.lines])

    def bundle(self, language: str, beside: str = "") -> dict[str, str]:
        """Return the still table of a notebook in the folder ``beside``."""
        page = status_html(
            self.views, language, self.now, self._rows(language), beside=beside, lines=self.lines
        )
        return {"text/plain": self.text(language), "text/html": page}

    def _rows(self, language: str) -> list[Row]:
        rows: list[Row] = []
        for gpu in self.machine.gpus:
            text = ", ".join(user.text for user in self.users(gpu))
            taken = self.taken(gpu)
            rows.append(
                {
                    "run": "" if rows else say("panel.machine", language),
                    "state": say("panel.in-use" if taken else "panel.free", language),
                    "mark": "running" if taken else "pending",
                    "device": f"GPU {gpu.index} · {gpu.name.removeprefix('NVIDIA ')}",
                    "memory": _share(gpu.memory, gpu.memory_total),
                    "use": "" if gpu.utilisation is None else f"{gpu.utilisation:.0f} %",
                    "last-line": text,
                }
            )
        machine = self.machine
        if not rows:
            row = {
                "run": say("panel.machine", language),
                "device": say("panel.cores", language, count=machine.cores),
                "memory": _share(machine.memory, machine.memory_total),
                "use": "" if machine.cpu is None else f"{machine.cpu:.0f} %",
            }
            rows.append(row)
        if self.warm.ranks:
            ready = say("panel.warm-ready" if self.warm.ready else "panel.warm-importing", language)
            ranks = say("panel.warm-ranks", language, count=self.warm.ranks, framework=self.warm.framework)
            warm = {"run": say("panel.warm", language), "state": ready, "mark": "pending"}
            memory = bytes_text(self.warm.shared)
            rows.append(warm | {"memory": memory, "last-line": ranks})
        return rows


def _process(holder: Holder) -> User:
    if holder.run_id is not None:
        return User(text=holder.run_id.split("-", 2)[2], run_id=holder.run_id)
    return User(text=f"{holder.name} ({', '.join(filter(None, [str(holder.pid), holder.user]))})")


def _share(used: int | None, total: int | None) -> str:
    """Return ``11.2/80 GB``."""
    if used is None or not total:
        return bytes_text(used)
    return f"{used / 1e9:.1f}/{total / 1e9:.0f} GB"
