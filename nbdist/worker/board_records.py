"""The records of VisualDL that one process writes under the run's ``board/``, a directory for each kind.

VisualDL shows one file of a directory, and one kind of a tag. A record is one append of a whole frame to
a file that is opened for it: nothing is buffered, no lock is held and no thread runs, so that none is
lost with a killed rank and a forked child can go on.
"""

from __future__ import annotations

import errno
import os
import time

from nbdist.worker import records

_OWN_NAMES = 10_000
_directories: dict[tuple[int, str], str] = {}


def board() -> str:
    """Where VisualDL looks for the records of this run; empty outside a run."""
    run = os.environ.get("NBDIST_RUN_DIR")
    return os.path.join(run, "board") if run and "NBDIST_RANK" in os.environ else ""


def append_record(kind: str, frame: bytes) -> None:
    """Append a whole frame to the records of a kind. Raises OSError."""
    directory = _own_directory(kind)
    path = os.path.join(directory, records.FILE_NAME)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        size = os.fstat(handle).st_size
        if not size:
            name = os.path.basename(directory)
            frame = records.encode_name(name, milliseconds=round(time.time() * 1000)) + frame
        if os.write(handle, frame) < len(frame):
            # half a frame would make what follows unreadable
            os.ftruncate(handle, size)
            raise OSError(errno.ENOSPC, "no space left")
    finally:
        os.close(handle)


def _own_directory(kind: str) -> str:
    """The directory under the run's board where this process alone writes its records of a kind.

    Made when it is first asked for. Raises OSError when the run is gone, or the disk is full.
    """
    process = os.getpid()
    if (process, kind) not in _directories:
        name = _rank_name()
        for number in range(1, _OWN_NAMES):
            directory = os.path.join(board(), f"{name}.{kind}" + (f"-{number}" if number > 1 else ""))
            try:
                # whoever makes it has it: a forked child, a spawned one, another rank that thinks it is this
                os.mkdir(directory, mode=0o700)
            except FileExistsError:
                continue
            _directories[process, kind] = directory
            break
    return _directories[process, kind]


def _rank_name() -> str:
    """``rank0``, and in a later attempt ``rank0.attempt-2``, as the board calls this rank's scalars."""
    attempt = os.path.basename(os.environ.get("NBDIST_RANK_DIR", ""))
    suffix = f".{attempt}" if attempt.startswith("attempt-") else ""
    return f"rank{os.environ['NBDIST_RANK']}{suffix}"
