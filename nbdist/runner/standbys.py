"""One standby in hand: a supervisor with ranks that wait, told over a socket which run is its own."""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import subprocess
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from nbdist import processes
from nbdist.errors import LaunchError
from nbdist.frameworks.preload import PRELOADED, READ_UNSEEN
from nbdist.model import Plan
from nbdist.runner.fitting import Shape, shape_of
from nbdist.schedulers import local
from nbdist.store.paths import RunDirectory

ENTRY = Path(__file__).parent.parent / "launch" / "warm" / "__main__.py"

_TAKE = 0.2
"""Seconds in which it says that it takes a run: a cell waits for that before it shows anything."""


class Standby:
    """Ranks as those of ``plan`` would be; ``beside`` a run they get what processor time that leaves over,
    until they are to hurry. Raises LaunchError when they cannot be started."""

    def __init__(self, plan: Plan, *, idle: float, beside: bool = False) -> None:
        self.shape: Shape = shape_of(plan)
        self.reads: frozenset[str] = frozenset()
        self.up = False
        self.ready = False
        self.gone = ""
        self.hopeless = True
        self._pids: list[int] = []
        self._said = b""
        self._answers: dict[str, Any] = {}
        self.submitted = _start(plan.environment, plan.spec.python)
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
            "beside": beside,
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

    def wait_until_ready(self, limit: float) -> bool:
        """Whether its ranks have done their imports, now or within ``limit`` seconds."""
        deadline = time.monotonic() + limit
        self.look()
        while not (self.ready or self.gone) and (left := deadline - time.monotonic()) > 0:
            self.look(left)
        return self.ready and not self.gone

    def hurry(self) -> None:
        """The run beside which it was made has ended."""
        self._say({"hurry": True})

    def go(self, directory: RunDirectory, environment: Mapping[str, str]) -> str:
        """Make it the supervisor of this run, whose programs begin when its ranks are ready. Empty when it
        is; else why a cold start would make other ranks, and nothing has begun."""
        deadline = time.monotonic() + _TAKE
        if self._say({"go": str(directory.path), "environment": dict(environment)}):
            while self._is_awaited and (left := deadline - time.monotonic()) > 0:
                self.look(left)
            if self._is_awaited:
                self._refuse()
        problem = str(self._answers.get("taken", self.gone or "it ended"))
        if not problem:
            self.close()
        return problem

    @property
    def _is_awaited(self) -> bool:
        return "taken" not in self._answers and not self.gone

    def _refuse(self) -> None:
        """Let it take no run from now on: what it has said by now was in time."""
        assert self.submitted.lifeline is not None, "a standby is always on a line"
        with contextlib.suppress(OSError):
            self.submitted.lifeline.shutdown(socket.SHUT_RDWR)
        while self._is_awaited:
            self.look(_TAKE)
        if "taken" not in self._answers:
            self.gone = "the ranks that wait did not answer"

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
        if "up" in said:
            self.up = True
        elif "ready" in said:
            self.ready = True
            self.reads = frozenset(said["ready"]["reads"])
            self._pids = list(said["ready"]["pids"])
        elif "gone" in said:
            self.gone, self.hopeless = str(said["gone"]), bool(said["hopeless"])
        else:
            self._answers |= said


def _start(environment: Mapping[str, str], python: str) -> local.Submitted:
    """Start a supervisor of a run that is not known yet (``launch.warm.standby``). Raises LaunchError."""
    ours, theirs = socket.socketpair()
    try:
        with local.interrupts_wait():
            process = subprocess.Popen(
                [python, *local.FLAGS, str(ENTRY), str(theirs.fileno())],
                env=dict(environment),
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                pass_fds=(theirs.fileno(),),
            )
    except OSError as error:
        ours.close()
        raise LaunchError(f"no supervisor could be started with {python}: {error}") from error
    finally:
        theirs.close()
    local.collect(process)
    return local.Submitted(process, ours)


def _memory(pid: int) -> tuple[int, int]:
    """Proportional and private bytes of a process (proc(5), smaps_rollup); zeros when it has gone."""
    figures: dict[str, int] = {}
    with contextlib.suppress(OSError, ValueError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]:
            name, _, value = line.partition(":")
            figures[name] = int(value.split()[0]) * 1024
    private = figures.get("Private_Clean", 0) + figures.get("Private_Dirty", 0)
    return figures.get("Pss", 0), private
