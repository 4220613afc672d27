"""Process of one rank, the port where the ranks of an attempt meet, and their connections."""

from __future__ import annotations

import _socket
import contextlib
import json
import os
import signal
import socket
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from nbdist.errors import LaunchError
from nbdist.launch.binding import NOTIFY, start_process
from nbdist.model import RankSpec, Rendezvous, RunSpec
from nbdist.model.spec import ProcessId
from nbdist.processes import PROC, identify, send
from nbdist.store.paths import RunDirectory
from nbdist.worker.order import HOLDS, PARAMS, Order

if TYPE_CHECKING:
    from nbdist.control_groups import ControlGroup
    from nbdist.worker.order import Preload


WORKER = Path(__file__).parent.parent / "worker" / "__main__.py"


@dataclass(frozen=True, slots=True, kw_only=True)
class RankCommand:
    """The command, environment and order of a rank's process. ``python`` is the interpreter, with options."""

    run_id: str
    rank: int
    python: Sequence[str]
    cwd: str
    environment: Mapping[str, str]
    log: Path
    order: Order | Preload

    @property
    def arguments(self) -> list[str]:
        return [*self.python, "-u", str(WORKER), self.run_id, str(self.rank)]


@dataclass(slots=True)
class RankProcess:
    """A started rank. ``channel`` is the supervisor's end of its socket; the supervisor reaps it."""

    process: ProcessId
    channel: _socket.socket

    @property
    def told(self) -> bool:
        """True if it has its order."""
        return True

    def send(self, number: signal.Signals) -> None:
        send(self.process, number)

    def hear(self) -> bytes | None:
        """Receive its messages (``worker.order``); None when it has gone."""
        try:
            return self.channel.recv(64) or None
        except OSError:
            return None

    def ask(self, words: bytes) -> None:
        """Send it bytes. Raises OSError."""
        self.channel.send(words)


def start_rank(command: RankCommand, group: ControlGroup | None = None) -> RankProcess:
    """Start the process of a rank, in ``group`` if given, and send its order. Raises OSError."""
    pid, channel = start_process(
        command.arguments, environment=command.environment, cwd=command.cwd, log=str(command.log)
    )
    if group is not None:
        group.add(pid, command.rank)
    return tell_rank(command, pid, channel)


def tell_rank(command: RankCommand, pid: int, channel: _socket.socket) -> RankProcess:
    """Send the order to a started rank."""
    process = identify(pid) or ProcessId(pid=pid, start_time=0, boot_id="")
    with contextlib.suppress(OSError):  # the supervisor finds a dead rank by its exit
        channel.sendall(command.order.encode())
    channel.setblocking(False)
    return RankProcess(process, channel)


def rank_command(
    directory: RunDirectory,
    spec: RunSpec,
    rank: RankSpec,
    attempt: int,
    rendezvous: Rendezvous,
    inherited: Mapping[str, str] = os.environ,
) -> RankCommand:
    """Return the command of a rank's process, whose environment extends ``inherited``."""
    files = directory.rank(rank.rank, attempt)
    environment = dict(inherited)
    environment.pop(NOTIFY, None)
    # each machine of a run started by hand has its own run id
    run = spec.run_id if spec.nodes == 1 or spec.engine else spec.master
    environment |= {
        key: rendezvous.fill(value, run=run, restarts=attempt - 1, retries=spec.retries)
        for key, value in rank.environment.items()
    }
    environment |= {
        "NBDIST_RUN_ID": spec.run_id,
        "NBDIST_RUN_DIR": str(directory.path),
        "NBDIST_RANK_DIR": str(files.path),
        "NBDIST_RANK": str(rank.rank),
        "NBDIST_BACKEND": spec.backend,
        "NBDIST_CHECKPOINTS": spec.checkpoints,
        HOLDS: spec.holds,
    }
    if spec.sweep is not None:
        environment[PARAMS] = json.dumps(spec.sweep.params)
    return RankCommand(
        run_id=spec.run_id,
        rank=rank.rank,
        python=(spec.python, *spec.python_flags),
        cwd=spec.cwd,
        environment=environment,
        log=files.log,
        order=Order(
            program=spec.program,
            # as torchrun fills it in
            args=[word.replace(LOCAL_RANK, str(rank.local_rank)) for word in spec.args],
            python_path=list(spec.python_path),
            module=spec.module,
            error_file=str(files.error),
            inputs=str(directory.inputs) if spec.inputs else "",
            pull="" if rank.rank else ",".join(spec.pull),
        ),
    )


