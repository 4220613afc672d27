"""The reason of an event: a code and its fields, no sentence. ``nbdist.text`` has the words for each code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Union

Value = Union[str, int, float, tuple[Any, ...], "Reason"]

_OF_RANKS = frozenset(
    {"rank-failed", "rank-failed-on-node", "rank-not-started", "rank-stuck", "ranks-failed", "said-of-ranks"}
)
_DEEPEST = 4  # reasons behind each other


@dataclass(frozen=True, slots=True, init=False)
class Reason:
    """A ``code``, empty for none, and ``fields``: text, numbers, tuples, or under ``why`` its own reason."""

    code: str
    fields: Mapping[str, Value]

    def __init__(self, code: str = "", /, **fields: Value) -> None:
        object.__setattr__(self, "code", code)
        object.__setattr__(self, "fields", fields)

    @classmethod
    def said(cls, text: str) -> Reason:
        """Return a reason in the words of a person, a program or the system."""
        return cls("said", text=text) if text else cls()

    def __bool__(self) -> bool:
        return bool(self.code)

    @property
    def origin(self) -> Reason:
        """Return the last reason behind it, or itself."""
        why = self.fields.get("why")
        return why.origin if isinstance(why, Reason) else self

    @property
    def of_ranks(self) -> bool:
        """Return whether a rank failed, and nothing else ended the run."""
        return self.origin.code in _OF_RANKS

    def extends(self, other: Reason) -> bool:
        """Return whether it has all that ``other`` has."""
        return self.code == other.code and self.fields.items() >= other.fields.items()

    def encode(self) -> dict[str, Any] | str:
        """Return ``{"code": …}`` with the fields beside it, or an empty text for none."""
        return {"code": self.code} | {k: _encoded(v) for k, v in self.fields.items()} if self.code else ""

    @classmethod
    def decode(cls, data: object, *, depth: int = 0) -> Reason:
        """Decode the result of ``encode``; a text is that of a person or a program. Raises ValueError."""
        if isinstance(data, str):
            return cls.said(data)
        if not isinstance(data, dict) or not isinstance(data.get("code"), str) or depth > _DEEPEST:
            raise ValueError(f"no reason: {data!r:.40}")
        return cls(data["code"], **{k: _decoded(v, depth) for k, v in data.items() if k != "code"})

    @classmethod
    def recorded(cls, data: object) -> Reason:
        """Decode a reason of a journal. Before reasons had codes it was a sentence: only those that more
        depends on than a message get their code."""
        if not isinstance(data, str):
            return cls.decode(data)
        words = data.split()
        if data.startswith("the time limit of ") and words[-2:] == ["was", "reached"]:
            try:
                return cls("time-limit", seconds=float(words[4]))
            except ValueError:
                pass
        return cls("said-of-ranks", text=data) if "rank" in data else cls.said(data)


NO_REASON = Reason()

AT_LIMIT = "at-limit"
"""The code of the reason of a run that ends at the limit of ``--until``, which is no failure."""


def _encoded(value: Value) -> Any:
    return value.encode() if isinstance(value, Reason) else value


def _decoded(value: object, depth: int) -> Value:
    if isinstance(value, dict):
        return Reason.decode(value, depth=depth + 1)
    if isinstance(value, list) and all(isinstance(item, (str, int, float)) for item in value):
        return tuple(value)
    if isinstance(value, (str, int, float)):
        return value
    raise ValueError(f"no field of a reason: {value!r:.40}")
