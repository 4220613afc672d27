"""Line between a kernel and its standby: a socket that carries JSON, one message a line."""

from __future__ import annotations

import contextlib
import json
import socket
from typing import Any

from nbdist.model.decoding import loads


class Line:
    """One end of the socket."""

    def __init__(self, end: socket.socket) -> None:
        self._socket = end
        self._rest = b""

    def fileno(self) -> int:
        return self._socket.fileno()

    def send(self, **message: object) -> bool:
        """Send a message; return whether the other end is still open."""
        try:
            self._socket.sendall(json.dumps(message).encode() + b"\n")
        except OSError:
            return False
        return True

    def receive(self) -> list[dict[str, Any]] | None:
        """Block for data, and return the complete messages; None at the end. Raises ValueError."""
        try:
            piece = self._socket.recv(1 << 20)
        except OSError:
            piece = b""
        if not piece:
            return None
        *lines, self._rest = (self._rest + piece).split(b"\n")
        return [loads(line, exact=True) for line in lines]

    def refuse(self) -> None:
        """Shut the socket down; data that has arrived can still be received."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._socket.close()
