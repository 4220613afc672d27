"""Lines of one machine to the others, which open, carry, keep and lose them.

Anyone may connect to node 0 and hold a silent connection. So there is room for many, each has a few seconds,
and the address with most of them loses its oldest when there are too many. Only ``close`` waits, for a
moment.
"""

from __future__ import annotations

import contextlib
import errno
import selectors
import socket
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nbdist import config
from nbdist.errors import LaunchError
from nbdist.launch.machines.link import Link, LinkClosed, Message, WrongKey

HANDSHAKE_TIMEOUT = 5.0
"""Seconds for a connection to prove itself."""

_MAX_UNPROVEN = 128
_BACKLOG = 1024
_AT_ONCE = 16
"""Connections accepted at once, before the others are read again."""

PEER_TIMEOUT = 10.0
"""Seconds without a message after which a machine counts as gone, unless its network still answers."""

HEARTBEAT = 1.0
_HELD = 3.0  # seconds without a message after which the run shows that a machine is held up
_ANSWERS = 3.0  # seconds since the network of a machine has answered, at most
_RETRY = 0.3
_FAREWELL = 1.0
_MOST_TROUBLES = 100
"""Lines about failed connections: a stranger could fill the disk with them."""


@dataclass(slots=True)
class Peer:
    """The other end of one line, opened at ``since`` in monotonic seconds. ``node`` is None until it has
    proven and named itself, and is admitted. ``instance`` names its supervisor; ``ready`` and ``over`` are
    the last attempts that it could start, and whose ranks succeeded there."""

    link: Link
    since: float
    heard: float
    node: int | None = None
    instance: str = ""
    connecting: bool = False
    ready: int = 0
    over: int = 0


def in_the_way(strangers: Sequence[Peer]) -> Peer:
    """Return the connection to close: the oldest of the address with most of them."""
    crowd = Counter(stranger.link.address() for stranger in strangers)
    return min(strangers, key=lambda stranger: (-crowd[stranger.link.address()], stranger.since))


@dataclass(frozen=True, slots=True, kw_only=True)
class Callbacks:
    """Callbacks: for a connection to node 0, a message, an end with another key, the end of a line."""

    greet: Callable[[Peer], None]
    take: Callable[[Peer, Message], None]
    stranger: Callable[[Peer], None]
    lost: Callable[[Peer, str], None]


