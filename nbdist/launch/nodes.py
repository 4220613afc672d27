"""The other machines of a run, as the supervisor of one sees them.

Node 0 listens at the port behind the one where the ranks meet, on the address that was given and on no
other; the others connect to it and stay connected. Over these lines they begin and end every attempt
together, say what becomes of their ranks, and notice that a machine has gone: at once when its supervisor
ends, after ``SILENCE`` seconds when nothing comes from it any more (a cable, a power supply).
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from nbdist.errors import LaunchError
from nbdist.launch.link import Link, LinkClosed, Message, WrongKey
from nbdist.model import Event, RankErrored, RankExited, RankStarted, RankState, Run, RunSpec, StopRequested

SILENCE = 10.0
"""Seconds without a word after which a machine counts as gone."""

_HEARTBEAT = 1.0
_HANDSHAKE = 5.0
_RETRY = 0.3
_MOST_STRANGERS = 32
_FAREWELL = 1.0


@dataclass(slots=True)
class _Peer:
    """The other end of one line. ``node`` is None until it has proven and named itself."""

    link: Link
    since: float
    heard: float
    node: int | None = None
    connecting: bool = False
    ready: int = 0
    over: int = 0
    left: bool = False


@dataclass(slots=True)
class Told:
    """What the supervisor is to do, as the other machines have it. Read and cleared by it."""

    events: list[tuple[int, RankState, int | None]] = field(default_factory=list)
    failures: list[tuple[str, bool]] = field(default_factory=list)
    stops: list[str] = field(default_factory=list)


class Nodes:
    """The lines to the other machines. ``told`` collects what came; nothing here waits.

    On node 0 there is a line to each of the others, elsewhere the one to node 0, which passes on what the
    others say.
    """

    def __init__(
        self,
        spec: RunSpec,
        key: str,
        selector: selectors.BaseSelector,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.told = Told()
        self.problem = ""
        self.hosts: tuple[str, ...] = ()
        self._spec = spec
        self._key = key
        self._selector = selector
        self._clock = clock
        host, _, port = spec.master.rpartition(":")
        self._place = (host, int(port) + 1)
        self._hub = spec.node_rank == 0
        self._listener: socket.socket | None = None
        self._peers: list[_Peer] = []
        self._known: dict[int, str] = {}
        self._attempt = 0
        self._started = 0
        self._finished = 0
        self._is_over = 0
        self._gone = False
        self._beat = self._retry = 0.0
        self._last_trouble = ""

    def open(self) -> None:
        """Begin to listen, on node 0. Raises LaunchError where the address or the port cannot be had."""
        if not self._hub:
            return
        self._listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._listener.bind(self._place)
            self._listener.listen(_MOST_STRANGERS)
        except OSError as error:
            self._listener.close()
            self._listener = None
            host, port = self._place
            raise LaunchError(
                f"node 0 cannot listen at {host}:{port}, the port behind --master's ({error.strerror}): "
                f"give another port, the same on every node"
            ) from None
        self._listener.setblocking(False)
        self._selector.register(self._listener, selectors.EVENT_READ, self._accept)

    def ready(self, attempt: int) -> None:
        """This machine could start the ranks of the attempt."""
        self._attempt = attempt
        self._tell({"kind": "ready", "attempt": attempt})
        self._consider()

    @property
    def gathered(self) -> bool:
        """Whether all machines are ready for the attempt, and ``hosts`` are theirs."""
        return self._started == self._attempt

    @property
    def awaited(self) -> tuple[int, ...]:
        """The machines that are not there yet, as far as this one can know."""
        if not self._hub:
            return () if any(peer.node is not None for peer in self._peers) else (0,)
        there = {peer.node for peer in self._peers if peer.ready >= self._attempt and not peer.left}
        return tuple(node for node in range(1, self._spec.nodes) if node not in there)

    def missing(self, limit: float) -> str:
        """What to say when the wait is over."""
        host, port = self._place
        nodes = ", ".join(map(str, self.awaited)) or "the others"
        where = f"node {nodes} did not come to {host}:{port} within {limit:g} s"
        trouble = f" (last: {self._last_trouble})" if self._last_trouble else ""
        return f"{where}{trouble}: start the same there, with its --node-rank; --wait 30m waits longer"

    def succeeded(self) -> None:
        """The ranks of this machine have all succeeded, in this attempt."""
        self._is_over = self._attempt
        self._tell({"kind": "over", "attempt": self._attempt})
        self._consider()

    @property
    def all_succeeded(self) -> bool:
        """Whether those of the others have, too."""
        return self._finished == self._attempt

    @property
    def alone(self) -> bool:
        """Whether nobody is left to wait for."""
        return all(peer.left for peer in self._peers if peer.node is not None)

    def local_event(self, event: Event, run: Run, error: str = "") -> None:
        """Tell the others what has happened here. ``error`` is the exception of a rank that exited."""
        match event:
            case RankStarted(rank=rank):
                self._tell_rank(rank, RankState.RUNNING, None)
            case RankErrored(rank=rank):
                self._tell_failure(rank)
            case RankExited(rank=rank, code=code):
                state = run.ranks[rank].state
                # the reason first: who knows that all ranks have exited waits for nothing more
                if state is RankState.FAILED:
                    self._tell_failure(rank, f": {error}" if error else "")
                self._tell_rank(rank, state, code)
            case StopRequested(reason=reason):
                if not self._gone:
                    self._tell({"kind": "stop", "reason": f"{reason} (node {self._spec.node_rank})"})
            case _:
                pass

    def fail(self, reason: str) -> None:
        """This machine ends the run for a reason that no rank has."""
        self._tell({"kind": "failed", "attempt": self._attempt, "reason": reason, "final": True})

    def tick(self) -> None:
        """Let time pass."""
        now = self._clock()
        if not self._hub and not self._peers and not self._gone and now >= self._retry:
            self._retry = now + _RETRY
            self._connect(now)
        for peer in list(self._peers):
            if peer.connecting:
                self._finish_connecting(peer, now)
            elif peer.node is None:
                if now - peer.since > _HANDSHAKE:
                    self._part(peer, f"{peer.link.address()} does not answer as nbdist does")
            elif not peer.left and now - peer.heard > SILENCE:
                self._lost(peer, f"nothing came from it for {SILENCE:g} s")
        if now >= self._beat:
            self._beat = now + _HEARTBEAT
            for peer in list(self._peers):
                if peer.node is not None:
                    self._say(peer, {"kind": "alive"})

    def close(self, state: str) -> None:
        """Say good-bye, so that the end of the line means nothing bad."""
        self._gone = True
        self._tell({"kind": "bye", "state": state})
        deadline = time.monotonic() + _FAREWELL
        while any(peer.link.pending and peer.node is not None for peer in self._peers):
            if time.monotonic() > deadline:
                break
            for peer in list(self._peers):
                with contextlib.suppress(LinkClosed):
                    peer.link.flush()
            time.sleep(0.01)
        for peer in list(self._peers):
            self._part(peer, "")
        if self._listener is not None:
            self._selector.unregister(self._listener)
            self._listener.close()
            self._listener = None

    # the line itself

    def _accept(self) -> None:
        assert self._listener is not None, "it is registered while it is there"
        try:
            connection, _ = self._listener.accept()
        except OSError:
            return
        strangers = [peer for peer in self._peers if peer.node is None]
        if len(strangers) >= _MOST_STRANGERS:
            connection.close()
            return
        self._add(connection, caller=False)

    def _connect(self, now: float) -> None:
        connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            if self._spec.host:
                connection.bind((self._spec.host, 0))
            connection.setblocking(False)
            connection.connect(self._place)
        except BlockingIOError:
            pass
        except OSError as error:
            connection.close()
            self._last_trouble = error.strerror or str(error)
            return
        link = Link(connection, self._key, caller=True)
        self._peers.append(_Peer(link, since=now, heard=now, connecting=True))

    def _finish_connecting(self, peer: _Peer, now: float) -> None:
        try:
            if not peer.link.connected():
                if now - peer.since > _HANDSHAKE:
                    raise LinkClosed("no answer")
                return
            peer.connecting = False
            peer.since = now
            self._watch(peer)
            join: Message = {
                "kind": "join",
                "node": self._spec.node_rank,
                "nodes": self._spec.nodes,
                "ranks": len(self._spec.here),
                "address": self._spec.host or peer.link.own_address(),
            }
            peer.link.send(join)
        except LinkClosed as error:
            self._part(peer, str(error))

    def _add(self, connection: socket.socket, *, caller: bool) -> None:
        now = self._clock()
        peer = _Peer(Link(connection, self._key, caller=caller), since=now, heard=now)
        self._peers.append(peer)
        self._watch(peer)
        self._say(peer, {"kind": "welcome"})

    def _watch(self, peer: _Peer) -> None:
        self._selector.register(peer.link, selectors.EVENT_READ, lambda: self._hear(peer))

    def _hear(self, peer: _Peer) -> None:
        if peer not in self._peers:
            return
        try:
            messages = peer.link.receive()
            peer.link.flush()
        except WrongKey:
            self._refuse_stranger(peer)
            return
        except LinkClosed as error:
            self._lost(peer, str(error))
            return
        peer.heard = self._clock()
        for message in messages:
            if peer in self._peers:
                self._take_safely(peer, message)

    def _take_safely(self, peer: _Peer, message: Message) -> None:
        try:
            self._take(peer, message)
        except (KeyError, TypeError, ValueError, IndexError) as error:
            # it has the key, and speaks differently
            self._lost(peer, f"its nbdist is of another version ({type(error).__name__})")

    def _refuse_stranger(self, peer: _Peer) -> None:
        address = peer.link.address()
        self._part(peer, f"{address} has another program, or another NBDIST_TOKEN")
        if not self._hub:
            self.problem = (
                f"node 0 at {address} runs another program, or has another NBDIST_TOKEN: start the same on "
                "each node, or give all of them one NBDIST_TOKEN"
            )

    def _say(self, peer: _Peer, message: Message) -> None:
        try:
            peer.link.send(message)
        except LinkClosed as error:
            self._lost(peer, str(error))

    def _tell(self, message: Message, *, but: _Peer | None = None) -> None:
        """Say it to every machine that is there."""
        for peer in list(self._peers):
            if peer.node is not None and peer is not but and not peer.left:
                self._say(peer, message)

    def _tell_rank(self, rank: int, state: RankState, code: int | None) -> None:
        self._tell(
            {"kind": "rank", "attempt": self._attempt, "rank": rank, "state": state.value, "code": code}
        )

    def _tell_failure(self, rank: int, how: str = "") -> None:
        node = self._spec.node_rank
        where = f"on node {node} ({self.hosts[node]})" if self.hosts else f"on node {node}"
        reason = f"rank {rank} {where} failed{how}"
        self._tell({"kind": "failed", "attempt": self._attempt, "reason": reason, "final": False})

    def _part(self, peer: _Peer, trouble: str) -> None:
        if peer in self._peers:
            self._peers.remove(peer)
            with contextlib.suppress(KeyError, ValueError):
                self._selector.unregister(peer.link)
            peer.link.close()
            self._last_trouble = trouble or self._last_trouble

    def _lost(self, peer: _Peer, how: str) -> None:
        """The line to a machine has ended."""
        self._part(peer, how)
        if peer.node is None or peer.left or self._gone:
            return
        if not self._started:
            return  # it may come again: nothing has begun
        self._gone_node(peer.node, how)

    def _gone_node(self, node: int, how: str) -> None:
        where = f" ({self.hosts[node]})" if self.hosts else ""
        reason = f"node {node}{where} has gone: {how}"
        for rank in self._spec.ranks:
            if rank.node_rank == node:
                self.told.events.append((rank.rank, RankState.LOST, None))
        self.told.failures.append((reason, True))
        self._tell({"kind": "lost", "node": node, "how": how})

    # what is said

    def _take(self, peer: _Peer, message: Message) -> None:
        kind = message.get("kind")
        if kind == "join" and self._hub and peer.node is None:
            self._welcome(peer, message)
            return
        if kind == "welcome" and not self._hub and peer.node is None:
            peer.node = 0
            if self._attempt:
                self._say(peer, {"kind": "ready", "attempt": self._attempt})
            return
        if kind == "refused":
            self.problem = str(message["reason"])
        if peer.node is None:
            return
        if self._hub and kind in ("rank", "failed", "stop"):
            self._tell(message, but=peer)
        self._obey(peer, message)

    def _obey(self, peer: _Peer, message: Message) -> None:
        late = message.get("attempt", self._attempt) != self._attempt
        match message.get("kind"):
            case "rank" if not late:
                state = RankState(message["state"])
                self.told.events.append((int(message["rank"]), state, message["code"]))
            case "failed" if not late:
                self.told.failures.append((str(message["reason"]), bool(message["final"])))
            case "stop":
                self.told.stops.append(str(message["reason"]))
            case "lost":
                self._gone_node(int(message["node"]), str(message["how"]))
            case "ready":
                peer.ready = int(message["attempt"])
                self._consider()
            case "over":
                peer.over = int(message["attempt"])
                self._consider()
            case "start" if not self._hub:
                self.hosts = tuple(message["hosts"])
                self._started = int(message["attempt"])
            case "end" if not self._hub and not late:
                self._finished = self._attempt
            case "bye":
                peer.left = True
                if message["state"] != "succeeded" and self._finished != self._attempt:
                    self.told.failures.append((f"node {peer.node} ended: {message['state']}", True))

    def _welcome(self, peer: _Peer, message: Message) -> None:
        """Node 0: a machine that has the key says which one it is."""
        node, ranks, nodes = int(message["node"]), int(message["ranks"]), int(message["nodes"])
        here = len(self._spec.here)
        reason = ""
        self._forget_silent(node)
        if (nodes, ranks) != (self._spec.nodes, here):
            reason = (
                f"node {node} was asked for {nodes} nodes of {ranks} ranks, node 0 for {self._spec.nodes} of "
                f"{here}: write the same on each"
            )
            self.problem = reason
        elif node in {other.node for other in self._peers} or node == 0:
            reason = f"there is a node {node} already: give each machine a --node-rank of its own"
        elif self._started:
            reason = "the run has begun without it"
        if reason:
            peer.node = node
            peer.left = True
            self._say(peer, {"kind": "refused", "reason": reason})
            return
        peer.node = node
        self._known[node] = str(message["address"])

    def _forget_silent(self, node: int) -> None:
        """Before the run has begun, a machine may come again whose last line broke unseen."""
        now = self._clock()
        for peer in list(self._peers):
            if not self._started and peer.node == node and now - peer.heard > 3 * _HEARTBEAT:
                self._part(peer, "")

    def _consider(self) -> None:
        """Node 0: begin or end an attempt when all are as far."""
        if not self._hub:
            return
        others = [peer for peer in self._peers if peer.node is not None and not peer.left]
        if len(others) < self._spec.nodes - 1:
            return
        if self._started < self._attempt and all(peer.ready == self._attempt for peer in others):
            known = [self._place[0], *(self._known[node] for node in range(1, self._spec.nodes))]
            self.hosts = self._spec.addresses or tuple(known)
            self._started = self._attempt
            self._tell({"kind": "start", "attempt": self._attempt, "hosts": list(self.hosts)})
        if self._is_over == self._attempt == self._started and all(
            peer.over == self._attempt for peer in others
        ):
            self._finished = self._attempt
            self._tell({"kind": "end", "attempt": self._attempt})
