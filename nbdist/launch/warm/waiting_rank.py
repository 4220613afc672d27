"""A rank that waits, seen by its supervisor."""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import dataclass
from typing import Any

from nbdist import processes
from nbdist.launch.rank_process import RankProcess


@dataclass(slots=True)
class Waiting:
    """One rank that waits. ``facts`` is what it said when it was ready."""

    started: RankProcess
    said: bytes = b""
    facts: dict[str, Any] | None = None

    def hear(self) -> bool:
        """Take what it says; whether it is still there."""
        with contextlib.suppress(BlockingIOError):
            piece = self.started.channel.recv(1 << 20)
            if not piece:
                return False
            self.said += piece
            if self.facts is None and self.said.endswith(b"\n"):
                self.facts = json.loads(self.said)
        return True


def problem_of(waiting: Waiting) -> str:
    """Why a rank that has done its imports cannot be used; empty when it can."""
    facts = waiting.facts or {}
    return str(facts["problem"]) or unfit(waiting.started.process.pid, int(facts["threads"]))


def unfit(pid: int, allowed: int = 1) -> str:
    """What a process has that a rank may not have before its program runs; empty when there is nothing.
    ``allowed`` are the threads that it has when it has imported what computes, and nothing else."""
    try:
        threads = len(os.listdir(f"/proc/{pid}/task"))
        files = [os.readlink(entry.path) for entry in os.scandir(f"/proc/{pid}/fd")]
        stat = processes.identify(pid)
    except OSError:
        stat = None
    if stat is None:
        return "is gone"
    if threads != allowed:
        return f"has {threads} threads after its imports, not {allowed}"
    device = next((path for path in files if path.startswith("/dev/nvidia")), "")
    return f"has opened {device}" if device else ""