class Connections:
    """The lines of one machine. Node 0 listens at ``place``; ``host`` is this machine's own address, if it
    has several. ``report`` receives a line about each failed connection."""

    def __init__(
        self,
        place: tuple[str, int],
        keys: Sequence[str],
        selector: selectors.BaseSelector,
        callbacks: Callbacks,
        *,
        host: str = "",
        clock: Callable[[], float] = time.monotonic,
        report: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.peers: list[Peer] = []
        self.last_trouble = ""
        self._place = place
        self._keys = keys
        self._selector = selector
        self._callbacks = callbacks
        self._host = host
        self._clock = clock
        self._report = report
        self._troubles = 0
        self._listener: socket.socket | None = None
        self._beat = self._retry = 0.0
        self._ticked = clock()
        self._patience = config.engine_silence()

    @property
    def named(self) -> list[Peer]:
        """Admitted peers."""
        return [peer for peer in self.peers if peer.node is not None]

    def held(self) -> tuple[int, ...]:
        """Return the machines whose network answers, but whose nbdist is silent."""
        now = self._clock()
        silent = [peer for peer in self.named if now - peer.heard > _HELD]
        return tuple(sorted(peer.node or 0 for peer in silent if peer.link.unheard() < _ANSWERS))

    def listen(self) -> None:
        """Accept connections from now on. Raises LaunchError without the address or the port."""
        try:
            self._listener = socket.create_server(self._place, backlog=_BACKLOG)
        except OSError as error:
            host, port = self._place
            raise LaunchError(
                f"node 0 cannot listen at {host}:{port}, the port behind --master's ({error.strerror}): "
                f"give another port, the same on every node"
            ) from None
        self._listener.setblocking(False)
        listener = self._listener
        self._selector.register(listener, selectors.EVENT_READ, lambda: self._accept(listener))

    def tick(self, *, calling: bool) -> None:
        """Apply the deadlines, and send heartbeats. ``calling``: without a line, try to open one."""
        now = self._clock()
        if now - self._ticked > _HELD:
            # this machine was held up itself, and has not read the others' messages of that time
            for peer in self.peers:
                peer.heard = now
        self._ticked = now
        if calling and not self.peers and now >= self._retry:
            self._retry = now + _RETRY
            self._connect(now)
        for peer in list(self.peers):
            if peer.connecting:
                self._finish_connecting(peer, now)
            elif peer.node is None:
                if now - peer.since > HANDSHAKE_TIMEOUT:
                    self.part(peer, f"{peer.link.address()} does not answer as nbdist does")
            elif (silent := now - peer.heard) > PEER_TIMEOUT and (
                silent > self._patience or peer.link.unheard() > _ANSWERS
            ):
                self.lose(peer, f"nothing came from it for {int(silent)} s")
        if now >= self._beat:
            self._beat = now + HEARTBEAT
            self.tell({"kind": "alive"})

    def say(self, peer: Peer, message: Message) -> None:
        """Send to one peer, or lose it."""
        try:
            peer.link.send(message)
        except LinkClosed as error:
            self.lose(peer, str(error))

    def tell(self, message: Message, *, but: Peer | None = None) -> None:
        """Send to every admitted machine."""
        for peer in self.named:
            if peer is not but:
                self.say(peer, message)

    def part(self, peer: Peer, trouble: str) -> None:
        """Close the connection; ``trouble`` is the reason, in case the run waits for this machine in vain."""
        if peer not in self.peers:
            return
        self.peers.remove(peer)
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(peer.link)
        peer.link.close()
        if not trouble:
            return
        new, self.last_trouble = trouble != self.last_trouble, trouble
        self._troubles += new
        if new and self._troubles <= _MOST_TROUBLES:
            self._report(f"the connection with {peer.link.address()} was closed: {trouble}")

    def lose(self, peer: Peer, how: str) -> None:
        """Close a line that has ended, and report it."""
        self.part(peer, how)
        self._callbacks.lost(peer, how)

    def close(self) -> None:
        """Send pending messages, for a moment, and close all lines."""
        deadline = time.monotonic() + _FAREWELL
        while any(peer.link.pending for peer in self.named) and time.monotonic() < deadline:
            for peer in list(self.peers):
                with contextlib.suppress(LinkClosed):
                    peer.link.flush()
            time.sleep(0.01)
        for peer in list(self.peers):
            self.part(peer, "")
        if self._listener is not None:
            self._selector.unregister(self._listener)
            self._listener.close()
            self._listener = None

    def _accept(self, listener: socket.socket) -> None:
        for _ in range(_AT_ONCE):
            try:
                connection, (address, _) = listener.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in (errno.EMFILE, errno.ENFILE):
                    self._make_room(least=1)
                return
            now = self._clock()
            link = Link(connection, *self._keys, caller=False, address=address)
            self.peers.append(Peer(link, since=now, heard=now))
            self._begin(self.peers[-1])
            self._make_room(least=_MAX_UNPROVEN + 1)

    def _make_room(self, least: int) -> None:
        """Close a connection if at least so many have not proven themselves."""
        strangers = [peer for peer in self.peers if peer.node is None]
        if len(strangers) >= least:
            peer = in_the_way(strangers)
            self.part(peer, f"{peer.link.address()} has opened too many connections, one was closed")

    def _connect(self, now: float) -> None:
        connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            if self._host:
                connection.bind((self._host, 0))
            connection.setblocking(False)
            connection.connect(self._place)
        except BlockingIOError:
            pass
        except OSError as error:
            connection.close()
            self.last_trouble = error.strerror or str(error)
            return
        link = Link(connection, *self._keys, caller=True)
        self.peers.append(Peer(link, since=now, heard=now, connecting=True))

    def _finish_connecting(self, peer: Peer, now: float) -> None:
        try:
            connected = peer.link.connected()
        except LinkClosed as error:
            self.part(peer, str(error))
            return
        if connected:
            peer.connecting, peer.since = False, now
            self._begin(peer)
            self._callbacks.greet(peer)
        elif now - peer.since > HANDSHAKE_TIMEOUT:
            self.part(peer, "no answer")

    def _begin(self, peer: Peer) -> None:
        self._selector.register(peer.link, selectors.EVENT_READ, lambda: self._hear(peer))
        try:
            peer.link.flush()
        except LinkClosed as error:
            self.lose(peer, str(error))

    def _hear(self, peer: Peer) -> None:
        if peer not in self.peers:
            return
        try:
            messages = peer.link.receive()
            peer.link.flush()
        except (WrongKey, LinkClosed) as error:
            if isinstance(error, LinkClosed) or peer.node is not None:
                self.lose(peer, str(error))
            else:
                peer.link.deny()
                self._callbacks.stranger(peer)
            return
        peer.heard = self._clock()
        for message in messages:
            if peer in self.peers:
                self._callbacks.take(peer, message)
