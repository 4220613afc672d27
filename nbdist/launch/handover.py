"""The launch plan handed to the new process, so that its ranks start at once (``vanguard``)."""

from __future__ import annotations

import contextlib
import marshal
import os
import sys
from collections.abc import Mapping

from nbdist import processes
from nbdist.errors import LaunchError
from nbdist.launch.rank_process import rank_command
from nbdist.launch.rendezvous import Reservation
from nbdist.model import AttemptStarted, Event, RankStarted, RunSpec, SupervisorStarted, encode_event
from nbdist.store.paths import RunDirectory
from nbdist.store.run_store import take_run_lock


class Ahead:
    """The ranks of a run as new processes, the port where they meet, and the custody of the run, until
    the process that is started has taken over. ``descriptors`` are what it inherits, ``order`` first."""

    def __init__(self, directory: RunDirectory, spec: RunSpec, environment: Mapping[str, str]) -> None:
        """Raises LaunchError or OSError where it cannot be said beforehand."""
        with contextlib.ExitStack() as opened:
            reservation = Reservation()
            opened.callback(reservation.release)
            custody = take_run_lock(directory)
            opened.callback(os.close, custody)
            self._order = os.memfd_create("nbdist-ahead", os.MFD_CLOEXEC)
            opened.callback(os.close, self._order)
            held = (reservation.fileno(), custody)
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


def ahead_of(directory: RunDirectory, spec: RunSpec, environment: Mapping[str, str]) -> Ahead | None:
    """What can be said of a run; None where its supervisor has to find out more before its ranks start."""
    if sys.platform != "linux" or spec.nodes > 1 or spec.engine or spec.memory:
        return None
    try:
        return Ahead(directory, spec, environment)
    except (LaunchError, OSError):
        # the supervisor finds the same, and writes it down
        return None
