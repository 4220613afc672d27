"""The records of a file that grows, as messages."""

from __future__ import annotations

import logging
import os

from nbdist.board.records import split

_LARGEST_RECORD = 1 << 28  # bytes; a length beyond it was never written as one
log = logging.getLogger("nbdist.board")


class FrameReader:
    """Stands for ``RecordReader``: keeps its place in a file, and leaves a torn tail for later."""

    def __init__(self, filepath: str, dir: str | None = None) -> None:
        self.dir = dir
        self._path = filepath
        self._offset = 0
        self._size = 0  # of the file when it was last read

    def get_remain(self) -> list[bytes]:
        """The messages that have been completed since the last call."""
        try:
            with open(self._path, "rb") as file:
                size = os.fstat(file.fileno()).st_size
                if size == self._size:
                    return []
                self._size = size
                file.seek(self._offset)
                tail = file.read()
        except OSError:  # the run was deleted; what was read from it stays on the screen
            return []
        whole = list(split(tail))
        end = whole[-1][1] if whole else 0
        self._offset += end
        torn = tail[end : end + 8]
        if len(torn) == 8 and int.from_bytes(torn, "little") > _LARGEST_RECORD:
            log.warning(
                "%s is damaged at byte %d and is read no further",
                self._path,
                self._offset,
            )
            self._offset = 1 << 62
        return [message for message, _ in whole]