LOCAL_RANK = "${local_rank}"
"""Stands for the local rank in an argument of a program, as in one of torchrun's."""

LOOPBACK = "127.0.0.1"


class Reservation:
    """A port held for the ranks, which bind it themselves.

    The socket is bound without SO_REUSEADDR, so no other process has the port. Then the flag is set: while
    this socket does not listen, a rank that sets it too (torch's and paddle's stores do) may bind and listen.
    """

    def __init__(self, host: str = LOOPBACK, port: int = 0) -> None:
        """Bind ``port``, or any for 0. Raises LaunchError when it is taken, or none is free."""
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            if port:
                # connections of the last run at this port may be in TIME_WAIT
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
    def inherited(cls, descriptor: int | None, host: str, port: int) -> Reservation:
        """Return a reservation made by another process, or by another machine (None)."""
        reservation = cls.__new__(cls)
        reservation._socket = socket.socket(fileno=descriptor)
        reservation.rendezvous = Rendezvous(host=host, port=port)
        return reservation

    def fileno(self) -> int:
        return self._socket.fileno()

    def release(self) -> None:
        self._socket.close()


def port_was_taken(log: str, port: int) -> bool:
    """Return whether a rank wrote that another process had the port."""
    text = log.lower()
    return str(port) in text and ("eaddrinuse" in text or "address already in use" in text)


_End = tuple[str, int]
"""An address in the kernel's format, and a port."""

_MAPPED = "0000000000000000FFFF0000"
"""The prefix of an IPv4 address of an IPv6 socket."""


class _Connection(NamedTuple):
    local: _End
    remote: _End
    inode: int


def rank_sockets(
    pids: Mapping[int, int], port: int, hosts: Iterable[str], *, proc: str = str(PROC)
) -> dict[int, tuple[list[int], list[int]]]:
    """Find the sockets by which ranks wait for each other: return by rank the inodes of those to other ranks,
    and of those to the store at ``port``.

    These are connections between ``pids``, the ranks of this machine by rank, and to the machines ``hosts``;
    not uploads, servers or DataLoader workers.
    """
    connections = list(_connections(proc))
    owners = {inode: rank for rank, pid in pids.items() for inode in _inodes(f"{proc}/{pid}/fd")}
    here = {connection.local: owners.get(connection.inode) for connection in connections}
    addresses = {address for host in hosts for address in _addresses(host)}
    if addresses:
        # --master may name node 0 by a host name
        addresses |= {c.remote[0] for c in connections if c.inode in owners and c.remote[1] == port}
    addresses -= {connection.local[0] for connection in connections}
    inodes: dict[int, tuple[list[int], list[int]]] = {rank: ([], []) for rank in pids}
    for local, remote, inode in connections:
        rank, other = owners.get(inode), here.get(remote)
        # the store's end stays: other ranks may use it to leave in order
        if rank is None or local[1] == port:
            continue
        of_store = remote[1] == port
        if remote[0] in addresses or (other is not None and (other != rank or of_store)):
            inodes[rank][of_store].append(inode)
    return inodes


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
    """Yield an address as in /proc/net/tcp; none for a host name, whose look-up may take long."""
    for family in (socket.AF_INET, socket.AF_INET6):
        with contextlib.suppress(OSError):
            packed = socket.inet_pton(family, host)
            # the kernel prints words of 32 bits in the byte order of the machine
            words = (int.from_bytes(packed[at : at + 4], sys.byteorder) for at in range(0, len(packed), 4))
            yield "".join(f"{word:08X}" for word in words)
