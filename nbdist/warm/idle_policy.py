"""What ranks that wait may take: how long, how much memory, and which share of the processors.

Processor time that nothing else wants, for ranks that import while a run goes on.

A process can always be given less, and as a rule never its own share again: leaving SCHED_IDLE, or a nice
value, takes a privilege (sched(7)). Where sessions are groups of the scheduler, their weight can be changed
both ways by any user.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from nbdist.control_groups import own_groups
from nbdist.devices.usage import memory_available

IDLE_LIMIT = 900.0
"""Seconds after which unused ranks are given up."""

LEAST_MEMORY = 1 << 29


@dataclass(slots=True)
class IdlePolicy:
    """How long it is worth waiting. ``clock`` counts seconds, ``available`` says how much memory is left."""

    clock: Callable[[], float] = time.monotonic
    available: Callable[[], int | None] = memory_available
    least: int = LEAST_MEMORY
    limit: float = IDLE_LIMIT
    _begun: float | None = field(default=None, init=False)

    def restart(self) -> None:
        """No run could have used it until now."""
        self._begun = None

    def over(self) -> str:
        """Why there is no point in waiting any longer; empty while there is."""
        now = self.clock()
        self._begun = now if self._begun is None else self._begun
        if now - self._begun >= self.limit:
            return f"no run used them for {self.limit / 60:g} minutes"
        available = self.available()
        if available is not None and available < self.least:
            return f"memory got short: {available >> 20} MB were left"
        return ""


_LOWEST, _USUAL = 19, 0

_BEGIN = 1.0

_PATIENCE, _PAUSE = 3.0, 0.01
"""The system takes one change of a group's weight in a tenth of a second, from all ordinary users together:
seconds until a change is given up, and between two attempts."""


class BackgroundShare:
    """Whether this process may put others behind everything else and give them their share back, and how.

    ``possible``: it may.
    """

    def __init__(self) -> None:
        self._by_group = _sessions_are_groups()
        self.possible = self._by_group or _idle_ends()
        self._policy = os.sched_getscheduler(0)

    def take(self, pid: int) -> None:
        """Give a process, which leads a session or is about to, only what is left over."""
        with contextlib.suppress(OSError):
            if self._by_group:
                _await_session(pid)
                _weigh(pid, _LOWEST)
            elif self.possible:
                os.sched_setscheduler(pid, os.SCHED_IDLE, os.sched_param(0))

    def give_back(self, pid: int) -> None:
        """Let it have the share of any process again."""
        with contextlib.suppress(OSError):
            if self._by_group:
                _weigh(pid, _USUAL)
            elif self.possible:
                # threads have policies of their own, those of what computes inherited theirs
                for thread in os.listdir(f"/proc/{pid}/task"):
                    with contextlib.suppress(ProcessLookupError):
                        os.sched_setscheduler(int(thread), self._policy, os.sched_param(0))


def _await_session(pid: int) -> None:
    """Until then it is in ours."""
    deadline = time.monotonic() + _BEGIN
    while os.getsid(pid) != pid:
        if time.monotonic() > deadline:
            raise TimeoutError
        time.sleep(0.001)


def _weigh(pid: int, nice: int) -> None:
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            Path(f"/proc/{pid}/autogroup").write_text(str(nice))
            return
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise
            time.sleep(_PAUSE)


def _sessions_are_groups(root: Path = Path("/")) -> bool:
    """Whether the scheduler weighs sessions (CONFIG_SCHED_AUTOGROUP): of processes that are in no group with
    a weight of its own, as those of containers are."""
    try:
        enabled = (root / "proc/sys/kernel/sched_autogroup_enabled").read_text().strip() == "1"
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return False
    weighed = any(
        "cpu" in controllers.split(",") and place != "/"
        for _, controllers, place in (line.split(":", 2) for line in lines)
    )
    return enabled and not weighed and not any(os.path.exists(f"{own}/cpu.weight") for own in own_groups())


def _idle_ends() -> bool:
    """Whether a process of this user's may leave SCHED_IDLE again. One that tries is made for that."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
            os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
            code = 0
        finally:
            os._exit(code)
    return os.waitpid(child, 0)[1] == 0
