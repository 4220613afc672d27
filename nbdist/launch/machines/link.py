"""Authenticated line for small JSON messages between holders of the run's key, and the table of messages.

Both ends send a nonce first, and derive the key of this connection from the run's key and both nonces. Every
message carries a MAC over the direction, its number and itself: without the key, no machine can forge, replay
or omit one. The called end proves nothing before the caller has. The line is not encrypted. ``check`` refuses
messages that differ from the table in type, in bounds, or by text that no file can hold.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import math
import os
import re
import socket
import struct
from collections.abc import Callable, Mapping
from typing import Any

from nbdist.errors import NbdistError
from nbdist.model import RankState, Reason
from nbdist.model.decoding import loads

Message = dict[str, Any]

_HELLO = b"nbdist 2 "
_NONCE = re.compile(rb"[0-9a-f]{32}")
_DENIAL = b"another key\n"
_MOST = 65_536
"""Bytes of one message; a longer one closes the link."""

_LAST_ACK = struct.Struct("56xI")  # of struct tcp_info: tcpi_last_ack_recv


class LinkClosed(NbdistError):
    """A line that the other end or the network closed, or on which no nbdist speaks."""


class WrongKey(NbdistError):
    """A message without the key of this run, from another program or with another token."""


class Link:
    """One connection that never blocks: ``flush`` sends the rest of a message. The ``caller`` connected, and
    has one key (see ``runner.placement``); the other end accepts any of its own."""

    def __init__(self, connection: socket.socket, *keys: str, caller: bool, address: str = "") -> None:
        connection.setblocking(False)
        with contextlib.suppress(OSError):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = connection
        self._keys = [key.encode() for key in keys]
        self._caller = caller
        self._nonce = os.urandom(16).hex().encode()
        self._sessions: list[bytes] = []  # the keys that this connection may have
        self._session: bytes | None = None
        self._received = b""
        self._waiting = _HELLO + self._nonce + b"\n"
        self._early: list[Message] = []
        self._sent_count = self._received_count = 0
        self._address = address

    @property
    def pending(self) -> bool:
        """True while bytes or messages wait to be sent."""
        return bool(self._waiting or self._early)

    def fileno(self) -> int:
        return self._socket.fileno()

    def connected(self) -> bool:
        """Return whether the connection is established. Raises LinkClosed when it has failed."""
        if error := self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            raise LinkClosed(os.strerror(error))
        try:
            self._socket.getpeername()
        except OSError:
            return False
        return True

    def address(self) -> str:
        """Return the other end's address."""
        with contextlib.suppress(OSError):
            self._address = self._address or str(self._socket.getpeername()[0])
        return self._address

    def own_address(self) -> str:
        """Return the address by which the other end reaches this one."""
        return str(self._socket.getsockname()[0])

    def unheard(self) -> float:
        """Return the seconds since the other kernel's last acknowledgement (tcp(7), Linux), or infinity."""
        try:
            info = self._socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _LAST_ACK.size)
            return float(_LAST_ACK.unpack(info)[0]) / 1e3
        except (OSError, AttributeError, struct.error):
            return math.inf

    def send(self, message: Message) -> None:
        """Send a message as soon as possible. Raises LinkClosed."""
        if self._session is None:
            self._early.append(message)
        else:
            self._enqueue(message)
        self.flush()

    def flush(self) -> None:
        """Send waiting bytes without blocking. Raises LinkClosed."""
        while self._waiting:
            try:
                sent = self._socket.send(self._waiting)
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                raise LinkClosed(error.strerror or str(error)) from None
            self._waiting = self._waiting[sent:]

    def receive(self) -> list[Message]:
        """Return the received messages. Raises LinkClosed, or WrongKey for one without the key."""
        try:
            data = self._socket.recv(_MOST)
        except (BlockingIOError, InterruptedError):
            return []
        except OSError as error:
            raise LinkClosed(error.strerror or str(error)) from None
        if not data:
            raise LinkClosed("its nbdist process ended")
        *lines, self._received = (self._received + data).split(b"\n")
        if any(len(line) > _MOST for line in (*lines, self._received)):
            raise WrongKey("what came is no message")
        return [message for line in lines if (message := self._decode(line)) is not None]

    def deny(self) -> None:
        """Send a line without proof, which shows the other end that it has another key."""
        self._waiting += _DENIAL
        with contextlib.suppress(LinkClosed):
            self.flush()

    def close(self) -> None:
        self._socket.close()

    def _decode(self, line: bytes) -> Message | None:
        if not self._sessions:
            self._meet(line)
            return None
        mac, _, body = line.partition(b" ")
        sender, count = not self._caller, self._received_count
        for session in self._sessions:
            if hmac.compare_digest(mac, _mac(session, sender, count, body)):
                self._received_count += 1
                if self._session is None:
                    self._begin(session)
                return parsed(body)
        raise WrongKey("what came was not sent with the key of this run")

    def _meet(self, line: bytes) -> None:
        theirs = line.removeprefix(_HELLO)
        if not line.startswith(_HELLO) or not _NONCE.fullmatch(theirs):
            raise WrongKey("the other end is no nbdist of this version")
        nonces = [self._nonce, theirs] if self._caller else [theirs, self._nonce]
        text = b"session " + b" ".join(nonces)
        self._sessions = [hmac.digest(key, text, hashlib.sha256) for key in self._keys]
        if self._caller:
            self._begin(self._sessions[0])

    def _begin(self, session: bytes) -> None:
        """Send the early messages, now that the connection has a key."""
        self._session, self._sessions = session, [session]
        early, self._early = self._early, []
        for message in early:
            self._enqueue(message)
        self.flush()

    def _enqueue(self, message: Message) -> None:
        assert self._session is not None, "send keeps messages until there is one"
        body = json.dumps(message).encode()
        mac = _mac(self._session, self._caller, self._sent_count, body)
        self._sent_count += 1
        self._waiting += mac + b" " + body + b"\n"


