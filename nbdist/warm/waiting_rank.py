"""A rank that was started before its run, seen by its supervisor."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from nbdist import processes
from nbdist.launch.rank_process import RankProcess
from nbdist.worker.order import HURRY, Assignment


@dataclass(slots=True)
class WaitingRank(RankProcess):
    """It imports, says what that was made from (``facts``), and waits. It can be told its run before it is
    ready; it hears of it when it is."""

    facts: dict[str, Any] | None = None
    _said: bytes = b""
    _engagement: Assignment | None = None
    _doubt: Callable[[], str] = str
    _told: bool = False

    @property
    def told(self) -> bool:
        return self._told

    @property
    def held(self) -> bool:
        """Whether it was stopped (SIGSTOP): it will not be ready."""
        activity = processes.activity(self.process.pid)
        return activity is not None and activity.state in ("T", "t")

    def hear(self) -> bytes | None:
        # without super(): a class with slots is made twice
        if self._told:
            return RankProcess.hear(self)
        try:
            piece = self.channel.recv(1 << 20)
        except BlockingIOError:
            return b""
        except OSError:
            return None
        self._said += piece
        if self._said.endswith(b"\n"):
            self.facts, self._said = json.loads(self._said), b""
            self._tell()
        return b"" if piece else None

    def ask(self, words: bytes) -> None:
        # what comes before its run would be taken for a part of it
        if self._told:
            RankProcess.ask(self, words)

    def engage(self, engagement: Assignment, doubt: Callable[[], str]) -> None:
        """Tell it its run, as soon as it is ready. ``doubt`` is asked then why it cannot be used as it is,
        and has to begin again, cold; empty when it can."""
        self._engagement, self._doubt = engagement, doubt
        if self.facts is None:
            with contextlib.suppress(OSError):
                self.channel.send(HURRY)
        self._tell()

    def _tell(self) -> None:
        if self._engagement is None or self.facts is None:
            return
        self._engagement.cold = self._doubt()
        self.channel.setblocking(True)
        with contextlib.suppress(OSError):
            # one that has died is found by its exit
            self.channel.sendall(self._engagement.encode())
        self.channel.setblocking(False)
        self._told = True


def problem_of(waiting: WaitingRank) -> str:
    """Why a rank that has done its imports cannot be used; empty when it can."""
    facts = waiting.facts or {}
    return str(facts["problem"]) or unfit(waiting.process.pid, int(facts["threads"]))


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
