"""This machine: the supervisor is a process of its own, outside the kernel and its session."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from nbdist.errors import LaunchError
from nbdist.store.paths import RunDirectory

SUPERVISOR = Path(__file__).parent.parent / "launch" / "__main__.py"
# nothing but the standard library is needed, and without site-packages it starts sooner
_FLAGS = ("-I", "-S") if sys.platform == "linux" else ("-I",)


@dataclass(frozen=True, slots=True)
class Submitted:
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
) -> Submitted:
    """Start the supervisor of a run with what its ranks are to inherit. Raises LaunchError.

    ``ahead`` are descriptors of what is said of its ranks beforehand (``launch.ahead``).
    """
    ours, theirs = socket.socketpair()
    said = ["--ahead", str(ahead[0])] if ahead else []
    command = [python, *_FLAGS, str(SUPERVISOR), *said, str(directory.path)]
    descriptors = () if detached else (theirs.fileno(),)
    command += [str(descriptor) for descriptor in descriptors]
    log = os.open(directory.supervisor_log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
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
        return Submitted(process, None)
    return Submitted(process, ours)


def stand_by(environment: Mapping[str, str], python: str) -> Submitted:
    """Start a supervisor of a run that is not known yet (``launch.warm.standby``). Raises LaunchError."""
    ours, theirs = socket.socketpair()
    try:
        process = subprocess.Popen(
            [python, *_FLAGS, str(SUPERVISOR), "--standby", str(theirs.fileno())],
            env=dict(environment),
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            pass_fds=(theirs.fileno(),),
        )
    except OSError as error:
        ours.close()
        raise LaunchError(f"no supervisor could be started with {python}: {error}") from error
    finally:
        theirs.close()
    return Submitted(process, ours)
