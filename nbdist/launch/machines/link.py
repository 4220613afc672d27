"""The line between the supervisors of two machines: small JSON messages, each proven to come from a holder
of the run's key.

Both ends say a nonce first. From the key and the two nonces both make the key of this connection, and
every message carries its MAC over that, the direction and the message's number: nothing can be forged,
replayed or left out by somebody who does not have the key. Nothing is secret on it, and nothing that
comes from it is executed.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import math
import os
import socket
import struct
from typing import Any

from nbdist.errors import NbdistError

_HELLO = b"nbdist 1 "
_MOST = 65_536
"""Bytes of one message. Who sends more has no business here."""

_LAST_ACK = struct.Struct("56xI")  # of struct tcp_info: tcpi_last_ack_recv

Message = dict[str, Any]


class LinkClosed(NbdistError):
    """The other end has closed, or the network gave up on it."""


class WrongKey(NbdistError):
    """The other end does not have the key of this run: another program, or another token."""


class Link:
    """One connection, never waiting: what cannot be sent yet is kept, and ``flush`` sends it.

    ``caller`` is the end that connected. The key is a run's own (see ``runner.nodes``).
    """

    def __init__(self, connection: socket.socket, key: str, *, caller: bool) -> None:
        connection.setblocking(False)
        with contextlib.suppress(OSError):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = connection
        self._key = key.encode()
        self._caller = caller
        self._nonce = os.urandom(16).hex().encode()
        self._session: bytes | None = None
        self._received = b""
        self._waiting = _HELLO + self._nonce + b"\n"
        self._early: list[Message] = []
        self._sent_count = self._received_count = 0

    @property
    def pending(self) -> bool:
        """Whether something has not been sent yet."""
        return bool(self._waiting or self._early)

    def fileno(self) -> int:
        return self._socket.fileno()

    def connected(self) -> bool:
        """Whether a connection that was begun is there. Raises LinkClosed when it will not be."""
        if error := self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            raise LinkClosed(os.strerror(error))
        try:
            self._socket.getpeername()
        except OSError:
            return False
        return True

    def address(self) -> str:
        """The other end's address."""
        with contextlib.suppress(OSError):
            return str(self._socket.getpeername()[0])
        return ""

    def own_address(self) -> str:
        """This end's address, by which the other one can be reached from."""
        return str(self._socket.getsockname()[0])

    def unheard(self) -> float:
        """Seconds since the other machine has confirmed something, which its kernel does whatever becomes of
        the program there; infinite where that is not known (tcp(7), Linux)."""
        try:
            told = self._socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _LAST_ACK.size)
            milliseconds: int = _LAST_ACK.unpack(told)[0]
        except (OSError, AttributeError, struct.error):
            return math.inf
        return milliseconds / 1e3

    def send(self, message: Message) -> None:
        """Send a message as soon as that is possible. Raises LinkClosed."""
        if self._session is None:
            self._early.append(message)
        else:
            self._enqueue(message)
        self.flush()

    def flush(self) -> None:
        """Send what waits, as far as that does not block. Raises LinkClosed."""
        while self._waiting:
            try:
                sent = self._socket.send(self._waiting)
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                raise LinkClosed(error.strerror or str(error)) from None
            self._waiting = self._waiting[sent:]

    def receive(self) -> list[Message]:
        """What has come. Raises LinkClosed, and WrongKey for what was not sent with the key."""
        try:
            data = self._socket.recv(_MOST)
        except (BlockingIOError, InterruptedError):
            return []
        except OSError as error:
            raise LinkClosed(error.strerror or str(error)) from None
        if not data:
            raise LinkClosed("its nbdist ended without a word")
        *lines, self._received = (self._received + data).split(b"\n")
        if len(self._received) > _MOST:
            raise WrongKey("what came is no message")
        return [message for line in lines if (message := self._decode(line)) is not None]

    def close(self) -> None:
        self._socket.close()

    def _decode(self, line: bytes) -> Message | None:
        if self._session is None:
            self._begin(line)
            return None
        mac, _, body = line.partition(b" ")
        if not hmac.compare_digest(mac, self._mac(not self._caller, self._received_count, body)):
            raise WrongKey("what came was not sent with the key of this run")
        self._received_count += 1
        message = json.loads(body)
        if not isinstance(message, dict):
            raise WrongKey("what came is no message")
        return message

    def _begin(self, line: bytes) -> None:
        if not line.startswith(_HELLO):
            raise WrongKey("the other end is no nbdist of this version")
        theirs = line.removeprefix(_HELLO)
        nonces = [self._nonce, theirs] if self._caller else [theirs, self._nonce]
        self._session = hmac.digest(self._key, b"session " + b" ".join(nonces), hashlib.sha256)
        early, self._early = self._early, []
        for message in early:
            self._enqueue(message)
        self.flush()

    def _enqueue(self, message: Message) -> None:
        body = json.dumps(message).encode()
        mac = self._mac(self._caller, self._sent_count, body)
        self._sent_count += 1
        self._waiting += mac + b" " + body + b"\n"

    def _mac(self, from_caller: bool, count: int, body: bytes) -> bytes:
        assert self._session is not None, "the nonces come before the messages"
        text = b"%d %d %s" % (from_caller, count, body)
        return hmac.new(self._session, text, hashlib.sha256).hexdigest().encode()
