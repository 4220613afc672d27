"""What ranks showed besides numbers (``nbdist.log_image`` and the like), read from the run's records."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from nbdist.board.decoding import Shown, shown_values
from nbdist.model import Run
from nbdist.model.decoding import MALFORMED, loads
from nbdist.privacy import MASK, is_secret_name
from nbdist.store import LogStream, RunDirectory

_FILE_ROOM = 256 << 20  # bytes of a record file
_EACH = 12  # of one tag: some from all along, the first and the last among them
_ATTEMPT = re.compile(r"\.attempt-(\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Gallery:
    """Everything of one kind under one tag of one writer, in the order of its steps; ``count`` is how many
    there were."""

    kind: str
    tag: str
    writer: str
    items: tuple[Shown, ...]
    count: int


@dataclass(slots=True)
class _Found:
    """Every n-th item and the last."""

    items: list[tuple[int, Shown]] = field(default_factory=list)
    count: int = 0
    stride: int = 1

    def add(self, item: Shown) -> None:
        if self.items and self.items[-1][0] % self.stride:
            self.items.pop()
        self.items.append((self.count, item))
        self.count += 1
        if len(self.items) > 2 * _EACH:
            self.stride *= 2
            last = self.items[-1]
            self.items = [one for one in self.items if one is last or one[0] % self.stride == 0]

    def thinned(self) -> tuple[Shown, ...]:
        step = max(1.0, (len(self.items) - 1) / (_EACH - 1))
        places = sorted({round(number * step) for number in range(min(_EACH, len(self.items)))})
        return tuple(self.items[place][1] for place in places)


def galleries(run: Run, directory: RunDirectory) -> list[Gallery]:
    """What the ranks showed in the last attempt, rank 0 first."""
    found: dict[tuple[str, str, str], _Found] = {}
    for path in _record_files(directory.board):
        writer = os.path.relpath(path.parent, directory.board)
        match = _ATTEMPT.search(writer)
        if (int(match[1]) if match else 1) != run.attempt:
            continue
        for shown in _values(path):
            key = shown.kind, shown.tag, writer.partition(".")[0]
            found.setdefault(key, _Found()).add(shown)
    return [
        Gallery(kind=kind, tag=tag, writer=writer, items=one.thinned(), count=one.count)
        for (kind, tag, writer), one in found.items()
    ]


def too_large(directory: RunDirectory) -> int:
    """How many files of records are too large to be read for a report."""
    return sum(_size(path) > _FILE_ROOM for path in _record_files(directory.board))


def read_hparams(run: Run, directory: RunDirectory) -> dict[str, str]:
    """The hyperparameters that the lowest rank recorded last."""
    for rank in run.ranks:
        stream = LogStream(directory.rank(rank.rank, run.attempt).metrics)
        settings: dict[str, str] = {}
        rest = b""
        while data := stream.read():
            lines = (rest + data).split(b"\n")
            rest = lines.pop()
            for line in lines:
                if b'"hparams"' in line:
                    settings |= _settings(line)
        if settings:
            return settings
    return {}


def _settings(line: bytes) -> dict[str, str]:
    try:
        said = loads(line)["hparams"]
    except MALFORMED:
        return {}
    if not isinstance(said, Mapping):
        return {}
    return {str(name): MASK if is_secret_name(str(name)) else str(value) for name, value in said.items()}


def _record_files(board: Path) -> list[Path]:
    files = [path for path in board.rglob("*vdlrecords*") if path.is_file()]
    return sorted(
        files, key=lambda path: [int(p) if p.isdigit() else -1 for p in re.split(r"(\d+)", str(path))]
    )


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _values(path: Path) -> Iterator[Shown]:
    if _size(path) > _FILE_ROOM:
        return
    try:
        content = path.read_bytes()
    except OSError:
        return
    yield from shown_values(content)
