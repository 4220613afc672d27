"""Sessions: runs whose ranks live on, and execute the cells that this process sends."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from nbdist import processes
from nbdist.errors import LaunchError, UnknownRun, UsageMistake
from nbdist.model import CellEnded, CellStarted, RankExited, RankHeld, Run, RunEnded, Stalled, decode_event
from nbdist.model.decoding import MALFORMED, build, loads
from nbdist.model.plan import Plan, Program
from nbdist.runner.handle import RunHandle, store
from nbdist.sockets import connect_to
from nbdist.store.control import wake

IDLE = 1800.0  # seconds without a cell after which a session ends itself

# the cells share the namespace of this program, which leaves no name in it
_PROGRAM = """\
# a session: its ranks execute the cells of the folder cells/, in their order
__import__("nbdist.worker.session_rank", fromlist=["serve"]).serve()
"""
_ANSWERS = 20.0  # seconds that a supervisor, which may be starting many ranks, has to take a cell
_CLEANS_UP = 10.0  # seconds that the reaper of a killed supervisor has to end what is left, and record why


def session_plan(planned: Plan, idle: float) -> Plan:
    """Plan the session whose first cell is ``planned``. Its ranks outlive this process."""
    spec = replace(planned.spec, session=idle, detached=True, owner=processes.identify(os.getpid()))
    return replace(planned, spec=spec, program=Program(_PROGRAM, planned.program.tree))


class Sessions:
    """The session of this process (``mine``): it started it, or its notebook did before."""

    def __init__(self) -> None:
        self.mine: RunHandle | None = None

    @property
    def ended(self) -> RunHandle | None:
        """Return this process's session if it has ended."""
        return self.mine if self.mine is not None and not _goes_on(self.mine) else None

    def current(self, notebook: str, cwd: str) -> RunHandle | None:
        """Return this process's session, else the latest of its notebook or folder whose process has gone."""
        if self.mine is not None:
            return self.mine if _goes_on(self.mine) else None
        for handle in _live_sessions():
            spec = handle.run.spec
            same = spec.notebook == notebook and (notebook or spec.cwd == cwd)
            if same and (spec.owner is None or not processes.alive(spec.owner)):
                self.mine = handle
                return handle
        return None

    def named(self, run: str | None) -> RunHandle:
        """Return the session of this name, else this process's, else the latest. Raises UsageMistake."""
        if run is not None:
            handle = RunHandle(store().find(run))
            if handle.run.spec.session is None:
                raise UsageMistake(f"run {handle.run.label} is no session: see all runs with  %dist_status")
            return handle
        if self.mine is not None and _goes_on(self.mine):
            return self.mine
        if live := _live_sessions():
            return live[0]
        raise UsageMistake("there is no session: start one with  %%ranks -n 2  above a cell")


def _live_sessions() -> list[RunHandle]:
    """Return the live sessions, the latest first."""
    handles = [RunHandle(run) for run in store().directories() if os.path.lexists(run.socket)]
    return [handle for handle in handles if not handle.run.state.terminal]


def _goes_on(handle: RunHandle) -> bool:
    """Return whether a session takes cells, or is about to."""
    with contextlib.suppress(OSError):
        connect_to(handle.directory.socket).close()
        return True  # its journal may be long
    try:
        return not settled(handle).state.terminal
    except UnknownRun:
        return False


def settled(handle: RunHandle) -> Run:
    """Return the run of a session, with its end if its supervisor was just killed. Raises UnknownRun."""
    deadline = time.monotonic() + _CLEANS_UP
    while not (run := handle.run).state.terminal and time.monotonic() < deadline:
        if run.supervisor is None or run.supervisor_host != os.uname().nodename:
            break
        # its socket closes before it leaves the process table
        if processes.alive(run.supervisor) and not processes.is_exiting(run.supervisor.pid):
            break
        time.sleep(0.02)
    return run


def request(handle: RunHandle, what: str) -> None:
    """Send ``interrupt``, ``kill`` or ``end`` to a session. Raises UsageMistake if it has ended, or
    LaunchError."""
    with _connected(handle) as line:
        line.sendall(json.dumps({"do": what}).encode() + b"\n")
        wake(handle.run)


def _connected(handle: RunHandle) -> socket.socket:
    """Connect to the supervisor. Raises UsageMistake and LaunchError."""
    deadline = time.monotonic() + _ANSWERS
    while True:
        try:
            return connect_to(handle.directory.socket)
        except OSError as error:
            run = handle.run
            if run.state.terminal:
                # a killed supervisor leaves it behind
                handle.directory.socket.unlink(missing_ok=True)
                raise UsageMistake(_Answer(refused="ended").refusal) from None
            # the supervisor may be about to listen
            starting = isinstance(error, (FileNotFoundError, ConnectionRefusedError))
            if not starting or time.monotonic() >= deadline:
                raise LaunchError(f"the session {run.label} does not answer: {error}") from None
        time.sleep(0.005)


