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


def unfit(pid: int) -> str:
    """What a process has that a rank may not have before its program runs; empty when there is nothing."""
    try:
        threads = len(os.listdir(f"/proc/{pid}/task"))
        files = [os.readlink(entry.path) for entry in os.scandir(f"/proc/{pid}/fd")]
        stat = processes.identify(pid)
    except OSError:
        stat = None
    if stat is None:
        return "is gone"
    if threads != 1:
        return f"has {threads} threads after its imports (OMP_NUM_THREADS=1 keeps it at one)"
    device = next((path for path in files if path.startswith("/dev/nvidia")), "")
    return f"has opened {device}" if device else ""
