"""Where others ask: answers questions that come over lines (``link``), as ``calling`` puts them."""

from __future__ import annotations

import contextlib
import json
import selectors
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass

from nbdist.launch.machines.link import Link, LinkClosed, Message, WrongKey

_MANNERS = 10.0
"""Seconds that somebody who has connected may take for his question."""

_MOST_GUESTS = 32


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
        self._listener = socket.create_server((address, 0), backlog=_MOST_GUESTS)
        self._listener.setblocking(False)
        self._selector.register(self._listener, selectors.EVENT_READ, self._welcome)

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    def tick(self, now: float) -> None:
        """Send those away who say nothing. ``now`` is monotonic seconds."""
        for guest in list(self._guests):
            if now - guest.since > _MANNERS:
                self._part(guest)

    def forget(self) -> None:
        """In a forked child: close what is the parent's."""
        self._listener.close()
        for guest in self._guests:
            guest.link.close()

    def _welcome(self) -> None:
        with contextlib.suppress(OSError):
            connection, _ = self._listener.accept()
            if len(self._guests) >= _MOST_GUESTS:
                connection.close()
                return
            guest = _Guest(Link(connection, self._key, caller=False), time.monotonic())
            self._guests.append(guest)
            self._selector.register(guest.link, selectors.EVENT_READ, lambda: self._hear(guest))
            with contextlib.suppress(LinkClosed):
                guest.link.flush()

    def _hear(self, guest: _Guest) -> None:
        try:
            messages = guest.link.receive()
            guest.link.flush()
            for message in messages:
                guest.said += str(message["piece"])
                if message["last"]:
                    question, guest.said = json.loads(guest.said), ""
                    guest.link.send(self._answer(question))
        except (LinkClosed, WrongKey, KeyError, ValueError, TypeError):
            self._part(guest)

    def _part(self, guest: _Guest) -> None:
        if guest in self._guests:
            self._guests.remove(guest)
            self._selector.unregister(guest.link)
            guest.link.close()
