"""The port where the ranks of one attempt meet, reserved until the attempt is over."""

from __future__ import annotations

import socket

from nbdist.errors import LaunchError
from nbdist.model import Rendezvous

LOOPBACK = "127.0.0.1"


class Reservation:
    """Holds a port for the ranks, which bind it themselves.

    The socket is bound without SO_REUSEADDR, so no other process has the port; then the flag is set, and as
    long as the socket does not listen, a rank that sets it too (torch's and paddle's stores do) may
    bind and listen. Everybody else is refused, and no outgoing connection is given the port.
    """

    def __init__(self, host: str = LOOPBACK, port: int = 0) -> None:
        """``port`` is 0 for any. Raises LaunchError when it, or every one, is taken."""
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            if port:
                # the end of the last run that met here may still be remembered (TIME_WAIT)
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._socket.bind((host, port))
        except OSError as error:
            self._socket.close()
            if port:
                raise LaunchError(
                    f"--master {host}:{port}: {error.strerror}: give another port, the same on every node"
                ) from error
            raise LaunchError(f"no free port on {host}: {error}") from error
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.rendezvous = Rendezvous(host=host, port=self._socket.getsockname()[1])

    @classmethod
    def inherited(cls, descriptor: int, host: str, port: int) -> Reservation:
        """One that another process has made, and gave to this one."""
        reservation = cls.__new__(cls)
        reservation._socket = socket.socket(fileno=descriptor)
        reservation.rendezvous = Rendezvous(host=host, port=port)
        return reservation

    def fileno(self) -> int:
        return self._socket.fileno()

    def release(self) -> None:
        self._socket.close()


def port_was_taken(log: str, port: int) -> bool:
    """Whether what a rank wrote says that another process had the port."""
    text = log.lower()
    taken = "eaddrinuse" in text or "address already in use" in text
    return taken and str(port) in text
