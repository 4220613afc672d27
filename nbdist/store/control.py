"""Requests to a run's supervisor: small files in ``control/``, taken once, only from their owner."""

from __future__ import annotations

import json
import os
import stat
import time
from dataclasses import dataclass

from nbdist.store.paths import RunDirectory, write_private

_LIMIT = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class StopRequest:
    """Somebody asked for the run to end. A second request hastens the escalation."""

    reason: str


def request_stop(run: RunDirectory, reason: str) -> None:
    """Ask the supervisor of ``run`` to stop it. Raises OSError when the directory cannot be written."""
    name = f"stop-{time.time_ns()}-{os.urandom(4).hex()}.json"
    write_private(run.control / name, json.dumps({"kind": "stop", "reason": reason}))


def take_requests(run: RunDirectory) -> list[StopRequest]:
    """The requests that wait, oldest first. They are removed; what is not ours or no request, too."""
    try:
        names = sorted(os.listdir(run.control))
    except OSError:
        return []
    taken = []
    for name in names:
        if name.startswith("."):  # still being written
            continue
        path = run.control / name
        try:
            status = path.lstat()
            # a link would lead elsewhere, and a pipe would hold us
            ours = status.st_uid == os.geteuid() and stat.S_ISREG(status.st_mode)
            text = path.read_bytes()[:_LIMIT] if ours else b""
            path.unlink()
        except OSError:
            continue
        if (request := _decode(text)) is not None:
            taken.append(request)
    return taken


def _decode(text: bytes) -> StopRequest | None:
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(data, dict) or data.get("kind") != "stop":
        return None
    return StopRequest(reason=str(data.get("reason", "")))
