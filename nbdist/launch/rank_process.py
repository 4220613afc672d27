"""The process of one rank: what it is made from, what is known of it once it has been started, and the port
where the ranks of an attempt meet, reserved until the attempt is over."""

from __future__ import annotations

import _socket
import contextlib
import json
import os
import signal
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from nbdist.errors import LaunchError
from nbdist.launch.binding import start_process
from nbdist.model import RankSpec, Rendezvous, RunSpec
from nbdist.model.spec import ProcessId
from nbdist.processes import identify, send
from nbdist.store.paths import RunDirectory
from nbdist.worker.order import PARAMS, Order

if TYPE_CHECKING:
    from nbdist.control_groups import ControlGroup
    from nbdist.worker.order import Preload


WORKER = Path(__file__).parent.parent / "worker" / "__main__.py"


@dataclass(frozen=True, slots=True, kw_only=True)
class RankCommand:
    """Everything the process of a rank is made from."""

    run_id: str
    rank: int
    python: str
    cwd: str
    environment: Mapping[str, str]
    log: Path
    order: Order | Preload

    @property
    def arguments(self) -> list[str]:
        return [self.python, "-u", str(WORKER), self.run_id, str(self.rank)]


@dataclass(slots=True)
class RankProcess:
    """A started rank. ``channel`` is the supervisor's end of its socket; the supervisor reaps it."""

    process: ProcessId
    channel: _socket.socket

    @property
    def told(self) -> bool:
        """Whether it knows what to run."""
        return True

    def send(self, number: signal.Signals) -> None:
        send(self.process, number)

    def hear(self) -> bytes | None:
        """The words that it has said (``worker.order``), which may be none; None when it has gone."""
        try:
            return self.channel.recv(64) or None
        except OSError:
            return None

    def ask(self, words: bytes) -> None:
        """Ask it for what the words stand for. Raises OSError."""
        self.channel.send(words)


def start_rank(command: RankCommand, group: ControlGroup | None = None) -> RankProcess:
    """Start the process of a rank, in ``group`` where there is one, and tell it what to run. Raises OSError
    when it cannot be made."""
    pid, channel = start_process(
        command.arguments,
        environment=command.environment,
        cwd=command.cwd,
        log=str(command.log),
    )
    if group is not None:
        group.add(pid, command.rank)
    return tell_rank(command, pid, channel)


def tell_rank(command: RankCommand, pid: int, channel: _socket.socket) -> RankProcess:
    """Tell a rank what to run that has been started, and waits for it."""
    process = identify(pid) or ProcessId(pid=pid, start_time=0, boot_id="")
    with contextlib.suppress(OSError):
        # a rank that died before it was told is found by its exit
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
    """What the process of a rank is made from, with the environment of this process."""
    files = directory.rank(rank.rank, attempt)
    environment = dict(inherited)
    # of a run on several machines by hand each has an id of its own
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
    }
    if spec.sweep is not None:
        environment[PARAMS] = json.dumps(spec.sweep.params)
    return RankCommand(
        run_id=spec.run_id,
        rank=rank.rank,
        python=spec.python,
        cwd=spec.cwd,
        environment=environment,
        log=files.log,
        order=Order(
            program=spec.program,
            args=list(spec.args),
            python_path=list(spec.python_path),
            module=spec.module,
            error_file=str(files.error),
            inputs=str(directory.inputs) if spec.inputs else "",
        ),
    )


LOOPBACK = "127.0.0.1"


class Reservation:
    """Holds a port for the ranks, which bind it themselves.

    The socket is bound without SO_REUSEADDR, so no other process has the port; then the flag is set, and as
    long as the socket does not listen, a rank that sets it too (torch's and paddle's stores do) may
    bind and listen. Any other process is refused, and no outgoing connection is given the port.
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
