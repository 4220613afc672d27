"""Exit codes, read aloud."""

from __future__ import annotations

import signal

_MEANINGS = {
    signal.SIGKILL: "killed from outside, often by the out-of-memory killer",
    signal.SIGSEGV: "invalid memory access in native code",
    signal.SIGABRT: "native code gave up",
    signal.SIGBUS: "bad memory access, often a full /dev/shm",
    signal.SIGFPE: "arithmetic error in native code",
    signal.SIGILL: "an instruction that this CPU does not have",
    signal.SIGTERM: "told to end from outside",
    signal.SIGINT: "interrupted",
}


def describe_exit(code: int, *, oom: bool = False, ended: bool = False) -> str:
    """``exit 1``, or for a negative code the signal: ``SIGSEGV (invalid memory access …)``.

    ``oom`` says that the out-of-memory killer was seen at work, ``ended`` that nbdist ended the rank.
    """
    if ended and code < 0:
        return f"ended by nbdist ({signal.Signals(-code).name})"
    if oom and code == -signal.SIGKILL:
        return "SIGKILL (the system's out-of-memory killer)"
    if code >= 0:
        return f"exit {code}"
    try:
        number = signal.Signals(-code)
    except ValueError:
        return f"signal {-code}"
    meaning = _MEANINGS.get(number)
    return f"{number.name} ({meaning})" if meaning else number.name
