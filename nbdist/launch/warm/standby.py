"""A supervisor that is started ahead of its run, with ranks that have imported their framework and wait.

It is for one run. The kernel that started it tells it, over the socket that it inherited, which one; from
then on it is that run's supervisor and nothing else. Until then it ends with its kernel, when nobody has
used it for long, when memory gets short, and when one of its ranks ends.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from nbdist.devices.memory import memory_total
from nbdist.launch.binding import REQUESTS_TO_END, allow_files, become_subreaper, die_with_parent
from nbdist.launch.keeper import watch_over
from nbdist.launch.lifetime import Lifeline, end_descendants
from nbdist.launch.rank_process import RankCommand, RankProcess, rank_command, start_rank
from nbdist.launch.rendezvous import Reservation
from nbdist.launch.supervisor import Supervisor, group_for_ranks
from nbdist.launch.wakeup import Wakeup
from nbdist.launch.warm.freshness import Freshness
from nbdist.launch.warm.patience import IDLE_LIMIT, LEAST_MEMORY, Patience
from nbdist.launch.warm.waiting_rank import Waiting, problem_of
from nbdist.model import RunSpec
from nbdist.store.custody import take_custody
from nbdist.store.paths import RunDirectory
from nbdist.store.run_store import read_spec
from nbdist.worker.engagement import PLACE, ROOM, WAIT, Engagement, Preload

_TICK = 2.0


class Standby:
    """``line`` leads to the kernel, ``keeper`` to the process above."""

    def __init__(
        self,
        offer: dict[str, Any],
        line: socket.socket,
        keeper: socket.socket,
        *,
        patience: Patience,
        spawn: Callable[[RankCommand], RankProcess] | None = None,
    ) -> None:
        self._spec = RunSpec.from_dict(offer["spec"])
        self._preload = Preload(**offer["preload"])
        self._line = line
        self._keeper = keeper
        self._patience = patience
        self._group = group_for_ranks()
        self._spawn = spawn or partial(start_rank, group=self._group)
        self._ranks: dict[int, Waiting] = {}
        self._selector = selectors.DefaultSelector()
        self._freshness: Freshness | None = None
        self._said = b""
        self._ready = False
        self._over = ""
        self._go: dict[str, Any] | None = None

    def stand_by(self) -> int:
        """Until there is a run, and through it. Returns the exit status of the process."""
        become_subreaper()
        allow_files(len(self._spec.ranks))
        wakeup = Wakeup()
        self._selector.register(wakeup.socket, selectors.EVENT_READ, lambda: self._signalled(wakeup))
        self._line.setblocking(False)
        self._selector.register(self._line, selectors.EVENT_READ, self._hear_kernel)
        lifeline = Lifeline(self._spec.owner, None)
        for descriptor in lifeline.descriptors():
            self._selector.register(descriptor, selectors.EVENT_READ, self._leave)
        self._reservation = Reservation()
        self._begin()
        while self._go is None and not self._over and not lifeline.gone:
            for key, _ in self._selector.select(_TICK):
                key.data()
            self._reap()
            self._look_at_the_clock()
        self._selector.close()
        # what comes from here on is for the supervisor of the run, if there is to be one
        signal.pthread_sigmask(signal.SIG_BLOCK, REQUESTS_TO_END)
        self._signalled(wakeup)
        if self._go is None or self._over:
            return self._end()
        return self._supervise(self._go)

    def _end(self) -> int:
        self._say({"gone": self._over})
        end_descendants(self._collect, patience=0.0)
        if self._group is not None:
            self._group.end()
            self._group.remove()
        return 0

    def _begin(self) -> None:
        """Start the ranks, each as it would be for the run that is awaited."""
        for rank in self._spec.ranks:
            output = os.memfd_create("nbdist-standby", os.MFD_CLOEXEC)
            command = rank_command(RunDirectory(Path("/")), self._spec, rank, 1, self._reservation.rendezvous)
            waiting = self._spawn(
                replace(
                    command,
                    run_id=WAIT,
                    environment=dict(command.environment) | {PLACE: "-" * ROOM},
                    log=Path(f"/proc/self/fd/{output}"),
                    order=self._preload,
                )
            )
            os.close(output)
            self._ranks[rank.rank] = Waiting(waiting)
            self._selector.register(
                waiting.channel, selectors.EVENT_READ, lambda r=rank.rank: self._hear_rank(r)
            )

    def _hear_rank(self, rank: int) -> None:
        waiting = self._ranks[rank]
        if not waiting.hear():
            self._over = self._over or f"rank {rank} ended while it waited"
            self._selector.unregister(waiting.started.channel)
            return
        if self._ready or any(one.facts is None for one in self._ranks.values()):
            return
        self._ready = True
        facts = [one.facts for one in self._ranks.values() if one.facts is not None]
        self._over = next(filter(None, map(problem_of, self._ranks.values())), "")
        if self._over:
            return
        self._freshness = Freshness(facts[0]["files"], facts[0]["path"], self._spec.cwd)
        reads = sorted({name for one in facts for name in one["reads"]})
        self._say({"ready": {"reads": reads, "pids": [os.getpid(), *self._pids()]}})

    def _pids(self) -> list[int]:
        return [one.started.process.pid for one in self._ranks.values()]

    def _hear_kernel(self) -> None:
        try:
            piece = self._line.recv(1 << 20)
        except BlockingIOError:
            return
        except OSError:
            piece = b""
        if not piece:
            self._leave()
            return
        self._said += piece
        *lines, self._said = self._said.split(b"\n")
        for line in lines:
            self._obey(json.loads(line))

    def _obey(self, said: dict[str, Any]) -> None:
        if "check" in said:
            self._say({"checked": self._problem()})
        elif "go" in said:
            self._go = said
        else:
            self._leave()

    def _problem(self) -> str:
        """Why the ranks are not what a cold start would make now; empty when they are."""
        self._reap()
        if self._over:
            return self._over
        if self._freshness is None:
            return "the ranks are not ready"
        for rank, waiting in self._ranks.items():
            if problem := problem_of(waiting):
                return f"rank {rank} {problem}"
        return self._freshness.changed()

    def _supervise(self, said: dict[str, Any]) -> int:
        """Be the supervisor of a run. It begins with an acknowledgement: without one it is not begun."""
        directory = RunDirectory(Path(said["go"]))
        # before it is acknowledged: what started the keeper looks for the lock when that has ended
        if not self._tell_keeper(directory) or not self._say({"taken": True}):
            return self._end()
        self._line.close()
        os.environ.clear()
        os.environ.update(said["environment"])
        spec = read_spec(directory)
        log = os.open(directory.supervisor_log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.close(log)
        reservations = [self._reservation]
        Supervisor(
            directory,
            spec,
            Lifeline(None if spec.detached else spec.owner, None),
            spawn=self._engage,
            reserve=lambda: reservations.pop() if reservations else Reservation(),
            group=self._group,
        ).run()
        return 0

    def _engage(self, command: RankCommand) -> RankProcess:
        """The rank that waits, with its run; a new process where it has been used."""
        waiting = self._ranks.pop(command.rank, None)
        if waiting is None or isinstance(command.order, Preload):
            return self._spawn(command)
        # where that is impossible a cold start fails in the same way
        os.close(os.open(command.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600))
        engagement = Engagement(
            order=command.order,
            environment=dict(command.environment),
            cwd=command.cwd,
            log=str(command.log),
        )
        channel = waiting.started.channel
        channel.setblocking(True)
        with contextlib.suppress(OSError):
            # one that has died is found by its exit
            channel.sendall(engagement.encode())
        channel.setblocking(False)
        return waiting.started

    def _tell_keeper(self, directory: RunDirectory) -> bool:
        """Which run it is from now on; with the lock, so that it holds as long as one of the two lives.
        False when the keeper has gone."""
        held = []
        with contextlib.suppress(OSError):
            held.append(take_custody(directory))
        try:
            socket.send_fds(self._keeper, [os.fsencode(directory.path)], held)
        except OSError:
            return False
        return True

    def _say(self, what: dict[str, Any]) -> bool:
        try:
            self._line.setblocking(True)
            self._line.sendall(json.dumps(what).encode() + b"\n")
            self._line.setblocking(False)
        except OSError:
            return False
        return True

    def _look_at_the_clock(self) -> None:
        self._over = self._over or self._patience.over()

    def _leave(self) -> None:
        self._over = self._over or "nobody wants it any more"

    def _signalled(self, wakeup: Wakeup) -> None:
        with contextlib.suppress(BlockingIOError):
            for number in wakeup.requests_to_end():
                self._over = f"it got {number.name}"

    def _reap(self) -> None:
        while True:
            try:
                pid = os.waitpid(-1, os.WNOHANG)[0]
            except ChildProcessError:
                return
            if not pid:
                return
            self._over = self._over or "one of its processes ended while it waited"

    def _collect(self) -> bool:
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return False
        return True


def main(arguments: Sequence[str]) -> int:
    """The process of a standby: ``--standby FD``. What it stands by for is the first line on the socket."""
    line = socket.socket(fileno=int(arguments[1]))
    line.set_inheritable(False)
    become_subreaper()
    ours, theirs = socket.socketpair()
    keeper = os.getpid()
    supervisor = os.fork()
    if supervisor == 0:
        ours.close()
        die_with_parent(keeper, signal.SIGTERM)
        offer = json.loads(_first_line(line))
        least = max(LEAST_MEMORY, (memory_total() or 0) // 10)
        patience = Patience(least=least, limit=float(offer.get("idle", IDLE_LIMIT)))
        return Standby(offer, line, theirs, patience=patience).stand_by()
    # the kernel is to see the end of the one that it talks to
    line.close()
    theirs.close()
    return watch_over(supervisor, _Told(ours).run)


def _first_line(line: socket.socket) -> bytes:
    data = b""
    while not data.endswith(b"\n"):
        piece = line.recv(1 << 20)
        if not piece:
            sys.exit(0)
        data += piece
    return data


class _Told:
    """What the keeper is told by the supervisor: the run that it has taken, with its lock, for this process
    to hold."""

    def __init__(self, line: socket.socket) -> None:
        line.setblocking(False)
        self._line = line
        self._run: RunDirectory | None = None

    def run(self) -> RunDirectory | None:
        if self._run is None:
            with contextlib.suppress(OSError):
                path, _, _, _ = socket.recv_fds(self._line, 4096, 1)
                if path:
                    self._run = RunDirectory(Path(os.fsdecode(path)))
        return self._run
