"""Files of this user that may be damaged. The only place that opens a whole file of JSON."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from pathlib import Path
from typing import Any, BinaryIO

from nbdist.model.decoding import loads

LIMIT = 16 << 20
"""Bytes. A spec of 1,024 ranks has a hundredth of that."""


def open_plain(path: Path) -> BinaryIO:
    """A file of this user, to be read. Raises OSError, also where it is a link, a pipe, or another user's."""
    # a pipe would hold us
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    status = os.fstat(handle)
    if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
        os.close(handle)
        raise PermissionError(errno.EPERM, "it is no file of yours", str(path))
    return open(handle, "rb")


def read_whole(path: Path, limit: int) -> bytes:
    """The bytes of such a file. Raises OSError, also where there are more than ``limit``."""
    with open_plain(path) as file:
        if (size := os.fstat(file.fileno()).st_size) > limit:
            raise OSError(errno.EFBIG, f"it has more than {limit} bytes", str(path))
        return file.read(size)


def load_object(path: Path, *, exact: bool = False) -> dict[str, Any]:
    """The object in a file, ``exact`` as ``loads`` has it. Raises OSError or ValueError."""
    found = loads(read_whole(path, LIMIT), exact=exact)
    if not isinstance(found, dict):
        raise ValueError(f"{path} holds no object")
    return found


def read_object(path: Path) -> dict[str, Any]:
    """The object in a file; empty where there is none."""
    with contextlib.suppress(OSError, ValueError):
        return load_object(path)
    return {}
