"""Ranks that wait for the next run: when some are made ready, when they are used, when they are let go.

There is at most one standby for a kernel. It is used for one run; the next is made beside that, of what it
leaves over, or when it has ended.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
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
from nbdist.worker.order import ROOM

_TAKE = 0.2
"""Seconds in which it says that it takes a run: a cell waits for that before it shows anything."""


class Standby:
    """Ranks as those of ``plan`` would be, which end when no run uses them for ``idle`` seconds. ``beside`` a
    run they are started when processors are idle, or are to hurry; with ``hurry`` at once. Raises LaunchError
    when they cannot be started."""

    def __init__(self, plan: Plan, *, idle: float, beside: bool = False, hurry: bool = False) -> None:
        self.shape: RankShape = shape_of(plan)
        self.reads: frozenset[str] = frozenset()
        self.up = False
        self.ready = False
        self.gone = ""
        self.hopeless = True
        self._pids: list[int] = []
        self._refusal: str | None = None
        self.supervisor, self._line = _start(plan.environment, plan.spec.python)
        # until it has a run it is this process's, also where its run will be detached
        spec = replace(plan.spec, owner=processes.identify(os.getpid()), detached=False, sweep=None)
        preload = {
            "modules": PRELOADED.get(plan.spec.framework, ()),
            "first": self.shape.first,
            "python_path": self.shape.python_path,
            "unseen": READ_UNSEEN,
        }
        self._send(spec=spec.to_dict(), preload=preload, idle=idle, beside=beside, hurry=hurry)

    def look(self, wait: float = 0.0) -> None:
        """Take what it has sent; wait so many seconds for something."""
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
        """Return whether its ranks have done their imports, now or within ``limit`` seconds."""
        deadline = time.monotonic() + limit
        self.look()
        while not (self.ready or self.gone) and (left := deadline - time.monotonic()) > 0:
            self.look(left)
        return self.ready and not self.gone

    def hurry(self) -> None:
        """Tell it that the run beside which it was made has ended."""
        self._send(hurry=True)

    def go(self, directory: RunDirectory, environment: Mapping[str, str]) -> str:
        """Make it the supervisor of this run, whose programs begin when its ranks are ready. Empty when it
        is; else why a cold start would make other ranks, and nothing has begun."""
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
        """Let it take no run from now on: what it has sent by now was in time."""
        self._line.refuse()
        while self._is_awaited:
            self.look(_TAKE)
        if self._refusal is None:
            self.gone = "the ranks that wait did not answer"

    def leave(self) -> None:
        """Let it end: it is not wanted any more."""
        self._send(leave=True)
        self.close()

    def close(self) -> None:
        self._line.close()

    def memory(self) -> tuple[int, int]:
        """Return the bytes that its processes hold: their share of everything (PSS), and what is theirs
        alone."""
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


def _start(environment: Mapping[str, str], python: str) -> tuple[local.SupervisorProcess, Line]:
    """Start a supervisor of a run that is not known yet (``standby``). Raises LaunchError."""
    with local.line_to_child() as (ours, theirs):
        command = local.command(python, "warm.standby", str(theirs.fileno()))
        process = local.spawn(command, environment=environment, descriptors=(theirs.fileno(),))
    local.collect(process)
    return local.SupervisorProcess(process, ours), Line(ours)


def _memory(pid: int) -> tuple[int, int]:
    """Proportional and private bytes of a process (proc(5), smaps_rollup); zeros when it has gone."""
    figures: dict[str, int] = {}
    with contextlib.suppress(OSError, ValueError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]:
            name, _, value = line.partition(":")
            figures[name] = int(value.split()[0]) * 1024
    private = figures.get("Private_Clean", 0) + figures.get("Private_Dirty", 0)
    return figures.get("Pss", 0), private


AUTO, OFF, ALWAYS = "auto", "off", "always"

_IMPORTS = 60.0
"""Seconds that a run waits for ranks where all runs are to be of ranks that have waited."""

_BESIDE = 2.0
"""Seconds of a run after which the next ranks are made ready: its own have started by then."""

_MEMORY_A_RANK = 600 << 20
"""Bytes that must be free for each rank before any is made ready unasked; beside a run they must leave it a
tenth of all memory, which is when they would be given up (``idle_policy``)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmState:
    """What there is: ``ranks`` of ``framework`` wait, or why none do. Memory in bytes."""

    mode: str
    ranks: int = 0
    framework: str = ""
    ready: bool = False
    shared: int = 0
    private: int = 0
    reason: str = ""


