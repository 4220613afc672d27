"""What ranks showed besides text (``worker.display``), read back: records, and the files that they name."""

from __future__ import annotations

import re
from dataclasses import dataclass

from nbdist.model import Run
from nbdist.model.decoding import MALFORMED, as_int, as_time, loads
from nbdist.store.journal import read_whole
from nbdist.store.logs import LogStream
from nbdist.store.paths import RunDirectory

FILE = re.compile(r"[0-9a-f]{32}\.(?:png|jpg|svg|html)")
_LINE = re.compile(rb"\x1b\]nbdist;([0-9a-f]{32}\.(?:png|jpg|svg|html));\d+;\d+\x07")
MIMES = {"png": "image/png", "jpg": "image/jpeg", "svg": "image/svg+xml", "html": "text/html"}
"""By how the names of the files end."""

_LARGEST = 8 << 20
_RECORDS = 16 << 20  # bytes of records that are read of a rank


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """One output. ``time`` in Unix seconds; ``at`` is the byte of the log at which its line begins, ``id``
    what the program calls it, empty for nothing; ``text`` stands for it."""

    rank: int
    time: float
    at: int
    file: str
    mime: str
    id: str
    text: str


def read_outputs(directory: RunDirectory, run: Run) -> list[Output]:
    """What the ranks showed in the last attempt, in the order of time; of what was shown anew under an id the
    last."""
    found: dict[tuple[int, str], Output] = {}
    for rank in run.ranks:
        path = directory.rank(rank.rank, run.attempt).display
        for number, line in enumerate(LogStream(path).read(_RECORDS).splitlines()):
            if (output := _output(rank.rank, line)) is not None:
                key = f"id {output.id}" if output.id else str(number)
                found[rank.rank, key] = output
    return sorted(found.values(), key=lambda output: (output.time, output.rank))


def _output(rank: int, line: bytes) -> Output | None:
    """None for what is no record."""
    try:
        said = loads(line)
        output = Output(
            rank=rank,
            time=as_time(said["t"]),
            at=as_int(said["at"]),
            file=str(said["file"]),
            mime=str(said["mime"]),
            id=str(said.get("id", "")),
            text=str(said.get("text", "")),
        )
    except MALFORMED:
        return None
    return output if FILE.fullmatch(output.file) else None


def read_media(directory: RunDirectory, rank: int, file: str, attempts: int) -> bytes:
    """A file that a rank showed, in the latest attempt that has it; empty where none has, or it is no name of
    such a file."""
    if not FILE.fullmatch(file):
        return b""
    for attempt in range(attempts, 0, -1):
        try:
            return read_whole(directory.rank(rank, attempt).media / file, _LARGEST)
        except OSError:
            continue
    return b""


def named_in(text: bytes) -> list[str]:
    """The files that the lines of a log name."""
    # most lines name none, and are not read for it
    return [name.decode() for name in _LINE.findall(text)] if b"\x1b]nbdist;" in text else []
