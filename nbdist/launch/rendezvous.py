"""The port where the ranks of one attempt meet."""

from __future__ import annotations

import random
import socket
from pathlib import Path

from nbdist.errors import LaunchError
from nbdist.model import Rendezvous

LOOPBACK = "127.0.0.1"
_LOWEST = 15_000
_TRIES = 200


def choose_rendezvous(host: str = LOOPBACK, random_source: random.Random | None = None) -> Rendezvous:
    """A port of ``host`` that nobody listens on, outside the range that outgoing connections draw from.

    It is free when it is chosen, not reserved: the ranks bind it themselves. Two runs that start in
    the same moment are kept apart by chance (one in some 17,000). Raises LaunchError when none is free.
    """
    source = random_source or random.Random()
    highest = _ephemeral_start() - 1
    for _ in range(_TRIES):
        port = source.randint(_LOWEST, highest)
        if _is_free(host, port):
            return Rendezvous(host=host, port=port)
    raise LaunchError(f"no free port between {_LOWEST} and {highest} on {host}")


def _is_free(host: str, port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # as torch and paddle bind theirs; without it a port in TIME_WAIT would look taken
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
        return True


def _ephemeral_start() -> int:
    """The first port that the system gives to outgoing connections (ip(7); 32768 where unknown)."""
    try:
        start = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        start = 32_768
    return start if start > _LOWEST + 1000 else 32_768
