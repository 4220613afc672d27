"""Which TCP connections of the ranks lead to other ranks of their run: what ends their waits for each other.

Both ends of a connection between ranks of this machine stand in /proc, each with its process. What leads to
the address of another machine of the run counts, too. All else stays: uploads, servers, DataLoader workers.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from nbdist.processes import PROC

_End = tuple[str, int]
"""An address as the kernel writes it, and a port."""

_MAPPED = "0000000000000000FFFF0000"
"""Before an address of IPv4 that a socket of IPv6 has."""


class _Connection(NamedTuple):
    local: _End
    remote: _End
    inode: int


def rank_sockets(
    pids: Mapping[int, int], port: int, hosts: Iterable[str], *, proc: str = str(PROC)
) -> dict[int, tuple[list[int], list[int]]]:
    """By rank the inodes of its sockets that lead to other ranks, and of those to the store at ``port``,
    which it may hold itself.

    ``pids`` are the ranks of this machine, ``hosts`` the addresses of all machines where there are several.
    """
    connections = list(_connections(proc))
    owners = {inode: rank for rank, pid in pids.items() for inode in _inodes(f"{proc}/{pid}/fd")}
    here = {one.local: owners.get(one.inode) for one in connections}
    addresses = {address for host in hosts for address in _addresses(host)}
    if addresses:
        # that of node 0 may have been given as a name
        addresses |= {one.remote[0] for one in connections if one.inode in owners and one.remote[1] == port}
    addresses -= {one.local[0] for one in connections}
    found: dict[int, tuple[list[int], list[int]]] = {rank: ([], []) for rank in pids}
    for one in connections:
        rank = owners.get(one.inode)
        # the store's end of its connections stays: others may use it to leave in order
        if rank is None or one.local[1] == port:
            continue
        other = here.get(one.remote)
        of_store = one.remote[1] == port
        if one.remote[0] in addresses or (other is not None and (other != rank or of_store)):
            found[rank][of_store].append(one.inode)
    return found


def _connections(proc: str) -> Iterator[_Connection]:
    for name in ("tcp", "tcp6"):
        with contextlib.suppress(OSError), open(f"{proc}/self/net/{name}") as file:
            next(file, None)
            for line in file:
                fields = line.split()
                if len(fields) > 9 and fields[9] != "0":
                    yield _Connection(_end(fields[1]), _end(fields[2]), int(fields[9]))


def _end(text: str) -> _End:
    address, _, port = text.partition(":")
    return address.removeprefix(_MAPPED), int(port, 16)


def _inodes(folder: str) -> Iterator[int]:
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            with contextlib.suppress(OSError):
                kind, _, inode = os.readlink(f"{folder}/{name}").partition(":[")
                if kind == "socket":
                    yield int(inode.rstrip("]"))


def _addresses(host: str) -> Iterator[str]:
    """An address as /proc/net/tcp has it: words of 32 bits in the order of this machine. For a name none,
    since to look it up may take long."""
    for family in (socket.AF_INET, socket.AF_INET6):
        with contextlib.suppress(OSError):
            packed = socket.inet_pton(family, host)
            words = (int.from_bytes(packed[at : at + 4], sys.byteorder) for at in range(0, len(packed), 4))
            yield "".join(f"{word:08X}" for word in words)
