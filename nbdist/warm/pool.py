"""Ranks that wait for the next run: when nbdist starts, uses and ends them.

A kernel has at most one standby, for one run. The next starts beside that run, on what it leaves idle, or
after it.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from nbdist import config, processes
from nbdist.devices.usage import memory_available, memory_total
from nbdist.errors import LaunchError, UsageMistake
from nbdist.frameworks.environment import imported_modules
from nbdist.launch import local
from nbdist.model.decoding import MALFORMED
from nbdist.model.plan import Plan
from nbdist.store.paths import RunDirectory
from nbdist.warm.idle_policy import IDLE_LIMIT
from nbdist.warm.line import Line
from nbdist.warm.match import (
    PRELOADED,
    READ_UNSEEN,
    RankShape,
    changed_early,
    difference,
    read_at_import,
    shape_of,
)
from nbdist.warm.state import WarmState
from nbdist.worker.order import ROOM

_TAKE = 0.2
"""Seconds that a standby has to accept a run: the cell shows nothing before."""


class Standby:
    """Ranks like those of ``plan``, which end when no run uses them for ``idle`` seconds. ``beside`` a run
    they start once CPUs are idle or ``hurry`` is called; with ``hurry`` at once. Raises LaunchError."""

    def __init__(self, plan: Plan, *, idle: float, beside: bool = False, hurry: bool = False) -> None:
        self.shape: RankShape = shape_of(plan)
        self.reads: frozenset[str] = frozenset()
        self.up = False
        self.ready = False
        self.gone = ""
        self.hopeless = True
        self._pids: list[int] = []
        self._refusal: str | None = None
        with local.line_to_child() as (ours, theirs):
            command = local.command(plan.spec.python, "warm.standby", str(theirs.fileno()))
            process = local.spawn(command, environment=plan.environment, descriptors=(theirs.fileno(),))
        local.collect(process)
        self.supervisor, self._line = local.SupervisorProcess(process, ours), Line(ours)
        # before a run, this process owns it, even if its run will be detached
        spec = replace(plan.spec, owner=processes.identify(os.getpid()), detached=False, sweep=None)
        preload = {
            "modules": PRELOADED.get(plan.spec.framework, ()),
            "first": self.shape.first,
            "python_path": self.shape.python_path,
            "unseen": READ_UNSEEN,
        }
        self._send(spec=spec.to_dict(), preload=preload, idle=idle, beside=beside, hurry=hurry)

    def look(self, wait: float = 0.0) -> None:
        """Read the messages that arrive within ``wait`` seconds."""
        if self.gone or not processes.wait_for(self._line, wait):
            return
        try:
            messages = self._line.receive()
            if messages is None:
                self.gone = "it ended"
            for message in messages or ():
                self._take(message)
        except MALFORMED:
            self.gone = "it is no standby of this version"

    def wait_until_ready(self, limit: float) -> bool:
        """Return whether its ranks finish their imports within ``limit`` seconds."""
        deadline = time.monotonic() + limit
        self.look()
        while not (self.ready or self.gone) and (left := deadline - time.monotonic()) > 0:
            self.look(left)
        return self.ready and not self.gone

    def hurry(self) -> None:
        """Report the end of the run beside which it was made."""
        self._send(hurry=True)

    def go(self, directory: RunDirectory, environment: Mapping[str, str]) -> str:
        """Make it the supervisor of this run, whose programs begin when its ranks are ready. Return an empty
        text, or why it refused: then nothing has begun."""
        deadline = time.monotonic() + _TAKE
        if self._send(go=str(directory.path), environment=dict(environment)):
            while self._is_awaited and (left := deadline - time.monotonic()) > 0:
                self.look(left)
            if self._is_awaited:
                self._refuse()
        problem = self.gone or "it ended" if self._refusal is None else self._refusal
        if not problem:
            self.close()
        return problem

    @property
    def _is_awaited(self) -> bool:
        return self._refusal is None and not self.gone

    def _refuse(self) -> None:
        """Let it accept no run from now on; an answer that has arrived still counts."""
        self._line.refuse()
        while self._is_awaited:
            self.look(_TAKE)
        if self._refusal is None:
            self.gone = "the warm ranks did not answer"

    def leave(self) -> None:
        """End it."""
        self._send(leave=True)
        self.close()

    def close(self) -> None:
        self._line.close()

    def memory(self) -> tuple[int, int]:
        """Return the bytes that its processes hold: their share of everything (PSS), and private ones."""
        shares = [_memory(pid) for pid in {self.supervisor.process.pid, *self._pids}]
        return sum(share for share, _ in shares), sum(private for _, private in shares)

    def _send(self, **message: object) -> bool:
        sent = self._line.send(**message)
        if not sent:
            self.gone = self.gone or "it ended"
        return sent

    def _take(self, message: dict[str, Any]) -> None:
        if "up" in message:
            self.up = True
        elif "ready" in message:
            self.ready = True
            self.reads = frozenset(message["ready"]["reads"])
            self._pids = list(message["ready"]["pids"])
        elif "gone" in message:
            self.gone, self.hopeless = str(message["gone"]), bool(message["hopeless"])
        else:
            self._refusal = str(message["taken"])


def _memory(pid: int) -> tuple[int, int]:
    """Return a process's proportional and private bytes (proc(5), smaps_rollup); zeros after its end."""
    figures: dict[str, int] = {}
    with contextlib.suppress(OSError, ValueError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]:
            name, _, value = line.partition(":")
            figures[name] = int(value.split()[0]) * 1024
    private = figures.get("Private_Clean", 0) + figures.get("Private_Dirty", 0)
    return figures.get("Pss", 0), private


