"""Who a process is that holds a GPU: its run, its user and its command, as far as this user may know."""

from __future__ import annotations

import contextlib
import os
import pwd
from pathlib import Path

from nbdist.privacy import masked_words

_LONG = 40


def describe_holder(pid: int, root: Path = Path("/proc")) -> str:
    """``run 2026…-lenet-k3f9 (pid 71)``, ``python train.py (pid 71, user eva)``, or ``pid 71``."""
    if pid == os.getpid():
        return f"this process (pid {pid}): restart the kernel to free it"
    place = root / str(pid)
    with contextlib.suppress(OSError):
        for entry in (place / "environ").read_bytes().split(b"\0"):
            if entry.startswith(b"NBDIST_RUN_ID="):
                return f"run {entry.partition(b'=')[2].decode()} (pid {pid})"
    user, command = "", ""
    with contextlib.suppress(OSError):
        words = [word.decode(errors="replace") for word in (place / "cmdline").read_bytes().split(b"\0")]
        command = " ".join(map(os.path.basename, masked_words(words[:3]))).strip()
    with contextlib.suppress(OSError, KeyError):
        user = pwd.getpwuid(os.stat(place).st_uid).pw_name
    who = f"pid {pid}, user {user}" if user else f"pid {pid}"
    # any user names a process as they like, for a terminal to act on
    shown = "".join(each if each.isprintable() else "?" for each in command[:_LONG])
    return f"{shown} ({who})" if shown else who
