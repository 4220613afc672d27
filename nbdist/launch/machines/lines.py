"""The lines of one machine to the others: how they are made, heard and kept, and when they are lost.

Nothing here waits but ``close``, for a moment; and nothing here knows what the messages mean.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass

from nbdist import config
from nbdist.errors import LaunchError
from nbdist.launch.machines.link import Link, LinkClosed, Message, WrongKey

SILENCE = 10.0
"""Seconds without a word after which a machine counts as gone, unless its network still answers."""

HEARTBEAT = 1.0
_HELD = 3.0  # seconds without a word after which a machine that is there is said to wait for something
_ANSWERS = 3.0  # seconds since the network of a machine has answered, at most
_HANDSHAKE = 5.0
_RETRY = 0.3
_MOST_STRANGERS = 32
_FAREWELL = 1.0


@dataclass(slots=True)
class Peer:
    """The other end of one line. ``node`` is None until it has proven and named itself.

    ``ready`` and ``over`` are the last attempts that it could start, and whose ranks succeeded there;
    ``left``: it has said good-bye.
    """

    link: Link
    since: float
    heard: float
    node: int | None = None
    connecting: bool = False
    ready: int = 0
    over: int = 0
    left: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Ears:
    """Who is told what becomes of a line: it is there, a message came, the other end does not have the key,
    it has ended (and was parted from)."""

    greet: Callable[[Peer], None]
    take: Callable[[Peer, Message], None]
    stranger: Callable[[Peer], None]
    lost: Callable[[Peer, str], None]


class Lines:
    """The lines that one machine has. ``place`` is where node 0 listens, ``host`` this machine's own address
    where it has several."""

    def __init__(
        self,
        place: tuple[str, int],
        key: str,
        selector: selectors.BaseSelector,
        ears: Ears,
        *,
        host: str = "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.peers: list[Peer] = []
        self.last_trouble = ""
        self._place = place
        self._key = key
        self._selector = selector
        self._ears = ears
        self._host = host
        self._clock = clock
        self._listener: socket.socket | None = None
        self._beat = self._retry = 0.0
        self._ticked = clock()
        self._patience = config.engine_silence()

    @property
    def named(self) -> list[Peer]:
        """Those that have proven and named themselves, and have not said good-bye."""
        return [peer for peer in self.peers if peer.node is not None and not peer.left]

    def held(self) -> tuple[int, ...]:
        """The machines whose network answers while their nbdist says nothing: it waits, for its disk as a
        rule."""
        now = self._clock()
        silent = [peer for peer in self.named if now - peer.heard > _HELD]
        return tuple(sorted(peer.node or 0 for peer in silent if peer.link.unheard() < _ANSWERS))

    def listen(self) -> None:
        """Take calls from now on. Raises LaunchError where the address or the port cannot be had."""
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

    def tick(self, *, calling: bool) -> None:
        """Let time pass. ``calling``: while there is no line, try to get one."""
        now = self._clock()
        if now - self._ticked > _HELD:
            # this machine has waited itself: what the others have said meanwhile is still to be read
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
                if now - peer.since > _HANDSHAKE:
                    self.part(peer, f"{peer.link.address()} does not answer as nbdist does")
            elif not peer.left and self._is_gone(peer, now - peer.heard):
                self.lose(peer, f"nothing came from it for {int(now - peer.heard)} s")
        if now >= self._beat:
            self._beat = now + HEARTBEAT
            for peer in list(self.peers):
                if peer.node is not None:
                    self.say(peer, {"kind": "alive"})

    def _is_gone(self, peer: Peer, silent: float) -> bool:
        if silent <= SILENCE:
            return False
        return silent > self._patience or peer.link.unheard() > _ANSWERS

    def say(self, peer: Peer, message: Message) -> None:
        """Say it to one, who may be lost over it."""
        try:
            peer.link.send(message)
        except LinkClosed as error:
            self.lose(peer, str(error))

    def tell(self, message: Message, *, but: Peer | None = None) -> None:
        """Say it to every machine that is there."""
        for peer in self.named:
            if peer is not but:
                self.say(peer, message)

    def part(self, peer: Peer, trouble: str) -> None:
        """Close the line; ``trouble`` is what a wait that comes to nothing will be explained with."""
        if peer in self.peers:
            self.peers.remove(peer)
            with contextlib.suppress(KeyError, ValueError):
                self._selector.unregister(peer.link)
            peer.link.close()
            self.last_trouble = trouble or self.last_trouble

    def part_from_silent(self, node: int) -> None:
        """Close a line of this machine over which nothing comes."""
        now = self._clock()
        for peer in list(self.peers):
            if peer.node == node and now - peer.heard > _HELD:
                self.part(peer, "")

    def lose(self, peer: Peer, how: str) -> None:
        """The line to a machine has ended."""
        self.part(peer, how)
        self._ears.lost(peer, how)

    def close(self) -> None:
        """Send what was said, for a moment, and part from all."""
        deadline = time.monotonic() + _FAREWELL
        while any(peer.link.pending and peer.node is not None for peer in self.peers):
            if time.monotonic() > deadline:
                break
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

    def _accept(self) -> None:
        assert self._listener is not None, "it is registered while it is there"
        try:
            connection, _ = self._listener.accept()
        except OSError:
            return
        strangers = [peer for peer in self.peers if peer.node is None]
        if len(strangers) >= _MOST_STRANGERS:
            connection.close()
            return
        now = self._clock()
        peer = Peer(Link(connection, self._key, caller=False), since=now, heard=now)
        self.peers.append(peer)
        self._begin(peer)

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
        link = Link(connection, self._key, caller=True)
        self.peers.append(Peer(link, since=now, heard=now, connecting=True))

    def _finish_connecting(self, peer: Peer, now: float) -> None:
        try:
            if not peer.link.connected():
                if now - peer.since > _HANDSHAKE:
                    raise LinkClosed("no answer")
                return
            peer.connecting = False
            peer.since = now
            self._begin(peer)
        except LinkClosed as error:
            self.part(peer, str(error))

    def _begin(self, peer: Peer) -> None:
        self._selector.register(peer.link, selectors.EVENT_READ, lambda: self._hear(peer))
        self._ears.greet(peer)

    def _hear(self, peer: Peer) -> None:
        if peer not in self.peers:
            return
        try:
            messages = peer.link.receive()
            peer.link.flush()
        except WrongKey:
            self._ears.stranger(peer)
            return
        except LinkClosed as error:
            self.lose(peer, str(error))
            return
        peer.heard = self._clock()
        for message in messages:
            if peer in self.peers:
                self._ears.take(peer, message)