AUTO, OFF, ALWAYS = "auto", "off", "always"

_IMPORTS = 60.0
"""Seconds that a run waits for warm ranks where all runs are to be warm."""

_BESIDE = 2.0
"""Seconds of a run after which the next ranks start: its own are up by then."""

_MEMORY_A_RANK = 600 << 20
"""Free bytes for each rank, without which none starts unasked; beside a run they must leave a tenth of all
memory, the limit of ``idle_policy``."""


class WarmPool:
    """Standby of this process. ``%dist_warm`` or NBDIST_WARM sets ``mode``."""

    def __init__(
        self,
        environ: Mapping[str, str] = os.environ,
        *,
        stand_by: Callable[..., Standby] = Standby,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        mode = environ.get("NBDIST_WARM", AUTO)
        self.mode = mode if mode in (AUTO, OFF, ALWAYS) else AUTO
        self._stand_by = stand_by
        self._clock, self._sleep = clock, sleep
        self._standby: Standby | None = None
        self._kept: Callable[[], Plan] | None = None
        self._count = 0
        self._hopeless: RankShape | None = None
        self._began_again: dict[frozenset[str], str] = {}
        self._reason = ""

    def engage(self, planned: Plan, *, warm: bool | None) -> tuple[Standby | None, str]:
        """Return ranks that wait, or still import, and fit this run as far as is known; else None and why."""
        if warm is False:
            return None, ""
        if warm:
            self._began_again.pop(_imports(planned), None)
        always = self.mode == ALWAYS
        if problem := unsuited(planned, idle_too=always):
            # a program without a framework lost nothing
            lost = self._standby is not None and planned.spec.framework in PRELOADED
            return None, problem if warm or always or lost else ""
        if self._standby is None and always:
            self._make(planned)
            self.wait_until_ready(_IMPORTS)
        standby = self._standby
        if standby is None:
            return None, (self._reason or "no warm ranks yet, the next run gets them") if warm else ""
        if not standby.up:
            # just started, it would be no sooner than a cold start
            self.release()
            return None, ""
        # the standby itself checks what only ready ranks know
        problem = difference(standby.shape, shape_of(planned), standby.reads)
        if problem := problem or self._too_early(planned, standby.reads):
            # a standby that the user keeps stays; one that nbdist guessed ends
            if self._kept is None:
                self.release()
            return None, problem
        self._standby = None
        return standby, ""

    def after(
        self,
        planned: Plan,
        *,
        warm: bool | None,
        directory: RunDirectory | None = None,
        goes_on: bool = False,
        hurry: bool = False,
    ) -> None:
        """Start ranks for the run after ``planned``, which has ended or ``goes_on``. With ``hurry`` that run
        is sure to come, and they do not wait for idle CPUs."""
        self.collect()
        if directory is not None:
            # why rank 0 could not use its early imports
            with contextlib.suppress(OSError):
                reason = directory.rank(0).again.read_text(encoding="utf-8", errors="replace")
                self._began_again[_imports(planned)] = reason
        if self.mode == OFF and not warm:
            return
        if self._kept is None and self._standby is not None and self._too_early(planned, frozenset()):
            # the ranks started beside the run do not fit it
            self.release()
        if self._standby is not None:
            if not goes_on:
                self._standby.hurry()
            return
        if self._kept is not None:
            planned = self._kept()
        elif self.mode == ALWAYS:
            return
        if problem := unsuited(planned) or self._too_early(planned, frozenset()):
            self._reason = problem
        elif not self._hopeless or difference(self._hopeless, shape_of(planned), frozenset()):
            self._make(planned, beside=goes_on, hurry=hurry)

    def beside(self, planned: Plan, *, warm: bool | None, directory: RunDirectory) -> Callable[[float], None]:
        """Return a sleep in seconds between two looks at a run; one of them starts the next run's ranks."""
        due = [self._clock() + _BESIDE]

        def pause(seconds: float) -> None:
            self._sleep(seconds)
            if due and self._clock() >= due[0]:
                due.clear()
                with contextlib.suppress(UsageMistake):
                    # ``%dist_warm N`` has reported the same mistake already
                    self.after(planned, warm=warm, directory=directory, goes_on=True)

        return pause

    def keep(self, plan: Callable[[], Plan]) -> None:
        """Keep ranks of such a plan, which has no program, ready from now on. Raises what ``plan`` raises."""
        planned = plan()
        self.release()
        self.mode, self._kept, self._count = AUTO, plan, len(planned.spec.ranks)
        self._make(planned)

    def choose(self, mode: str) -> None:
        """Start ranks after a run (auto), or never (off)."""
        self.mode, self._kept, self._reason = mode, None, ""
        if mode == OFF:
            self.release()

    def release(self) -> None:
        """End the standby."""
        if self._standby is not None:
            self._standby.leave()
            self._standby = None

    def wait_until_ready(self, limit: float) -> bool:
        """Return whether ranks wait within ``limit`` seconds."""
        return self._standby is not None and self._standby.wait_until_ready(limit)

    def collect(self) -> None:
        """Drop a standby that has ended."""
        if self._standby is not None:
            self._standby.look()
            if self._standby.gone:
                self._reason = self._standby.gone
                # they would end in the same way again
                hopeless = self._standby.hopeless and not self._standby.ready
                self._hopeless = self._standby.shape if hopeless else None
                self.release()

    def state(self, *, collect: bool = True) -> WarmState:
        """Return the state now; without ``collect`` on any thread."""
        if collect:
            self.collect()
        mode = self.mode if self._kept is None else str(self._count)
        if (standby := self._standby) is None:
            return WarmState(mode=mode, reason=self._reason)
        shared, private = standby.memory()
        return WarmState(
            mode=mode,
            ranks=len(standby.shape.ranks),
            framework=standby.shape.framework,
            ready=standby.ready,
            shared=shared,
            private=private,
        )

    def _make(self, planned: Plan, *, beside: bool = False, hurry: bool = False) -> None:
        self.release()
        available = memory_available()
        need = _MEMORY_A_RANK * len(planned.spec.ranks) + (memory_total() or 0) // 10 * beside
        if self._kept is None and available is not None and available < need:
            self._reason = f"only {available >> 20} MB of memory are free"
            return
        self._reason = ""
        try:
            self._standby = self._stand_by(planned, idle=IDLE_LIMIT, beside=beside, hurry=hurry)
        except (LaunchError, OSError) as error:
            self._reason = str(error)

    def _too_early(self, planned: Plan, reads: frozenset[str]) -> str:
        """Return why warm ranks would import too early for the program; empty when they would not."""
        name = next((name for name in changed_early(planned) if read_at_import(name, reads)), "")
        if name:
            return f"the program sets {name} before it imports {planned.spec.framework}"
        return self._began_again.get(_imports(planned), "")


def unsuited(planned: Plan, *, idle_too: bool = False) -> str:
    """Return why such a run starts cold; empty when it need not. With ``idle_too`` a run that has nothing to
    import ahead need not either."""
    spec = planned.spec
    if sys.platform != "linux" or not hasattr(os, "pidfd_open"):
        return "warm ranks need Linux"
    if spec.framework != "torch" and any(rank.device.kind != "cpu" for rank in spec.ranks):
        return "on GPUs only torch has warm ranks"
    if spec.nodes > 1 or spec.engine:
        return "runs on other machines have no warm ranks"
    if spec.memory is not None:
        return "runs with a memory limit have no warm ranks"
    if len(os.fsencode(str(config.home()))) > ROOM // 2:
        return "the path of the runs is too long"
    if spec.framework not in PRELOADED and not idle_too:
        return "this program imports none of torch, paddle and jax"
    return ""


def _imports(planned: Plan) -> frozenset[str]:
    """Return a program's imports: they identify it after an edit, and often caused its cold restart."""
    return frozenset(imported_modules(planned.program.tree))


ranks = WarmPool()


def describe_warm(state: WarmState) -> list[str]:
    """Return the state as one line, or no line when there is nothing to report."""
    if state.ranks:
        who, doing = f"{state.ranks} ranks of", "are ready" if state.ready else "are importing"
        if state.ranks == 1:
            who, doing = "1 rank of", "is ready" if state.ready else "is importing"
        cost = f"{state.shared >> 20} MB of memory, {state.private >> 20} MB of them private"
        return [f"warm: {who} {state.framework} {doing} for the next run ({cost})"]
    return [f"warm: no ranks are ready ({state.reason})"] if state.reason and state.mode != OFF else []
