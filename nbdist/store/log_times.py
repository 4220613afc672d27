"""When a rank's log reached which length: the index that the supervisor keeps beside the log.

The file is a row of records, 16 bytes each and nothing else: a little-endian double, the Unix time of
the last write, and a little-endian uint64, the bytes that the log held then. Sizes only grow. What is
left over behind the last whole record is one that is being written.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left
from pathlib import Path

from nbdist.store.log_stream import LogStream

RECORD = struct.Struct("<dQ")
_LATEST = 1e15


class LogTimes:
    """Answers from memory what it has read, and reads on where that does not reach.

    The index of a run that an older version made, or a full disk refused, is a file that is not there:
    nothing is known then.
    """

    def __init__(self, path: Path) -> None:
        self._file = LogStream(path)
        self._times = array("d")
        self._sizes = array("Q")

    def at(self, offset: int) -> float | None:
        """The Unix time by which the log held ``offset`` bytes; None when that is not known (yet)."""
        if not self._reaches(offset):
            self._read_on()
            if not self._reaches(offset):
                return None
        return self._times[bisect_left(self._sizes, offset)]

    def _reaches(self, offset: int) -> bool:
        return bool(self._sizes) and self._sizes[-1] >= offset

    def _read_on(self) -> None:
        while data := self._file.read():
            torn = len(data) % RECORD.size
            self._file.offset -= torn
            for time, size in RECORD.iter_unpack(data[: len(data) - torn]):
                # the search below relies on it, whichever program wrote the file; and no time is NaN
                if (not self._sizes or size > self._sizes[-1]) and 0.0 <= time < _LATEST:
                    self._times.append(time)
                    self._sizes.append(size)
            if torn:
                return