class LiveCell:
    """A cell in a session, from its request on; a context that closes the connection.

    ``number`` counts the cells of the session. ``ranks`` are to execute it, ``gone`` had exited before.
    ``logs`` are the ranks that began it, and the bytes of their logs then; empty while it waits for the cell
    ``behind`` (0: for none). ``ended`` are the ends of the cell by rank, ``exits`` the ranks that exited,
    ``held`` those that a debugger holds. ``stalled``: nothing happens in its ranks. ``lost``: the session has
    ended.
    """

    def __init__(
        self,
        handle: RunHandle,
        text: str,
        ranks: Sequence[int] | None = None,
        *,
        inputs: Path | None = None,
        pull: Sequence[str] = (),
    ) -> None:
        """Send the cell. Raises UsageMistake when it is refused, LaunchError without an answer."""
        self.logs: dict[int, int] = {}
        self.ended: dict[int, CellEnded] = {}
        self.exits: dict[int, RankExited] = {}
        self.held: set[int] = set()
        self.stalled = False
        self.lost = False
        self._rest = b""
        self._handle = handle
        self._line = _connected(handle)
        self._answer = _Answer()
        given = {"inputs": inputs.name if inputs is not None else "", "pull": list(pull)}
        try:
            self._send({"do": "cell", "text": text, "ranks": ranks} | given)
            deadline = time.monotonic() + _ANSWERS
            while not self._answer:
                self.listen(max(0.0, deadline - time.monotonic()))
                if self.lost or time.monotonic() > deadline:
                    raise LaunchError(f"the session {handle.run.label} did not take the cell")
            if self._answer.refused:
                raise UsageMistake(self._answer.refusal)
        except BaseException:
            self.close()
            raise
        self.number = self._answer.cell
        self.behind = self._answer.behind
        self.ranks = self._answer.ranks
        self.gone = self._answer.gone

    def __enter__(self) -> LiveCell:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def over(self) -> bool:
        """Return whether every rank has ended it."""
        return self.lost or (bool(self.logs) and self.ended.keys() >= self.logs.keys())

    @property
    def busy(self) -> list[int]:
        """Return the ranks that execute it."""
        return sorted(self.logs.keys() - self.ended.keys())

    def listen(self, patience: float) -> None:
        """Receive events from the supervisor; wait at most ``patience`` seconds for the first."""
        if not processes.wait_for(self._line, patience):
            return
        try:
            piece = self._line.recv(1 << 16)
        except OSError:
            piece = b""
        if not piece:
            self.lost = True
            return
        *lines, self._rest = (self._rest + piece).split(b"\n")
        for line in lines:
            self._hear(line)

    def interrupt(self) -> None:
        """Raise KeyboardInterrupt in its ranks, even if they wait for each other."""
        self._send({"do": "interrupt"})

    def kill(self) -> None:
        """End the ranks that still execute it."""
        self._send({"do": "kill"})

    def close(self) -> None:
        self._line.close()

    def _send(self, message: dict[str, Any]) -> None:
        # ``listen`` notices a supervisor that has gone
        with contextlib.suppress(OSError, UnknownRun):
            # a stopped one reads nothing, and its socket fills
            wake(self._handle.run)
            self._line.sendall(json.dumps(message).encode() + b"\n")

    def _hear(self, line: bytes) -> None:
        try:
            event = decode_event(line)
        except ValueError:
            with contextlib.suppress(*MALFORMED):
                self._answer = self._answer or build(_Answer, loads(line))
            return
        match event:
            case CellStarted(cell=number) if number == self._answer.cell:
                self.logs = dict(zip(event.ranks, event.logs, strict=False))
            case CellEnded(cell=number) if number == self._answer.cell:
                self.ended[event.rank] = event
            case RankHeld():
                (self.held.add if event.why else self.held.discard)(event.rank)
            case RankExited():
                self.exits[event.rank] = event
            case Stalled():
                self.stalled = True
            case RunEnded():
                self.lost = True
            case _:
                pass


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    """The supervisor's answer to a cell (``launch.session``); false before it comes."""

    cell: int = 0
    behind: int = 0
    ranks: tuple[int, ...] = ()
    gone: tuple[int, ...] = ()
    refused: str = ""
    waiting: int = 0
    problem: str = ""

    def __bool__(self) -> bool:
        return bool(self.cell or self.refused)

    @property
    def refusal(self) -> str:
        """Return why the session refused the cell, and what to type."""
        if self.refused == "full":
            return (
                f"{self.waiting} cells wait already: interrupt the running one with  %dist_session interrupt"
            )
        if self.refused == "gone" and self.ranks:
            ranks = ", ".join(map(str, self.ranks))
            return f"rank {ranks} of the session has ended: restart all ranks with  %dist_session reset"
        if self.refused == "malformed":
            return f"the session did not take the cell: {self.problem}"
        return "the session has ended: the next cell with  %%ranks  starts another one"


sessions = Sessions()
