"""Start of the supervisor, a process outside the kernel's session, with the launch plan for ``prestart``."""

from __future__ import annotations

import contextlib
import marshal
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nbdist import processes
from nbdist.errors import LaunchError
from nbdist.launch.rank_process import Reservation, rank_command
from nbdist.model import (
    AttemptStarted,
    Event,
    RankStarted,
    Rendezvous,
    RunSpec,
    SupervisorStarted,
    encode_event,
)
from nbdist.store.paths import RunDirectory, open_to_append
from nbdist.store.recovery import note_end
from nbdist.store.run_store import take_run_lock

ENTRY = Path(__file__).parent.parent / "entry.py"
# the process needs only the standard library, and starts sooner without site-packages
_FLAGS = ("-I", "-S") if sys.platform == "linux" else ("-I",)


@dataclass(frozen=True, slots=True)
class SupervisorProcess:
    """A started supervisor. ``lifeline`` closes with this process, and ends a foreground run without
    pidfds."""

    process: subprocess.Popen[bytes]
    lifeline: socket.socket | None


def start(directory: RunDirectory, spec: RunSpec, environment: Mapping[str, str]) -> None:
    """Start the supervisor of a run, its ranks first if possible. Raises LaunchError."""
    with contextlib.ExitStack() as opened:
        ahead = hand_over(opened, directory, spec, environment)
        submit(directory, environment, spec.python, detached=spec.detached, ahead=ahead)


def submit(
    directory: RunDirectory,
    environment: Mapping[str, str],
    python: str,
    *,
    detached: bool,
    ahead: Sequence[int] = (),
    module: str = "launch.supervisor",
) -> SupervisorProcess:
    """Start the supervisor of a run with the environment of its ranks: by the descriptors of ``hand_over``
    (``ahead``) if there are any, or else by ``module``. Raises LaunchError."""
    words = ["launch.prestart", str(ahead[0])] if ahead else [module]
    with line_to_child() as (ours, theirs), open(open_to_append(directory.supervisor_log), "ab") as log:
        descriptors = [] if detached else [theirs.fileno()]
        process = spawn(
            command(python, *words, str(directory.path), *map(str, descriptors)),
            environment=environment,
            output=log.fileno(),
            descriptors=(*descriptors, *ahead),
        )
    if detached:
        ours.close()
    supervisor = SupervisorProcess(process, None if detached else ours)
    look_after(supervisor, directory)
    return supervisor


@contextlib.contextmanager
def line_to_child() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Yield both ends of a socket: ours, which stays open, and the one for a child started in the block."""
    ours, theirs = socket.socketpair()
    with theirs:
        try:
            yield ours, theirs
        except BaseException:
            ours.close()
            raise


def command(python: str, module: str, *words: str) -> list[str]:
    """Return the command of a module of nbdist that needs only the standard library (``nbdist.entry``)."""
    return [python, *_FLAGS, str(ENTRY), module, *words]


def spawn(
    command: Sequence[str],
    *,
    environment: Mapping[str, str] = os.environ,
    output: int = subprocess.DEVNULL,
    descriptors: Sequence[int] = (),
) -> subprocess.Popen[bytes]:
    """Start a process that outlives this one, in a session of its own. Raises LaunchError."""
    # until the process has its session, an interrupt of this one's group would kill it; it unblocks it itself
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT,))
    try:
        return subprocess.Popen(
            command,
            env=dict(environment),
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            pass_fds=descriptors,
        )
    except OSError as error:
        raise LaunchError(f"the supervisor could not be started with {command[0]}: {error}") from error
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def look_after(supervisor: SupervisorProcess, directory: RunDirectory) -> None:
    """Wait in a thread for the end of a supervisor, keep its line open until then, and record a bad end."""

    def ended(code: int) -> None:
        if supervisor.lifeline is not None:
            supervisor.lifeline.close()
        # with 0 it has recorded the run's end
        if code:
            note_end(directory, supervisor.process.pid, code)

    collect(supervisor.process, ended)


def collect(process: subprocess.Popen[bytes], then: Callable[[int], None] = lambda _: None) -> None:
    """Reap a process in a thread; call ``then`` with its exit code."""
    name = f"nbdist waits for {process.pid}"
    threading.Thread(target=lambda: then(process.wait()), name=name, daemon=True).start()


def hand_over(
    opened: contextlib.ExitStack, directory: RunDirectory, spec: RunSpec, environment: Mapping[str, str]
) -> tuple[int, ...]:
    """Write the launch plan of a run, reserve its port, and take its lock; return their descriptors, which
    ``opened`` closes, or none if the supervisor has to learn more before its ranks start."""
    if sys.platform != "linux" or spec.nodes > 1 or spec.engine or spec.memory:
        return ()
    try:
        with contextlib.ExitStack() as held:
            reservation = Reservation()
            held.callback(reservation.release)
            lock = take_run_lock(directory)
            held.callback(os.close, lock)
            plan = os.memfd_create("nbdist-ahead", os.MFD_CLOEXEC)
            held.callback(os.close, plan)
            inherited = (reservation.fileno(), lock)
            text = _launch_plan(directory, spec, environment, reservation.rendezvous, inherited)
            os.write(plan, marshal.dumps(text))
            os.lseek(plan, 0, os.SEEK_SET)
            opened.push(held.pop_all())
            return (plan, *inherited)
    except (LaunchError, OSError):
        return ()  # the supervisor meets the same error, and records it


def _launch_plan(
    directory: RunDirectory,
    spec: RunSpec,
    environment: Mapping[str, str],
    point: Rendezvous,
    inherited: tuple[int, int],
) -> dict[str, Any]:
    boot, host = processes.boot_id(), os.uname().nodename
    ranks = []
    for rank in spec.here:
        command = rank_command(directory, spec, rank, 1, point, environment)
        begin = RankStarted(time=0.0, rank=rank.rank, pid=0, start_time=0, boot_id=boot)
        ranks.append(
            {
                "place": str(command.log.parent),
                "arguments": command.arguments,
                "environment": dict(command.environment.items() - environment.items()),
                "cwd": command.cwd,
                "log": str(command.log),
                "order": command.order.encode(),
                "begin": line(begin),
            }
        )
    supervisor = SupervisorStarted(time=0.0, pid=0, start_time=0, boot_id=boot, host=host)
    attempt = AttemptStarted(time=0.0, attempt=1, host=point.host, port=point.port)
    return {
        # the file may be deleted meanwhile
        "spec": directory.spec.read_text(encoding="utf-8"),
        "ranks": ranks,
        "held": inherited,
        "port": (inherited[0], point.host, point.port),
        "begin": (line(supervisor), line(attempt)),
        "journal": str(directory.journal),
    }


def line(event: Event) -> str:
    """Return a journal line whose zeros the new process fills in: time, pid, start time."""
    return encode_event(event) + "\n"