def _mac(session: bytes, from_caller: bool, count: int, body: bytes) -> bytes:
    text = b"%d %d %s" % (from_caller, count, body)
    return hmac.new(session, text, hashlib.sha256).hexdigest().encode()


def parsed(text: str | bytes) -> Message:
    """Parse a message. Raises LinkClosed."""
    with contextlib.suppress(ValueError):
        message = loads(text, exact=True)  # ``check`` refuses halves of characters
        if isinstance(message, dict):
            return message
    raise LinkClosed("what came is no message")


_MOST_TEXT = 40_000
_MOST_FIELD = _MOST_TEXT // 2
_MOST_COUNT = 2**31
_Claim = Callable[[object], bool]


class BadMessage(ValueError):
    """A message from a holder of the key that no nbdist of this version sends."""


def check(message: Message) -> str:
    """Return the kind of the message. Raises BadMessage."""
    kind = message.get("kind")
    fields = _FIELDS.get(kind) if isinstance(kind, str) else None
    if fields is None:
        raise BadMessage("a message of no known kind")
    _check_fields(str(kind), fields, {name: message[name] for name in message if name != "kind"})
    return str(kind)


def plain(text: str) -> str:
    """Return foreign text in a form that ``check`` accepts."""
    return text[:_MOST_FIELD].encode(errors="replace").decode()


def _check_fields(what: str, fields: Mapping[str, _Claim], values: Mapping[str, object]) -> None:
    if values.keys() != fields.keys():
        raise BadMessage(f"{what} with other fields")
    for name, claim in fields.items():
        if not claim(values[name]):
            raise BadMessage(f"{what} with another {name}")


def _count(value: object) -> bool:
    return type(value) is int and 0 <= value < _MOST_COUNT


def _list_of(claim: _Claim) -> _Claim:
    return lambda value: isinstance(value, list) and all(map(claim, value))


def _code(value: object) -> bool:
    return value is None or (type(value) is int and abs(value) < _MOST_COUNT)


def _seconds(value: object) -> bool:
    # NaN fails each comparison
    return type(value) in (int, float) and abs(value) < 1e12  # type: ignore[arg-type]


def _flag(value: object) -> bool:
    return type(value) is bool


def _text(value: object) -> bool:
    # JSON may contain half a surrogate pair, which no screen can print
    return (
        type(value) is str and len(value) <= _MOST_TEXT and not any("\ud800" <= c <= "\udfff" for c in value)
    )


def _reason(value: object) -> bool:
    try:
        return _text(json.dumps(Reason.decode(value).encode(), ensure_ascii=False))
    except ValueError:
        return False


def _address(value: object) -> bool:
    try:
        socket.inet_pton(socket.AF_INET, value)  # type: ignore[arg-type]
    except (OSError, TypeError, ValueError):
        return False
    return True


def _beginning_or_end(value: object) -> bool:
    return value in [state.value for state in RankState if state is not RankState.PENDING]


def _collectives(value: object) -> bool:
    if not isinstance(value, dict):
        return False
    for collective in value.values():
        if not isinstance(collective, dict):
            return False
        _check_fields("stacks", _COLLECTIVE, collective)
    return True


_COLLECTIVE: Mapping[str, _Claim] = {
    "name": _text,
    "number": _code,
    "over": _flag,
    "begun": _seconds,
    "last": _code,
    "members": _list_of(_count),
    "on_device": _flag,
}

_FIELDS: Mapping[str, Mapping[str, _Claim]] = {
    "join": {"node": _count, "nodes": _count, "ranks": _count, "address": _address, "instance": _text},
    "welcome": {},
    "refused": {"reason": _reason},
    "alive": {},
    "ready": {"attempt": _count},
    "start": {"attempt": _count, "hosts": _list_of(_address)},
    "rank": {"attempt": _count, "rank": _count, "state": _beginning_or_end, "code": _code},
    "failed": {"attempt": _count, "reason": _reason, "final": _flag},
    "stop": {"reason": _reason},
    "time is up": {"attempt": _count},
    "still": {"attempt": _count, "node": _count, "idle": _seconds, "still": _seconds, "waits": _flag},
    "where": {"attempt": _count},
    "calls": {"attempt": _count, "node": _count, "most": _code},
    "stacks": {
        "attempt": _count,
        "rank": _count,
        "text": _text,
        "problem": _text,
        "blocked": _flag,
        "collectives": _collectives,
    },
    "lost": {"node": _count, "how": _text},
    "over": {"attempt": _count},
    "end": {"attempt": _count},
    "bye": {"state": _text},
}
