"""Lines that are kept as the bytes they came in, and split only when somebody asks for them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import overload

from nbdist.store import moves_up

_WIDTH = 16_384
"""Characters of a line, as LogLines cuts them."""


class PlainLines(Sequence[str]):
    """ASCII lines with newlines between them: one at least, and none that moves the cursor."""

    def __init__(self, text: bytes) -> None:
        self.text = text
        self._count = text.count(b"\n") + 1

    @classmethod
    def of(cls, data: bytes) -> PlainLines | None:
        """The lines of ``data``, whole ones all; None where reading them takes more care."""
        if not data.endswith(b"\n") or not data.isascii() or b"\r" in data or moves_up(data):
            return None
        start = 0
        while start < len(data):
            end = data.rfind(b"\n", start, start + _WIDTH + 1)
            if end < 0:
                return None  # a line that is cut into several
            start = end + 1
        return cls(data[:-1])

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, at: int) -> str: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[str]: ...
    def __getitem__(self, at: int | slice) -> str | Sequence[str]:
        if isinstance(at, slice) and at.stop is None and at.step is None and (at.start or 0) < 0:
            # the last few, without the others
            return [line.decode() for line in self.text.rsplit(b"\n", -at.start)[at.start :]]
        return self._lines[at]

    @cached_property
    def _lines(self) -> list[str]:
        return self.text.decode().split("\n")
