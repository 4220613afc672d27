"""Ports for the daemons of a cluster of our own."""

from __future__ import annotations

import contextlib
import random
import socket

# those below are often somebody's, those above the system gives to whoever calls out
_FROM, _TO = 10_000, 20_000


def free_ports(count: int) -> list[int]:
    """So many, on which nobody listens. A daemon may take long to do so: until then the system must not give
    them to others, and what runs beside us draws others by lot."""
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
