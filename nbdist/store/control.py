"""Requests to a run's supervisor: small files in ``control/``, read once, only from their owner."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from dataclasses import asdict, dataclass
from typing import Union

from nbdist import processes
from nbdist.model.decoding import MALFORMED, build, loads
from nbdist.model.reason import Reason
from nbdist.model.run import Run
from nbdist.model.spec import ProcessId
from nbdist.store.journal import load_object, read_whole
from nbdist.store.paths import RunDirectory, SweepDirectory, write_private

_LIMIT = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class StopRequest:
    """A request to end the run. A second one hastens the escalation."""

    reason: Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class StacksRequest:
    """A request for the stacks of the ranks. The answer repeats its ``name`` (``store.reports``)."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RanksRequest:
    """A request to ranks: to ``interrupt`` them as Ctrl-C does, to record for some ``seconds`` what they do,
    to evaluate an ``expression``, or else to stop for a debugger. Their answers have its ``name``."""

    ranks: tuple[int, ...]
    interrupt: bool = False
    name: str = ""
    seconds: float = 0.0
    expression: str = ""


Request = Union[StopRequest, StacksRequest, RanksRequest]
_KINDS: dict[str, type[Request]] = {"stop": StopRequest, "stacks": StacksRequest, "ranks": RanksRequest}


def request_stop(run: RunDirectory, reason: Reason) -> None:
    """Write a request to stop ``run``. Raises OSError."""
    _write(run, "stop", reason=reason.encode())


def ask_to_end(directory: RunDirectory, run: Run, reason: Reason) -> None:
    """Request the end of a run, by a signal where the disk refuses. Raises OSError where neither works."""
    try:
        request_stop(directory, reason)
    except OSError:
        here = run.supervisor_host == os.uname().nodename
        if not here or run.supervisor is None or not processes.send(run.supervisor, signal.SIGTERM):
            raise
    wake(run)


def ask_sweep_to_end(directory: SweepDirectory, reason: Reason) -> None:
    """Request that the process of a sweep ends its runs and starts no others. Raises OSError."""
    request_stop(directory, reason)
    with contextlib.suppress(OSError, *MALFORMED):
        # a signal may have stopped it
        processes.send(build(ProcessId, load_object(directory.process)), signal.SIGCONT)


def request_stacks(run: RunDirectory) -> str:
    """Request the stacks of the ranks; return the name of the request. Raises OSError."""
    name = os.urandom(8).hex()
    _write(run, "stacks", name=name)
    return name


def request_interrupt(run: RunDirectory, rank: int) -> None:
    """Request the interrupt of one rank. Raises OSError."""
    request_of_ranks(run, RanksRequest(ranks=(rank,), interrupt=True))


def request_of_ranks(run: RunDirectory, request: RanksRequest) -> None:
    """Write a request to ranks. Raises OSError."""
    _write(run, "ranks", **asdict(request))


def _write(run: RunDirectory, kind: str, **values: object) -> None:
    name = f"{kind}-{time.time_ns()}-{os.urandom(4).hex()}.json"
    write_private(run.control / name, json.dumps({"kind": kind, **values}))


def wake(run: Run) -> None:
    """Continue the supervisor and its reaper, if a signal stopped them, so that they read a request."""
    if run.supervisor is None or run.supervisor_host != os.uname().nodename:
        return
    stat = processes.read_stat(run.supervisor.pid)
    if stat is not None and stat.process == run.supervisor:
        reaper = processes.identify(stat.parent)
        processes.send_all([run.supervisor, *filter(None, [reaper])], signal.SIGCONT)


def take_requests(run: RunDirectory, *, leave: bool = False) -> list[Request]:
    """Return the waiting requests, oldest first; unless ``leave``, remove them and any other file."""
    try:
        names = os.listdir(run.control)
    except OSError:
        return []
    taken = []
    # behind the kind, a name has the time
    for name in sorted(names, key=lambda name: (name.partition("-")[2], name)):
        if name.startswith("."):  # still being written
            continue
        path = run.control / name
        text = b""
        with contextlib.suppress(OSError):
            text = read_whole(path, _LIMIT)
        try:
            if not leave:
                path.unlink()
        except OSError:
            continue
        if (request := _decode(text)) is not None:
            taken.append(request)
    return taken


def _decode(text: bytes) -> Request | None:
    kind = None
    try:
        data = loads(text)
        kind = _KINDS[data["kind"]]
        return build(kind, data)
    except MALFORMED:
        # end the run whatever the reason is
        return StopRequest(reason=Reason()) if kind is StopRequest else None
