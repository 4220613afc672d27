"""Cells of a session: the one that the ranks execute, those that wait, and ranks whose peers failed in one.

Processes of the user send requests to the session's socket (``store.control``), one JSON object per line:

    {"do": "cell", "text": …, "ranks": [0, 1], "inputs": …, "pull": […]}   (null: all ranks that are left)
    {"do": "interrupt"}   {"do": "kill"}   {"do": "end"}

The answer is the number of the cell, or the reason of a refusal; then the client receives every event of the
journal. A cell begins when the previous one has ended in all of its ranks.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import socket
import time
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any, Protocol

from nbdist.errors import LaunchError
from nbdist.launch.rank_process import Reservation
from nbdist.launch.run_policy import RunPolicy
from nbdist.model import CellEnded, CellStarted, Event, RankExited, Reason, Rejoined, RunSpec, encode_event
from nbdist.model.decoding import MALFORMED, as_int, loads
from nbdist.sockets import is_own, listen_at
from nbdist.store.paths import RunDirectory, make_private, write_private
from nbdist.worker.order import BROKEN, CELL, END, FREED, GROUPED, KEPT, RAISED, READY, REJOINED, WELL, Cell

MOST_WAITING = 16
_LONGEST = 16 << 20  # bytes of a request
_LINE = 100  # characters of a cell's first line

_INTERRUPT_GRACE = 0.2
"""Seconds of a wait for others after which an interrupt frees a rank."""

_PEER_GRACE = 1.0
"""Seconds of a wait for others after which the failure of another rank frees a rank."""

_REPEAT = 0.5
"""Seconds until the next attempt to free the ranks that still wait."""


class Ranks(Protocol):
    """The ranks for a session (``attempt.Attempt``)."""

    def tell(self, rank: int, words: bytes) -> None: ...
    def interrupt(self, rank: int, patience: float) -> None: ...
    def came_back(self, rank: int) -> None: ...
    def free(self, ranks: Collection[int], patience: float) -> Collection[int]: ...
    def log_size(self, rank: int) -> int: ...


@dataclass(slots=True, kw_only=True)
class _Cell:
    """A cell; the ``busy`` ranks execute it."""

    number: int
    client: socket.socket
    ranks: tuple[int, ...]
    inputs: str = ""
    pull: tuple[str, ...] = ()
    line: str = ""
    busy: set[int] = field(default_factory=set)
    freed: set[int] = field(default_factory=set)
    interrupted: bool = False
    failed: bool = False
    free_at: float = 0.0


class Session:
    """One session. All times are monotonic seconds."""

    def __init__(
        self,
        directory: RunDirectory,
        spec: RunSpec,
        *,
        policy: RunPolicy,
        selector: selectors.BaseSelector,
        ranks: Ranks,
        is_own: Callable[[socket.socket], bool] = is_own,
    ) -> None:
        """Open the socket. ``is_own`` recognises a connection of this user. Raises OSError."""
        self._directory = directory
        self._idle = spec.session or 0.0
        self._policy = policy
        self._selector = selector
        self._ranks = ranks
        self._is_own = is_own
        make_private(directory.cells)
        self._listener = listen_at(directory.socket)
        self._listener.setblocking(False)
        self._selector.register(self._listener, selectors.EVENT_READ, self._accept)
        self._clients: dict[socket.socket, bytearray] = {}
        self._cell: _Cell | None = None
        self._waiting: deque[_Cell] = deque()
        self._count = 0
        # the last time at which a cell ran, or a client waited for one
        self._active = time.monotonic()
        self._ready: set[int] = set()
        self._leaving: set[int] = set()
        self._ending = False
        # ranks in a process group at the end of their last cell, and if the group may be broken
        self._joined: set[int] = set()
        self._broken = False
        self._says_joined: set[int] = set()
        # the ports of the ranks' next and present rendezvous, held against other processes
        self._next: Reservation | None = None
        self._port: Reservation | None = None

    @property
    def busy(self) -> Collection[int]:
        """Ranks that execute a cell."""
        return self._cell.busy if self._cell is not None else ()

    def hear(self, rank: int, word: bytes, now: float) -> None:
        """Handle a rank's message about its cell."""
        if word == READY:
            self._ready.add(rank)
            self._begin(now)
        elif word == GROUPED:
            self._says_joined.add(rank)
        elif word == BROKEN:
            self._broken = True
        elif word == REJOINED and self._next is not None:  # at the port of their cell
            if self._port is not None:
                self._port.release()
            self._port, self._next = self._next, None
            self._policy.record(Rejoined(time=time.time(), port=self._port.rendezvous.port))
        elif word in (WELL, RAISED) and self._cell is not None and rank in self._cell.busy:
            (self._joined.add if rank in self._says_joined else self._joined.discard)(rank)
            self._says_joined.discard(rank)
            outcome = "ok"
            if word == RAISED:
                freed = "freed" if rank in self._cell.freed else "error"
                outcome = "interrupted" if self._cell.interrupted else freed
            self._end(rank, outcome, now)

    def answered(self, rank: int, word: bytes, now: float) -> None:
        """Handle the answer of a rank to the request to free it."""
        if self._policy.stop_reason is not None:
            if word == FREED:
                self._policy.rank_freed(rank)
            elif word == KEPT:
                self._policy.rank_kept(rank, now)
        elif self._cell is not None and rank in self._cell.busy:
            if word == FREED:
                self._cell.freed.add(rank)
                self._broken = True
            self._cell.free_at = min(self._cell.free_at, now + _REPEAT)

    def unreachable(self, rank: int, now: float) -> None:
        """Kill a live rank that has closed the socket for its cells."""
        self._ready.discard(rank)
        self._policy.kill(rank)
        if rank in self.busy:
            self._end(rank, "unreachable", now)

    def recorded(self, event: Event) -> None:
        """Send an event of the journal to the clients, and drop a rank that has exited."""
        line = encode_event(event).encode() + b"\n"
        for client in list(self._clients):
            self._answer(client, line)
        if isinstance(event, RankExited):
            self._ready.discard(event.rank)
            self._joined.discard(event.rank)
            if event.rank in self.busy:
                self._end(event.rank, "died", time.monotonic())
            else:
                # the next cell may have waited only for it
                self._begin(time.monotonic())

    def tick(self, now: float) -> None:
        """Apply the deadlines, and an end of the session."""
        stopping = self._policy.stop_reason is not None
        if stopping or self._ending:
            self._refuse_all("stopping" if stopping else "ended")
            self._let_go()
        if stopping:
            return
        if self._policy.run.held:
            self._active = now  # who looks at it is not away
        if (cell := self._cell) is not None:
            if (cell.failed or cell.interrupted) and now >= cell.free_at:
                self._free(cell, now)
            if not self._clients and self._idle and now - self._active >= self._idle:
                self._policy.stop(Reason("session-left", seconds=self._idle), now, requested=False)
        elif not self._waiting and self._idle and now - self._active >= self._idle:
            self._let_go()

    def close(self) -> None:
        """Refuse the waiting cells, and close all connections."""
        self._refuse_all("ended")
        for client in list(self._clients):
            self._drop(client)
        self._selector.unregister(self._listener)
        self._listener.close()
        with contextlib.suppress(OSError):
            self._directory.socket.unlink()
        for reservation in filter(None, (self._next, self._port)):
            reservation.release()

    def _accept(self) -> None:
        try:
            client, _ = self._listener.accept()
        except OSError:
            return  # it has gone already
        if not self._is_own(client):
            client.close()
            return
        client.setblocking(False)
        self._clients[client] = bytearray()
        self._selector.register(client, selectors.EVENT_READ, lambda: self._read(client))

    def _read(self, client: socket.socket) -> None:
        if (received := self._clients.get(client)) is None:
            return
        try:
            piece = client.recv(1 << 18)
        except BlockingIOError:
            return
        except OSError:
            piece = b""
        received += piece
        if not piece or len(received) > _LONGEST:
            self._drop(client)
            return
        while (end := received.find(b"\n")) >= 0:
            line = bytes(received[:end])
            del received[: end + 1]
            try:
                self._do(client, loads(line))
            except (OSError, *MALFORMED) as error:
                self._say(client, {"refused": "malformed", "problem": f"{type(error).__name__}: {error}"})

    def _do(self, client: socket.socket, request: dict[str, Any]) -> None:
        """Handle a request. Raises OSError, or one of MALFORMED."""
        now = time.monotonic()
        match request["do"]:
            case "cell":
                self._take(client, request, now)
            case "interrupt":
                self.interrupt(now)
            case "kill":
                for rank in tuple(self.busy):
                    self._policy.kill(rank)
            case "end":
                self._ending = True

    def interrupt(self, now: float) -> None:
        """Interrupt the ranks that execute a cell."""
        if self._cell is not None:
            self._cell.interrupted = True
            self._cell.free_at = now + _INTERRUPT_GRACE + _REPEAT
            for rank in tuple(self.busy):
                self._ranks.interrupt(rank, _INTERRUPT_GRACE)

    def _take(self, client: socket.socket, request: dict[str, Any], now: float) -> None:
        known = self._policy.run.ranks
        left = {rank.rank for rank in known if not rank.state.terminal}
        wanted = request["ranks"]
        ranks = tuple(sorted(left if wanted is None else {as_int(rank) for rank in wanted}))
        inputs = str(request.get("inputs", ""))
        if inputs != os.path.basename(inputs) or "\0" in inputs:
            raise ValueError("a cell's inputs lie beside it")
        refusal: dict[str, Any] = {}
        if self._leaving or self._ending:
            refusal = {"refused": "ended"}
        elif not ranks or not set(ranks) <= left:
            refusal = {"refused": "gone", "ranks": sorted(set(ranks) - left)}
        elif len(self._waiting) >= MOST_WAITING:
            refusal = {"refused": "full", "waiting": MOST_WAITING}
        if refusal:
            self._say(client, refusal)
            return
        text = str(request["text"])
        cell = _Cell(
            number=self._count + 1,
            client=client,
            ranks=ranks,
            inputs=inputs,
            pull=tuple(map(str, request.get("pull", ()))),
            line=next(filter(None, map(str.strip, text.splitlines())), "")[:_LINE],
        )
        write_private(self._directory.session_cell(cell.number), text)
        self._count = cell.number
        before = self._cell.number if self._cell is not None else 0
        self._waiting.append(cell)
        gone = [rank.rank for rank in known if rank.rank not in left]
        self._say(client, {"cell": cell.number, "behind": before, "ranks": ranks, "gone": gone})
        self._begin(now)

    def _begin(self, now: float) -> None:
        """Begin the next cell, if no other runs and its ranks are ready."""
        if self._cell is not None or not self._waiting:
            return
        cell = self._waiting[0]
        ranks = tuple(rank for rank in cell.ranks if not self._policy.run.ranks[rank].state.terminal)
        if not set(ranks) <= self._ready:
            return
        self._waiting.popleft()
        if not ranks:
            self._say(cell.client, {"refused": "gone", "ranks": list(cell.ranks)})
            self._begin(now)
            return
        self._cell, self._active = cell, now
        cell.busy = set(ranks)
        if self._next is None:
            # without a port only a new process group is impossible
            with contextlib.suppress(LaunchError):
                self._next = Reservation()
        rejoin = ""
        if self._broken and self._next is not None and len(ranks) == len(self._policy.run.ranks):
            rejoin, self._broken = "join" if self._joined >= cell.busy else "leave", False
        logs = tuple(map(self._ranks.log_size, ranks))
        self._policy.record(
            CellStarted(time=time.time(), cell=cell.number, ranks=ranks, logs=logs, line=cell.line)
        )
        for rank in ranks:
            order = Cell(
                number=cell.number,
                path=str(self._directory.session_cell(cell.number)),
                port=self._next.rendezvous.port if self._next is not None else 0,
                inputs=str(self._directory.cells / cell.inputs) if cell.inputs else "",
                pull=list(cell.pull) if rank == ranks[0] else [],
                rejoin=rejoin,
            )
            self._ranks.tell(rank, CELL + order.encode())

    def _end(self, rank: int, outcome: str, now: float) -> None:
        cell = self._cell
        assert cell is not None, "a rank ends in one"
        cell.busy.discard(rank)
        # a late interrupt must not hit its next cell
        self._ranks.came_back(rank)
        self._active = now
        if over := not cell.busy:
            self._cell = None
            self._delete_inputs(cell)
        log = self._ranks.log_size(rank)
        self._policy.record(
            CellEnded(time=time.time(), cell=cell.number, rank=rank, outcome=outcome, log=log)
        )
        if over:
            self._begin(now)
        elif outcome in ("error", "died", "unreachable") and not cell.failed:
            cell.failed = True
            self._free(cell, now)

    def _free(self, cell: _Cell, now: float) -> None:
        """Free the ranks that wait for failed or interrupted ones."""
        patience = _INTERRUPT_GRACE if cell.interrupted else _PEER_GRACE
        cell.free_at = now + patience + _REPEAT
        self._ranks.free(tuple(cell.busy), patience)

    def _let_go(self) -> None:
        """Send each rank that is ready the message that no more cells follow."""
        for rank in self._ready - self._leaving - set(self.busy):
            self._leaving.add(rank)
            self._ranks.tell(rank, END)

    def _refuse_all(self, why: str) -> None:
        while self._waiting:
            cell = self._waiting.popleft()
            self._delete_inputs(cell)
            self._say(cell.client, {"refused": why})

    def _delete_inputs(self, cell: _Cell) -> None:
        if cell.inputs:
            with contextlib.suppress(OSError):
                (self._directory.cells / cell.inputs).unlink()

    def _drop(self, client: socket.socket) -> None:
        """Drop a disconnected client and its cells that have not started."""
        if self._clients.pop(client, None) is None:
            return
        self._selector.unregister(client)
        client.close()
        self._active = time.monotonic() if self._cell is not None else self._active
        for cell in [cell for cell in self._waiting if cell.client is client]:
            self._waiting.remove(cell)
            self._delete_inputs(cell)

    def _say(self, client: socket.socket, answer: dict[str, Any]) -> None:
        self._answer(client, json.dumps(answer).encode() + b"\n")

    def _answer(self, client: socket.socket, line: bytes) -> None:
        """Send a line; drop a client that reads too slowly, which can read the journal."""
        with contextlib.suppress(OSError):
            if client not in self._clients or client.send(line) == len(line):
                return
        self._drop(client)
