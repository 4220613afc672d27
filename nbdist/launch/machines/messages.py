"""What the supervisors of a run's machines may say to each other: every kind of message and its fields.

What does not look as this table has it is not acted on (``check``): no module behind it meets a value of
another type, a number beyond bounds, or text that no file takes.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from typing import Any

from nbdist.model import RankState, Reason

Message = dict[str, Any]

_MOST_TEXT = 40_000
_MOST_FIELD = _MOST_TEXT // 2
_MOST_COUNT = 2**31
_Claim = Callable[[object], bool]


class BadMessage(ValueError):
    """A holder of the key said what no nbdist of this version says."""


def check(message: Message) -> str:
    """The kind of the message. Raises BadMessage."""
    kind = message.get("kind")
    fields = _FIELDS.get(kind) if isinstance(kind, str) else None
    if fields is None:
        raise BadMessage("a message of no known kind")
    _check_fields(str(kind), fields, {name: message[name] for name in message if name != "kind"})
    return str(kind)


def plain(text: str, most: int = _MOST_FIELD) -> str:
    """Words that come from elsewhere, as a message may have them."""
    return text[:most].encode(errors="replace").decode()


def _check_fields(what: str, fields: Mapping[str, _Claim], values: Mapping[str, object]) -> None:
    if values.keys() != fields.keys():
        raise BadMessage(f"{what} with other fields")
    for name, claim in fields.items():
        if not claim(values[name]):
            raise BadMessage(f"{what} with another {name}")


def _count(value: object) -> bool:
    return type(value) is int and 0 <= value < _MOST_COUNT


def _code(value: object) -> bool:
    return value is None or (type(value) is int and abs(value) < _MOST_COUNT)


def _seconds(value: object) -> bool:
    # NaN is less than nothing
    return type(value) in (int, float) and abs(value) < 1e12  # type: ignore[arg-type]


def _flag(value: object) -> bool:
    return type(value) is bool


def _text(value: object) -> bool:
    # half a surrogate pair can be said in JSON, and not be written to a screen
    return (
        type(value) is str and len(value) <= _MOST_TEXT and not any("\ud800" <= c <= "\udfff" for c in value)
    )


def _reason(value: object) -> bool:
    try:
        return _text(value) or _texts(Reason.decode(value).encode())
    except ValueError:
        return False


def _texts(value: object) -> bool:
    """Whether all text in what ``Reason.encode`` has made is as a file and a screen take it."""
    if isinstance(value, dict):
        return all(_text(key) and _texts(one) for key, one in value.items())
    return (
        all(map(_texts, value))
        if isinstance(value, (list, tuple))
        else not isinstance(value, str) or _text(value)
    )


def _address(value: object) -> bool:
    try:
        socket.inet_pton(socket.AF_INET, value)  # type: ignore[arg-type]
    except (OSError, TypeError, ValueError):
        return False
    return True


def _addresses(value: object) -> bool:
    return isinstance(value, list) and all(map(_address, value))


def _beginning_or_end(value: object) -> bool:
    return value in [state.value for state in RankState if state is not RankState.PENDING]


def _collectives(value: object) -> bool:
    if not isinstance(value, dict) or not all(isinstance(one, dict) for one in value.values()):
        return False
    for one in value.values():
        _check_fields("stacks", _COLLECTIVE, one)
    return True


_COLLECTIVE: Mapping[str, _Claim] = {
    "name": _text,
    "number": _code,
    "over": _flag,
    "begun": _seconds,
    "last": _code,
}

_FIELDS: Mapping[str, Mapping[str, _Claim]] = {
    "join": {"node": _count, "nodes": _count, "ranks": _count, "address": _address, "instance": _text},
    "welcome": {},
    "refused": {"reason": _reason},
    "alive": {},
    "ready": {"attempt": _count},
    "start": {"attempt": _count, "hosts": _addresses},
    "rank": {"attempt": _count, "rank": _count, "state": _beginning_or_end, "code": _code},
    "failed": {"attempt": _count, "reason": _reason, "final": _flag},
    "stop": {"reason": _reason},
    "time is up": {"attempt": _count},
    "still": {"attempt": _count, "node": _count, "idle": _seconds, "still": _seconds, "waits": _flag},
    "where": {"attempt": _count},
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
