"""Supervisor that starts ahead of its run, with ranks that import their framework and wait.

It serves one run, which its kernel names over the socket that it inherits; from then on it is that run's
supervisor, even while its ranks still import: a cold start would be later, and the run can be shown and
stopped. Until then it ends with its kernel, after a long idle time, when memory gets short, and with a rank.

Beside a run it starts its ranks once as many CPUs are idle as there are ranks, else after the run; at once
where the next run is sure to come.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from nbdist import processes
from nbdist.control_groups import ControlGroup
from nbdist.devices.usage import memory_total
from nbdist.launch.binding import (
    FOR_THE_RANKS,
    REQUESTS_TO_END,
    allow_files,
    become_subreaper,
    die_with_parent,
    drop_interrupt,
)
from nbdist.launch.lifetime import Lifeline, Wakeup, collect_exited, end_descendants, write_into
from nbdist.launch.rank_process import RankCommand, RankProcess, Reservation, rank_command, start_rank
from nbdist.launch.reaper import watch_over
from nbdist.launch.supervisor import Supervisor, group_for_ranks
from nbdist.model import RunSpec
from nbdist.model.decoding import MALFORMED, build, loads
from nbdist.store.paths import RunDirectory
from nbdist.store.run_store import read_spec, take_run_lock
from nbdist.warm.idle_policy import LEAST_MEMORY, IdlePolicy, put_beside, put_last
from nbdist.warm.line import Line
from nbdist.warm.match import Staleness
from nbdist.worker.order import HURRY, PLACE, ROOM, WAIT, Assignment, Preload

_TICK = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Message of a rank about its imports (``worker.warm``): ``files`` with time (ns) and size, variables
    that it ``reads``; ``problem`` is why it is of no use."""

    begun: int
    reads: tuple[str, ...]
    files: Mapping[str, tuple[int, int]]
    path: tuple[str, ...]
    problem: str
    threads: int

    def staleness(self, cwd: str) -> Staleness:
        return Staleness(self.files, self.path, cwd)


@dataclass(slots=True)
class WaitingRank(RankProcess):
    """Rank that imports, sends its ``facts``, and waits; ``engage`` may precede the facts."""

    facts: Facts | None = None
    _received: bytes = b""
    _assignment: Assignment | None = None
    _doubt: Callable[[], str] = str
    _told: bool = False

    @property
    def told(self) -> bool:
        return self._told

    @property
    def held(self) -> bool:
        """Return whether SIGSTOP holds it: it will not be ready."""
        activity = processes.activity(self.process.pid)
        return activity is not None and activity.state in ("T", "t")

    @property
    def problem(self) -> str:
        """Return why a ready rank is of no use; empty when it is of use."""
        assert self.facts is not None, "only a ready rank has a problem"
        return self.facts.problem or unfit(self.process.pid, self.facts.threads)

    def hear(self) -> bytes | None:
        # without super(): a class with slots is made twice
        if self._told:
            return RankProcess.hear(self)
        try:
            piece = self.channel.recv(1 << 20)
        except BlockingIOError:
            return b""
        except OSError:
            return None
        self._received += piece
        if self._received.endswith(b"\n"):
            try:
                self.facts, self._received = build(Facts, loads(self._received, exact=True)), b""
            except MALFORMED:
                # it can receive no run
                self.send(signal.SIGKILL)
                return None
            self._assign()
        return b"" if piece else None

    def ask(self, words: bytes) -> None:
        # before its run it would read this as a part of it
        if self._told:
            RankProcess.ask(self, words)

    def engage(self, assignment: Assignment, doubt: Callable[[], str]) -> None:
        """Send the run as soon as the rank is ready. ``doubt`` then returns why it must begin again."""
        self._assignment, self._doubt = assignment, doubt
        if self.facts is None:
            with contextlib.suppress(OSError):
                self.channel.send(HURRY)
        self._assign()

    def _assign(self) -> None:
        if self._assignment is None or self.facts is None:
            return
        self._assignment.cold = self._doubt()
        self.channel.setblocking(True)
        with contextlib.suppress(OSError):
            # the exit of a dead rank is seen elsewhere
            self.channel.sendall(self._assignment.encode())
        self.channel.setblocking(False)
        self._told = True


def unfit(pid: int, allowed: int = 1) -> str:
    """Return what a process has that a rank may not have before its program runs; empty for nothing. Imports
    of what computes leave ``allowed`` threads."""
    try:
        threads = len(os.listdir(f"/proc/{pid}/task"))
        files = [os.readlink(entry.path) for entry in os.scandir(f"/proc/{pid}/fd")]
    except OSError:
        return "is gone"
    if threads != allowed:
        return f"has {threads} threads after its imports, not {allowed}"
    device = next((path for path in files if path.startswith("/dev/nvidia")), "")
    return f"has opened {device}" if device else ""


