"""One standby in hand: a supervisor with ranks that wait, told over a socket which run is its own."""

from __future__ import annotations

import contextlib
import json
import os
import select
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from nbdist import processes
from nbdist.frameworks.preload import PRELOADED, READ_UNSEEN
from nbdist.runner.fitting import Shape, shape_of
from nbdist.runner.planning import Plan
from nbdist.schedulers import local
from nbdist.store.paths import RunDirectory

_ANSWER = 2.0
_LOOK = 0.1
_TAKE = 10.0


class Standby:
    """Ranks as those of ``plan`` would be. Raises LaunchError when they cannot be started."""

    def __init__(self, plan: Plan, *, idle: float) -> None:
        self.shape: Shape = shape_of(plan)
        self.begun = time.monotonic()
        self.reads: frozenset[str] = frozenset()
        self.ready = False
        self.gone = ""
        self._pids: list[int] = []
        self._said = b""
        self._answers: dict[str, Any] = {}
        self.submitted = local.stand_by(plan.environment, plan.spec.python)
        offer = {
            # until it has a run it is this process's, also where its run will be nobody's
            "spec": replace(plan.spec, owner=processes.identify(os.getpid()), detached=False).to_dict(),
            "preload": {
                "modules": PRELOADED.get(plan.spec.framework, ()),
                "first": self.shape.first,
                "python_path": self.shape.python_path,
                "unseen": READ_UNSEEN,
            },
            "idle": idle,
        }
        self._say(offer)

    def look(self, wait: float = 0.0) -> None:
        """Take what it has said; wait so many seconds for something."""
        line = self.submitted.lifeline
        if self.gone or line is None:
            return
        if not select.select([line], [], [], wait)[0]:
            return
        try:
            piece = line.recv(1 << 20)
        except OSError:
            piece = b""
        if not piece:
            self.gone = "it ended"
            return
        *lines, self._said = (self._said + piece).split(b"\n")
        for said in map(json.loads, lines):
            self._take(said)

    def wait_until_ready(self, limit: float, interrupted: Callable[[], bool] = lambda: False) -> bool:
        """Whether its ranks have done their imports, now or within ``limit`` seconds; the wait is over soon
        when it is ``interrupted``."""
        deadline = time.monotonic() + limit
        self.look()
        while not (self.ready or self.gone or interrupted()) and (left := deadline - time.monotonic()) > 0:
            self.look(min(left, _LOOK))
        return self.ready and not self.gone

    def check(self) -> str:
        """Why a cold start would now make other ranks; empty when it would make these."""
        return str(self._ask({"check": True}, "checked", _ANSWER, "it did not answer"))

    def go(self, directory: RunDirectory, environment: Mapping[str, str]) -> bool:
        """Make it the supervisor of this run. False when it has ended instead, and nothing has begun."""
        said = {"go": str(directory.path), "environment": dict(environment)}
        taken = self._ask(said, "taken", _TAKE, True)
        if taken is True:
            self.close()
        return taken is True

    def leave(self) -> None:
        """It is not wanted any more, and ends."""
        self._say({"leave": True})
        self.close()

    def close(self) -> None:
        if self.submitted.lifeline is not None:
            self.submitted.lifeline.close()

    def memory(self) -> tuple[int, int]:
        """Bytes that its processes hold: their share of everything (PSS), and what is theirs alone."""
        shares = [_memory(pid) for pid in {self.submitted.process.pid, *self._pids}]
        return sum(share for share, _ in shares), sum(private for _, private in shares)

    def _ask(self, what: dict[str, Any], answer: str, limit: float, silence: object) -> object:
        deadline = time.monotonic() + limit
        if self._say(what):
            while answer not in self._answers and not self.gone:
                if (left := deadline - time.monotonic()) <= 0:
                    return silence
                self.look(left)
        return self._answers.pop(answer, self.gone or "it ended")

    def _say(self, what: dict[str, Any]) -> bool:
        line = self.submitted.lifeline
        assert line is not None, "a standby is always on a line"
        try:
            line.sendall(json.dumps(what).encode() + b"\n")
        except OSError:
            self.gone = self.gone or "it ended"
            return False
        return True

    def _take(self, said: dict[str, Any]) -> None:
        if "ready" in said:
            self.ready = True
            self.reads = frozenset(said["ready"]["reads"])
            self._pids = list(said["ready"]["pids"])
        elif "gone" in said:
            self.gone = str(said["gone"])
        else:
            self._answers |= said


def _memory(pid: int) -> tuple[int, int]:
    """Proportional and private bytes of a process (proc(5), smaps_rollup); zeros when it has gone."""
    figures: dict[str, int] = {}
    with contextlib.suppress(OSError, ValueError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]:
            name, _, value = line.partition(":")
            figures[name] = int(value.split()[0]) * 1024
    private = figures.get("Private_Clean", 0) + figures.get("Private_Dirty", 0)
    return figures.get("Pss", 0), private
