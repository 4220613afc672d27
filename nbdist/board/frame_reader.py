"""The records of a file that grows, as messages."""

from __future__ import annotations

import logging
import os

from nbdist.board.records import split

_LARGEST_RECORD = 1 << 28  # bytes; a length beyond it was never written as one
log = logging.getLogger("nbdist.board")


class FrameReader:
    """Stands for ``RecordReader``: keeps its place in a file, and leaves a torn tail for later. It reads so
    many bytes at once (``room``) and one message at least; ``behind`` says whether there are more."""

    def __init__(self, filepath: str, dir: str | None = None, room: int | None = None) -> None:
        self.dir = dir
        self.behind = False
        self._path = filepath
        self._room = -1 if room is None else room
        self._offset = 0
        self._size = 0  # of the file when it was last read

    def get_remain(self) -> list[bytes]:
        """The messages that have been completed since the last call, as far as there is room for them."""
        try:
            with open(self._path, "rb") as file:
                size = os.fstat(file.fileno()).st_size
                if size == self._size and not self.behind:
                    return []
                self._size = size
                file.seek(self._offset)
                tail = file.read(self._room)
                if len(tail) == self._room and 8 + (length := _length(tail)) > self._room:
                    tail += file.read(8 + length - self._room if length <= _LARGEST_RECORD else 0)
        except OSError:  # the run was deleted; what was read from it stays on the screen
            self.behind = False
            return []
        self.behind = self._offset + len(tail) < size
        whole = list(split(tail))
        end = whole[-1][1] if whole else 0
        self._offset += end
        torn = tail[end : end + 8]
        if len(torn) == 8 and _length(torn) > _LARGEST_RECORD:
            log.warning(
                "%s is damaged at byte %d and is read no further",
                self._path,
                self._offset,
            )
            self._offset, self.behind = 1 << 62, False
        return [message for message, _ in whole]


def _length(frame: bytes) -> int:
    """Bytes of the message that a frame holds."""
    return int.from_bytes(frame[:8], "little")