class StandbySupervisor:
    """Supervisor of waiting ranks, then of a run. ``line`` leads to the kernel, ``reaper`` to the parent."""

    def __init__(
        self, offer: dict[str, Any], line: Line, reaper: socket.socket, *, idle_policy: IdlePolicy
    ) -> None:
        self._spec = RunSpec.from_dict(offer["spec"])
        self._preload = Preload(**offer["preload"])
        self._beside = bool(offer["beside"])
        self._waits_for_cpus = self._beside and not offer["hurry"]
        self._is_last = self._waits_for_cpus and idle_policy.weights
        self._line = line
        self._reaper = reaper
        self._idle_policy = idle_policy
        self._group: ControlGroup | None = None
        self._ranks: dict[int, WaitingRank] = {}
        self._inherited = dict(os.environ)
        self._own: dict[int, tuple[Mapping[str, str], Mapping[str, str]]] = {}
        self._selector = selectors.DefaultSelector()
        self._staleness: Staleness | None = None
        self._ready = False
        self._over = ""
        self._hopeless = False
        self._go: dict[str, Any] | None = None

    def stand_by(self) -> int:
        """Wait for a run, supervise it, and return the exit status of the process."""
        become_subreaper()
        allow_files(len(self._spec.ranks))
        self._group = group_for_ranks()
        self._reservation = Reservation()
        wakeup = Wakeup()
        self._selector.register(wakeup.socket, selectors.EVENT_READ, lambda: self._signalled(wakeup))
        self._selector.register(self._line, selectors.EVENT_READ, self._hear_kernel)
        lifeline = Lifeline(self._spec.owner, None)
        for descriptor in lifeline.descriptors():
            self._selector.register(descriptor, selectors.EVENT_READ, self._leave)
        self._begin_in_time()
        self._line.send(up=True)
        while self._go is None and not self._over and not lifeline.gone:
            for key, _ in self._selector.select(_TICK):
                key.data()
            self._reap()
            if self._beside:
                self._idle_policy.restart()
            self._end_because(self._idle_policy.over())
            self._begin_in_time()
        self._selector.close()
        # later signals are for the supervisor of the run, if there will be one
        signal.pthread_sigmask(signal.SIG_BLOCK, (*REQUESTS_TO_END, *FOR_THE_RANKS))
        self._signalled(wakeup)
        if self._go is None or self._over:
            return self._end()
        return self._supervise(self._go)

    def _end(self) -> int:
        self._line.send(gone=self._over, hopeless=self._hopeless)
        end_descendants(collect_exited, patience=0.0)
        if self._group is not None:
            self._group.end()
            self._group.remove()
        return 0

    def _spawn(self, command: RankCommand) -> RankProcess:
        return start_rank(command, group=self._group)

    def _begin_in_time(self) -> None:
        if not (self._ranks or self._over or self._go) and self.may_begin():
            self._begin()

    def may_begin(self) -> bool:
        """Return whether imports would slow no run."""
        at_once = self._is_last or not self._waits_for_cpus
        return at_once or self._idle_policy.spare() >= len(self._spec.ranks)

    def _begin(self) -> None:
        """Start the ranks as for the awaited run."""
        for rank in self._spec.ranks:
            output = os.memfd_create("nbdist-standby", os.MFD_CLOEXEC)
            command = rank_command(RunDirectory(Path("/")), self._spec, rank, 1, self._reservation.rendezvous)
            started = self._spawn(
                replace(
                    command,
                    run_id=WAIT,
                    environment=dict(command.environment) | {PLACE: "-" * ROOM},
                    log=Path(f"/proc/self/fd/{output}"),
                    order=self._preload,
                )
            )
            os.close(output)
            if self._is_last:
                put_last(started.process.pid)
            waiting = self._ranks[rank.rank] = WaitingRank(started.process, started.channel)
            self._selector.register(
                waiting.channel, selectors.EVENT_READ, lambda r=rank.rank: self._hear_rank(r)
            )

    def _hear_rank(self, rank: int) -> None:
        waiting = self._ranks[rank]
        if waiting.hear() is None:
            self._end_because(f"rank {rank} ended while it waited")
            self._hopeless = not self._ready
            self._selector.unregister(waiting.channel)
            return
        facts = [each.facts for each in self._ranks.values() if each.facts is not None]
        if self._ready or len(facts) < len(self._ranks):
            return
        self._ready = True
        self._over = next(filter(None, (each.problem for each in self._ranks.values())), "")
        if self._over:
            self._hopeless = True
            return
        self._raise_ranks()
        self._staleness = facts[0].staleness(self._spec.cwd)
        reads = sorted({name for each in facts for name in each.reads})
        pids = [os.getpid(), *(each.process.pid for each in self._ranks.values())]
        self._line.send(ready={"reads": reads, "pids": pids})

    def _raise_ranks(self) -> None:
        """Give the ranks the CPU time of any process."""
        if self._is_last:
            for waiting in self._ranks.values():
                put_beside(waiting.process.pid)
        self._is_last = False

    def _hear_kernel(self) -> None:
        try:
            messages = self._line.receive()
            if messages is None:
                self._leave()
            for message in messages or ():
                self.obey(message)
        except MALFORMED:
            self._leave()

    def obey(self, message: dict[str, Any]) -> None:
        if "go" in message:
            if problem := self._problem():
                self._line.send(taken=problem)
            else:
                self._go = message
                self._raise_ranks()
        elif "hurry" in message:
            self._beside = self._waits_for_cpus = False
            self._raise_ranks()
        else:
            self._leave()

    def _problem(self) -> str:
        """Return why the ranks differ from those of a cold start now; empty when no difference is known."""
        self._reap()
        if self._over or self._staleness is None:
            return self._over
        for rank, waiting in self._ranks.items():
            if problem := waiting.problem:
                return f"rank {rank} {problem}"
        return self._staleness.changed()

    def _supervise(self, message: dict[str, Any]) -> int:
        """Supervise a run, once its acceptance is sent."""
        directory = RunDirectory(Path(message["go"]))
        # before the acceptance: when the reaper has ended, its parent looks for the lock
        if not self._tell_reaper(directory) or not self._line.send(taken=""):
            return self._end()
        self._line.close()
        os.environ.clear()
        os.environ.update(message["environment"])
        spec = read_spec(directory)
        pairs = zip(self._spec.ranks, spec.ranks, strict=True)
        self._own = {now.rank: (then.environment, now.environment) for then, now in pairs}
        write_into(directory.supervisor_log)
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
        """Send a waiting rank its run; start a new process where there is none, or it will not be ready."""
        waiting = self._ranks.pop(command.rank, None)
        if waiting is None or isinstance(command.order, Preload):
            return self._spawn(command)
        if waiting.facts is None and waiting.held:
            waiting.send(signal.SIGKILL)
            return self._spawn(command)
        # an error here is the one of a cold start
        os.close(os.open(command.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600))
        assignment = Assignment(
            **vars(command.order),
            environment=dict(command.environment),
            cwd=command.cwd,
            log=str(command.log),
        )
        # ready ranks were compared before
        waiting.engage(assignment, str if self._ready else partial(self._doubt, waiting, command.rank))
        return waiting

    def _doubt(self, waiting: WaitingRank, rank: int) -> str:
        """Return how a rank engaged during its imports differs from a cold one; empty for no difference."""
        facts = waiting.facts
        assert facts is not None, "only a ready rank is compared"
        reads, unseen = frozenset(facts.reads), tuple(self._preload.unseen)
        then, now = self._inherited | dict(self._own[rank][0]), dict(os.environ) | dict(self._own[rank][1])
        for name in sorted(then.keys() | now.keys()):
            if then.get(name) != now.get(name) and (name in reads or name.startswith(unseen)):
                return f"{name} changed while {self._spec.framework} was imported, which may read it"
        return waiting.problem or facts.staleness(self._spec.cwd).changed_since(facts.begun)

    def _tell_reaper(self, directory: RunDirectory) -> bool:
        """Send the reaper the run and its lock, which holds while one of the two processes lives. Return
        False when the reaper has gone."""
        held = []
        with contextlib.suppress(OSError):
            held.append(take_run_lock(directory))
        try:
            socket.send_fds(self._reaper, [os.fsencode(directory.path)], held)
        except OSError:
            return False
        return True

    def _leave(self) -> None:
        self._end_because("the kernel let it go")

    def _signalled(self, wakeup: Wakeup) -> None:
        with contextlib.suppress(BlockingIOError):
            for number in wakeup.requests_to_end():
                self._over = f"it got {number.name}"

    def _reap(self) -> None:
        collect_exited(lambda *_: self._end_because("one of its processes ended while it waited"))

    def _end_because(self, why: str) -> None:
        self._over = self._over or why


