"""Where others call: the port, the connections that have proven nothing yet, and answers to questions.

Anyone may connect, and hold a connection that says nothing. So there is room for many of them, each has a few
seconds, and when there are too many the address that has most of them loses its oldest: it cannot keep
others out.
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
from typing import Generic, Protocol, TypeVar

from nbdist.launch.machines.link import Link, LinkClosed, WrongKey, parsed
from nbdist.launch.machines.messages import Message

PATIENCE = 5.0
"""Seconds in which a connection has to be proven."""

_MOST_STRANGERS = 128
_BACKLOG = 1024
_AT_ONCE = 16
"""Connections taken before those that are there are heard again."""

_MANNERS = 10.0
"""Seconds that a guest may take for a question."""

_MOST_SAID = 16_000_000
"""Characters of a question: an environment is the longest that is asked with."""


class Stranger(Protocol):
    """A connection that is not proven. ``since`` is when it came, in monotonic seconds."""

    @property
    def link(self) -> Link: ...
    @property
    def since(self) -> float: ...


_S = TypeVar("_S", bound=Stranger)


def in_the_way(strangers: Sequence[_S]) -> _S:
    """The one that has to make room: the oldest of the address that has most of them."""
    crowd = Counter(stranger.link.address() for stranger in strangers)
    return min(strangers, key=lambda stranger: (-crowd[stranger.link.address()], stranger.since))


class Listener(Generic[_S]):
    """Takes connections at ``place``, with the address that each comes from. ``strangers`` are those that
    have proven nothing yet; ``drop`` closes one of them."""

    def __init__(
        self,
        place: tuple[str, int],
        selector: selectors.BaseSelector,
        *,
        take: Callable[[socket.socket, str], None],
        strangers: Callable[[], Sequence[_S]],
        drop: Callable[[_S], None],
    ) -> None:
        """Raises OSError where the address or the port cannot be had."""
        self._selector = selector
        self._take = take
        self._strangers = strangers
        self._drop = drop
        self._socket = socket.create_server(place, backlog=_BACKLOG)
        self._socket.setblocking(False)
        self._selector.register(self._socket, selectors.EVENT_READ, self._accept)

    @property
    def port(self) -> int:
        return int(self._socket.getsockname()[1])

    def close(self) -> None:
        self._selector.unregister(self._socket)
        self._socket.close()

    def forget(self) -> None:
        """In a forked child, whose selector is the parent's, too."""
        self._socket.close()

    def _accept(self) -> None:
        for _ in range(_AT_ONCE):
            try:
                connection, (address, _) = self._socket.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in (errno.EMFILE, errno.ENFILE) and (strangers := self._strangers()):
                    self._drop(in_the_way(strangers))
                return
            self._take(connection, address)
            if len(strangers := self._strangers()) > _MOST_STRANGERS:
                self._drop(in_the_way(strangers))


@dataclass(slots=True)
class _Guest:
    link: Link
    since: float
    said: str = ""


class Reception:
    """Listens on ``address``; ``answer`` is asked what to say to a holder of the key."""

    def __init__(
        self,
        address: str,
        key: str,
        selector: selectors.BaseSelector,
        answer: Callable[[Message], Message],
    ) -> None:
        """Raises OSError where it cannot listen."""
        self._key = key
        self._selector = selector
        self._answer = answer
        self._guests: list[_Guest] = []
        self._listener = Listener(
            (address, 0), selector, take=self._welcome, strangers=lambda: self._guests, drop=self._part
        )

    @property
    def port(self) -> int:
        return self._listener.port

    def tick(self, now: float) -> None:
        """Send those away who say nothing. ``now`` is monotonic seconds."""
        for guest in list(self._guests):
            if now - guest.since > _MANNERS:
                self._part(guest)

    def forget(self) -> None:
        """In a forked child: close what is the parent's."""
        self._listener.forget()
        for guest in self._guests:
            guest.link.close()

    def _welcome(self, connection: socket.socket, address: str) -> None:
        guest = _Guest(Link(connection, self._key, caller=False, address=address), time.monotonic())
        self._guests.append(guest)
        self._selector.register(guest.link, selectors.EVENT_READ, lambda: self._hear(guest))
        with contextlib.suppress(LinkClosed):
            guest.link.flush()

    def _hear(self, guest: _Guest) -> None:
        if guest not in self._guests:
            return
        try:
            messages = guest.link.receive()
            guest.link.flush()
            for message in messages:
                guest.said += str(message["piece"])
                if len(guest.said) > _MOST_SAID:
                    raise LinkClosed("its question is too long")
                if message["last"]:
                    question, guest.said = parsed(guest.said), ""
                    guest.link.send(self._answer(question))
        except (LinkClosed, WrongKey, KeyError, ValueError, TypeError):
            self._part(guest)

    def _part(self, guest: _Guest) -> None:
        if guest in self._guests:
            self._guests.remove(guest)
            self._selector.unregister(guest.link)
            guest.link.close()
