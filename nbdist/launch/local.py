"""This machine: the supervisor is a process of its own, outside the kernel and its session."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from nbdist.errors import LaunchError
from nbdist.store.paths import RunDirectory
from nbdist.store.recovery import note_end

SUPERVISOR = Path(__file__).parent / "__main__.py"
# nothing but the standard library is needed, and without site-packages it starts sooner
FLAGS = ("-I", "-S") if sys.platform == "linux" else ("-I",)


@dataclass(frozen=True, slots=True)
class SupervisorProcess:
    """A started supervisor. ``lifeline`` closes when this process ends, however it ends; where the
    supervisor has no better way to see that, it is how a foreground run ends with its kernel."""

    process: subprocess.Popen[bytes]
    lifeline: socket.socket | None


def submit(
    directory: RunDirectory,
    environment: Mapping[str, str],
    python: str,
    *,
    detached: bool,
    ahead: Sequence[int] = (),
    entry: Path = SUPERVISOR,
) -> SupervisorProcess:
    """Start the supervisor of a run with what its ranks are to inherit. Raises LaunchError.

    ``ahead`` are descriptors of what is said of its ranks beforehand (``launch.ahead``); ``entry`` is the
    program of the process.
    """
    ours, theirs = socket.socketpair()
    said = ["--ahead", str(ahead[0])] if ahead else []
    command = [python, *FLAGS, str(entry), *said, str(directory.path)]
    descriptors = () if detached else (theirs.fileno(),)
    command += [str(descriptor) for descriptor in descriptors]
    log = os.open(directory.supervisor_log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        with interrupts_wait():
            process = subprocess.Popen(
                command,
                env=dict(environment),
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                pass_fds=(*descriptors, *ahead),
            )
    except OSError as error:
        ours.close()
        raise LaunchError(f"the supervisor could not be started with {python}: {error}") from error
    finally:
        os.close(log)
        theirs.close()
    if detached:
        ours.close()
    supervisor = SupervisorProcess(process, None if detached else ours)
    look_after(supervisor, directory)
    return supervisor


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
def interrupts_wait() -> Iterator[None]:
    """Until it has a session of its own a new process is in this one's group, which an interrupt is sent to,
    and would be killed by it. It listens to interrupts when it can do something about them."""
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT,))
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