def main(arguments: Sequence[str]) -> int:
    """Run the process of a standby: ``FD``, a socket whose first message is the offer."""
    end = socket.socket(fileno=int(arguments[0]))
    end.set_inheritable(False)
    drop_interrupt()
    become_subreaper()
    ours, theirs = socket.socketpair()
    reaper = os.getpid()
    supervisor = os.fork()
    if supervisor == 0:
        ours.close()
        die_with_parent(reaper, signal.SIGTERM)
        return _stand_by(Line(end), theirs)
    # the kernel must see the end of the supervisor
    end.close()
    theirs.close()
    return watch_over(supervisor, _assigned_run(ours))


def _stand_by(line: Line, reaper: socket.socket) -> int:
    messages: list[dict[str, Any]] | None = []
    while messages == []:
        messages = line.receive()
    if messages is None:
        return 0
    offer, *others = messages
    least = max(LEAST_MEMORY, (memory_total() or 0) // 10)
    idle_policy = IdlePolicy(least=least, limit=float(offer["idle"]))
    standby = StandbySupervisor(offer, line, reaper, idle_policy=idle_policy)
    for message in others:
        standby.obey(message)
    return standby.stand_by()


def _assigned_run(line: socket.socket) -> Callable[[], RunDirectory | None]:
    """Return a function that finds the run that the supervisor accepted, and keeps its lock open here."""
    line.setblocking(False)
    taken: list[RunDirectory] = []

    def find() -> RunDirectory | None:
        if not taken:
            with contextlib.suppress(OSError):
                path, _, _, _ = socket.recv_fds(line, 4096, 1)
                if path:
                    taken.append(RunDirectory(Path(os.fsdecode(path))))
        return taken[0] if taken else None

    return find
