"""Unix sockets for this user alone: a session receives its cells at one, a held rank its debuggers' commands.

A process that reaches such a socket runs code as its user: it has the mode 0600 in a directory of 0700, and
each end checks the user of the other."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
from collections.abc import Iterator

_LONGEST_ADDRESS = 100  # bytes of a socket's path that fit into its address (unix(7): 108, on macOS 104)
_CREDENTIALS = struct.Struct("3i")  # pid, uid, gid (unix(7), SO_PEERCRED)


def listen_at(path: str | os.PathLike[str]) -> socket.socket:
    """Listen at ``path``. Raises OSError."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with _short(os.fspath(path)) as name:
            listener.bind(name)
            os.chmod(name, 0o600)
        listener.listen()
    except OSError:
        listener.close()
        raise
    return listener


def connect_to(path: str | os.PathLike[str]) -> socket.socket:
    """Connect to the process that listens at ``path``. Raises OSError."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with _short(os.fspath(path)) as name:
            connection.connect(name)
        if not is_own(connection):
            raise PermissionError(f"another user listens at {path}")
    except OSError:
        connection.close()
        raise
    return connection


def is_own(connection: socket.socket) -> bool:
    """Return whether the process at the other end is this user's. macOS admits no other one."""
    if not hasattr(socket, "SO_PEERCRED"):
        return True
    peer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return bool(_CREDENTIALS.unpack(peer)[1] == os.geteuid())


@contextlib.contextmanager
def _short(path: str) -> Iterator[str]:
    """Yield a path of the socket that fits into an address."""
    if len(os.fsencode(path)) <= _LONGEST_ADDRESS:
        yield path
        return
    place, name = os.path.split(path)
    folder = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{name}"
    finally:
        os.close(folder)