class WarmPool:
    """The standby of this process. ``mode`` is what ``%dist_warm`` or NBDIST_WARM has said."""

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
        self._asked: Callable[[], Plan] | None = None
        self._count = 0
        self._hopeless: RankShape | None = None
        self._began_again: dict[frozenset[str], str] = {}
        self._reason = ""

    def engage(self, planned: Plan, *, warm: bool | None) -> tuple[Standby | None, str]:
        """Ranks that wait, or still import, and are those of this run as far as is known. None where there
        are none, and why, in words."""
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
            return None, (self._reason or "no ranks wait yet; after this run some will") if warm else ""
        if not standby.up:
            # it has only just been started, and would not be sooner than a cold start
            self.release()
            return None, ""
        # what only ranks that are ready can tell is looked at when they are (``standby``)
        problem = difference(standby.shape, shape_of(planned), standby.reads)
        if problem := problem or self._too_early(planned, standby.reads):
            # a standby that the user asked for stays; one that nbdist guessed goes
            if self._asked is None:
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
        """A run has ended, or goes on: make ranks ready for the next. ``hurry``: this is sure to come, so
        they do not wait for processor time that the run leaves over."""
        self.collect()
        if directory is not None and (reason := _began_again(directory)):
            self._began_again[_imports(planned)] = reason
        if self.mode == OFF and not warm:
            return
        if self._asked is None and self._standby is not None and self._too_early(planned, frozenset()):
            # what was made ready beside the run is not for it
            self.release()
        if self._standby is not None:
            if not goes_on:
                self._standby.hurry()
            return
        if self._asked is not None:
            planned = self._asked()
        elif self.mode == ALWAYS:
            return
        if problem := unsuited(planned) or self._too_early(planned, frozenset()):
            self._reason = problem
        elif not self._hopeless or difference(self._hopeless, shape_of(planned), frozenset()):
            self._make(planned, beside=goes_on, hurry=hurry)

    def beside(self, planned: Plan, *, warm: bool | None, directory: RunDirectory) -> Callable[[float], None]:
        """A pause between two looks at a run that goes on, in seconds. In one of them the ranks for the next
        run are begun."""
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
        """Keep the ranks of such a plan, which has no program, ready from now on. Raises what it raises."""
        planned = plan()
        self.release()
        self.mode, self._asked, self._count = AUTO, plan, len(planned.spec.ranks)
        self._make(planned)

    def choose(self, mode: str) -> None:
        """Make ranks ready after a run (auto), or never (off)."""
        self.mode, self._asked, self._reason = mode, None, ""
        if mode == OFF:
            self.release()

    def release(self) -> None:
        """Let what waits go."""
        if self._standby is not None:
            self._standby.leave()
            self._standby = None

    def wait_until_ready(self, limit: float) -> bool:
        """Whether there are ranks that wait, now or within ``limit`` seconds."""
        return self._standby is not None and self._standby.wait_until_ready(limit)

    def collect(self) -> None:
        """Let go of a standby that has ended."""
        if self._standby is not None:
            self._standby.look()
            if self._standby.gone:
                self._reason = self._standby.gone
                # they would end in the same way again
                hopeless = self._standby.hopeless and not self._standby.ready
                self._hopeless = self._standby.shape if hopeless else None
                self.release()

    def state(self) -> WarmState:
        self.collect()
        mode = self.mode if self._asked is None else str(self._count)
        if self._standby is None:
            return WarmState(mode=mode, reason=self._reason)
        shared, private = self._standby.memory()
        return WarmState(
            mode=mode,
            ranks=len(self._standby.shape.ranks),
            framework=self._standby.shape.framework,
            ready=self._standby.ready,
            shared=shared,
            private=private,
        )

    def _make(self, planned: Plan, *, beside: bool = False, hurry: bool = False) -> None:
        self.release()
        available = memory_available()
        need = _MEMORY_A_RANK * len(planned.spec.ranks) + (memory_total() or 0) // 10 * beside
        if self._asked is None and available is not None and available < need:
            self._reason = f"only {available >> 20} MB of memory are free"
            return
        self._reason = ""
        try:
            self._standby = self._stand_by(planned, idle=IDLE_LIMIT, beside=beside, hurry=hurry)
        except (LaunchError, OSError) as error:
            self._reason = str(error)

    def _too_early(self, planned: Plan, reads: frozenset[str]) -> str:
        """Why ranks that wait have imported before the program lets them; empty when that is no matter."""
        name = next((name for name in changed_early(planned) if read_at_import(name, reads)), "")
        if name:
            return f"the program sets {name} before it imports {planned.spec.framework}"
        return self._began_again.get(_imports(planned), "")


def unsuited(planned: Plan, *, idle_too: bool = False) -> str:
    """Why a run of this kind starts cold; empty when it need not. ``idle_too``: also where there is nothing
    to import ahead, and so nothing to gain."""
    spec = planned.spec
    if sys.platform != "linux" or not hasattr(os, "pidfd_open"):
        return "only Linux can keep ranks waiting"
    if spec.framework != "torch" and any(rank.device.kind != "cpu" for rank in spec.ranks):
        return "on GPUs only ranks of torch wait: with others it is not proven"
    if spec.nodes > 1 or spec.engine:
        return "on other machines ranks are always started anew"
    if spec.memory is not None:
        return "with a memory limit ranks are always started anew"
    if len(os.fsencode(str(config.home()))) > ROOM // 2:
        return "the path of the runs is too long"
    if spec.framework not in PRELOADED and not idle_too:
        return "this program imports none of torch, paddle and jax"
    return ""


def _imports(planned: Plan) -> frozenset[str]:
    """What a program imports: by that it is known again when a line of it has changed, and what made it
    begin again is often done by a package."""
    return frozenset(imported_modules(planned.program.tree))


def _began_again(directory: RunDirectory) -> str:
    """Why rank 0 of a run could not use what it had imported ahead; empty when it could."""
    try:
        return directory.rank(0).again.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


ranks = WarmPool()


def describe_warm(state: WarmState) -> list[str]:
    """The state in one line; no line when there is nothing to report."""
    if state.ranks:
        who, doing = f"{state.ranks} ranks of", "wait" if state.ready else "are importing"
        if state.ranks == 1:
            who, doing = "1 rank of", "waits" if state.ready else "is importing"
        cost = f"{state.shared >> 20} MB of memory, {state.private >> 20} MB of them private"
        return [f"warm: {who} {state.framework} {doing} for the next run ({cost})"]
    return [f"warm: no ranks wait: {state.reason}"] if state.reason and state.mode != OFF else []
