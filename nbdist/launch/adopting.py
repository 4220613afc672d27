"""A supervisor that comes after its ranks (``vanguard``)."""

from __future__ import annotations

import json
from _socket import socket
from collections.abc import Sequence

from nbdist.control_groups import ControlGroup
from nbdist.launch.lifetime import Lifeline
from nbdist.launch.rank_process import RankCommand, RankProcess, start_rank, tell_rank
from nbdist.launch.rendezvous import Reservation
from nbdist.launch.supervisor import Supervisor
from nbdist.model import RankStarted, RunSpec, decode_event
from nbdist.store.paths import RunDirectory


def adopt(
    directory: RunDirectory,
    asked: str,
    descriptor: int | None,
    *,
    started: dict[str, tuple[int, socket]],
    lines: Sequence[str],
    port: tuple[int, str, int],
    group: ControlGroup | None,
) -> None:
    """Be the supervisor of ranks that have been started (``vanguard``) for the spec ``asked``: by their
    directories, their pids and our ends of their sockets. ``lines`` are those that the journal has begun
    with; there are none where the ranks have not been told what to run. ``port`` is the socket that holds
    it, the host and the port. ``group`` is what they are in."""
    spec = RunSpec.from_dict(json.loads(asked))
    begun = [event for event in map(decode_event, lines) if event is not None]
    known = {event.pid: event.process for event in begun if isinstance(event, RankStarted)}
    reservations = [Reservation.inherited(*port)]

    def spawn(command: RankCommand) -> RankProcess:
        there = started.pop(command.environment["NBDIST_RANK_DIR"], None)
        if there is None:
            return start_rank(command, group)
        pid, channel = there
        return RankProcess(known[pid], channel) if lines else tell_rank(command, pid, channel)

    Supervisor(
        directory,
        spec,
        Lifeline(None if spec.detached else spec.owner, descriptor),
        spawn=spawn,
        reserve=lambda: reservations.pop() if reservations else Reservation(),
        begun=begun,
        group=group,
    ).run()
