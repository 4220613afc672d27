"""This machine: the supervisor is a process of its own, outside the kernel and its session.

Where it can be, the launch plan is handed to it, so that its ranks start before it has imported what it is
(``prestart``)."""

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

from nbdist import processes
from nbdist.errors import LaunchError
from nbdist.launch.rank_process import Reservation, rank_command
from nbdist.model import AttemptStarted, Event, RankStarted, RunSpec, SupervisorStarted, encode_event
from nbdist.store.paths import RunDirectory, open_to_append
from nbdist.store.recovery import note_end
from nbdist.store.run_store import take_run_lock

ENTRY = Path(__file__).parent.parent / "entry.py"
# nothing but the standard library is needed, and without site-packages it starts sooner
_FLAGS = ("-I", "-S") if sys.platform == "linux" else ("-I",)


@dataclass(frozen=True, slots=True)
class SupervisorProcess:
    """A started supervisor. ``lifeline`` closes when this process ends, however it ends; where the
    supervisor has no better way to see that, it is how a foreground run ends with its kernel."""

    process: subprocess.Popen[bytes]
    lifeline: socket.socket | None


def start(directory: RunDirectory, spec: RunSpec, environment: Mapping[str, str]) -> None:
    """Start the supervisor of a run, its ranks first where that is possible. Raises LaunchError."""
    handover = hand_over(directory, spec, environment)
    try:
        submit(
            directory,
            environment,
            spec.python,
            detached=spec.detached,
            ahead=() if handover is None else handover.descriptors,
        )
    finally:
        if handover is not None:
            handover.close()


def submit(
    directory: RunDirectory,
    environment: Mapping[str, str],
    python: str,
    *,
    detached: bool,
    ahead: Sequence[int] = (),
    module: str = "launch.supervisor",
) -> SupervisorProcess:
    """Start the supervisor of a run with what its ranks are to inherit. Raises LaunchError.

    ``ahead`` are the descriptors of a ``Handover``; ``module`` is what the process executes without.
    """
    said = ["launch.prestart", str(ahead[0])] if ahead else [module]
    with line_to_child() as (ours, theirs), open(open_to_append(directory.supervisor_log), "ab") as log:
        descriptors = [] if detached else [theirs.fileno()]
        process = spawn(
            command(python, *said, str(directory.path), *map(str, descriptors)),
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
    """Our end of a socket, and that of a process which is started meanwhile. Ours stays open once it is."""
    ours, theirs = socket.socketpair()
    with theirs:
        try:
            yield ours, theirs
        except BaseException:
            ours.close()
            raise


def command(python: str, module: str, *words: str) -> list[str]:
    """What executes a module of nbdist that needs the standard library alone (``nbdist.entry``)."""
    return [python, *_FLAGS, str(ENTRY), module, *words]


def spawn(
    command: Sequence[str],
    *,
    environment: Mapping[str, str] = os.environ,
    output: int = subprocess.DEVNULL,
    descriptors: Sequence[int] = (),
) -> subprocess.Popen[bytes]:
    """Start a process that outlives this one, in a session of its own. Raises LaunchError."""
    try:
        with _interrupts_wait():
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


def look_after(supervisor: SupervisorProcess, directory: RunDirectory) -> None:
    """Wait in a thread for the end of the process that is to keep a run, and let its line close no sooner.
    Where it does not end well this process is the first to know, and writes down what that means."""

    def ended(code: int) -> None:
        if supervisor.lifeline is not None:
            supervisor.lifeline.close()
        # 0 is its own word that the run's end is recorded
        if code:
            note_end(directory, supervisor.process.pid, code)

    collect(supervisor.process, ended)


def collect(process: subprocess.Popen[bytes], then: Callable[[int], None] = lambda _: None) -> None:
    """Wait for the end of a process in a thread, so that it stays no zombie; ``then`` gets its exit code."""
    name = f"nbdist waits for {process.pid}"
    threading.Thread(target=lambda: then(process.wait()), name=name, daemon=True).start()


@contextlib.contextmanager
def _interrupts_wait() -> Iterator[None]:
    """Until it has a session of its own a new process is in this one's group, which an interrupt is sent to,
    and would be killed by it. It listens to interrupts when it can do something about them."""
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT,))
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


class Handover:
    """What the ranks of a run are made from, the port where they meet, and the lock of the run, until the
    process that is started has taken over. ``descriptors`` are what it inherits, ``order`` first."""

    def __init__(self, directory: RunDirectory, spec: RunSpec, environment: Mapping[str, str]) -> None:
        """Raises LaunchError or OSError where it cannot be said beforehand."""
        with contextlib.ExitStack() as opened:
            reservation = Reservation()
            opened.callback(reservation.release)
            lock = take_run_lock(directory)
            opened.callback(os.close, lock)
            self._order = os.memfd_create("nbdist-ahead", os.MFD_CLOEXEC)
            opened.callback(os.close, self._order)
            held = (reservation.fileno(), lock)
            point = reservation.rendezvous
            boot, ranks = processes.boot_id(), []
            for rank in spec.here:
                command = rank_command(directory, spec, rank, 1, point, environment)
                own = command.environment.items() - environment.items()
                ranks.append(
                    {
                        "place": str(command.log.parent),
                        "arguments": command.arguments,
                        "environment": dict(own),
                        "cwd": command.cwd,
                        "log": str(command.log),
                        "order": command.order.encode(),
                        "begin": line(
                            RankStarted(time=0.0, rank=rank.rank, pid=0, start_time=0, boot_id=boot)
                        ),
                    }
                )
            host = os.uname().nodename
            supervisor = SupervisorStarted(time=0.0, pid=0, start_time=0, boot_id=boot, host=host)
            attempt = AttemptStarted(time=0.0, attempt=1, host=point.host, port=point.port)
            said = {
                # the file may go in the meantime
                "spec": directory.spec.read_text(encoding="utf-8"),
                "ranks": ranks,
                "held": held,
                "port": (held[0], point.host, point.port),
                "begin": (line(supervisor), line(attempt)),
                "journal": str(directory.journal),
            }
            os.write(self._order, marshal.dumps(said))
            os.lseek(self._order, 0, os.SEEK_SET)
            self.descriptors = (self._order, *held)
            self._opened = opened.pop_all()

    def close(self) -> None:
        """Close once handed over, or where there is no process to hand it to."""
        self._opened.close()


def line(event: Event) -> str:
    """A line of the journal with zeros in the place of what the new process knows alone: time, pid and
    start time."""
    return encode_event(event) + "\n"


def hand_over(directory: RunDirectory, spec: RunSpec, environment: Mapping[str, str]) -> Handover | None:
    """What the new process starts the ranks from; None where its supervisor has to find out more before."""
    if sys.platform != "linux" or spec.nodes > 1 or spec.engine or spec.memory:
        return None
    try:
        return Handover(directory, spec, environment)
    except (LaunchError, OSError):
        # the supervisor finds the same, and writes it down
        return None
