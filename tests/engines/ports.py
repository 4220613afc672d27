"""Ports for the daemons of a cluster of our own."""

from __future__ import annotations

import contextlib
import random
import socket

# lower ports are often in use, and the system assigns higher ones to outgoing connections
_FROM, _TO = 10_000, 20_000


def free_ports(count: int) -> list[int]:
    """Return free ports. A daemon may bind late: the system must not assign them until then, and a parallel
    test draws others at random."""
    held: dict[int, socket.socket] = {}
    with contextlib.ExitStack() as stack:
        while len(held) < count:
            port = random.randrange(_FROM, _TO)
            if port not in held:
                each = stack.enter_context(socket.socket())
                with contextlib.suppress(OSError):
                    each.bind(("", port))
                    held[port] = each
    return list(held)
