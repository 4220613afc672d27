"""A supervisor that is started ahead of its run, with ranks that have imported their framework and wait.

It is for one run. The kernel that started it tells it, over the socket that it inherited, which one; from
then on it is that run's supervisor and nothing else, also while its ranks still import: a cold start would
be later, and the run can be shown and stopped. Until then it ends with its kernel, when no run has used it
for long, when memory gets short, and when one of its ranks ends.

Beside a run that goes on its ranks get what processor time that leaves over, until it is told to hurry, or
from the beginning where the next run is sure to come.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from nbdist import processes
from nbdist.devices.usage import SpareCpus, memory_total
from nbdist.launch.binding import (
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
from nbdist.warm.idle_policy import IDLE_LIMIT, LEAST_MEMORY, BackgroundShare, IdlePolicy
from nbdist.warm.match import Staleness
from nbdist.worker.order import HURRY, PLACE, ROOM, WAIT, Assignment, Preload

_TICK = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What a rank says that its imports were made from (``worker.warm``): ``files`` with time (ns) and size,
    ``reads`` are variables. ``problem`` says why it cannot be used."""

    begun: int
    reads: tuple[str, ...]
    files: Mapping[str, tuple[int, int]]
    path: tuple[str, ...]
    problem: str
    threads: int


@dataclass(slots=True)
class WaitingRank(RankProcess):
    """It imports, says what that was made from (``facts``), and waits. It can be told its run before it is
    ready; it hears of it when it is."""

    facts: Facts | None = None
    _said: bytes = b""
    _assignment: Assignment | None = None
    _doubt: Callable[[], str] = str
    _told: bool = False

    @property
    def told(self) -> bool:
        return self._told

    @property
    def held(self) -> bool:
        """Whether it was stopped (SIGSTOP): it will not be ready."""
        activity = processes.activity(self.process.pid)
        return activity is not None and activity.state in ("T", "t")

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
        self._said += piece
        if self._said.endswith(b"\n"):
            try:
                self.facts, self._said = build(Facts, loads(self._said, exact=True)), b""
            except MALFORMED:
                # it cannot be told its run
                self.send(signal.SIGKILL)
                return None
            self._tell()
        return b"" if piece else None

    def ask(self, words: bytes) -> None:
        # what comes before its run would be taken for a part of it
        if self._told:
            RankProcess.ask(self, words)

    def engage(self, assignment: Assignment, doubt: Callable[[], str]) -> None:
        """Tell it its run, as soon as it is ready. ``doubt`` is asked then why it cannot be used as it is,
        and has to begin again, cold; empty when it can."""
        self._assignment, self._doubt = assignment, doubt
        if self.facts is None:
            with contextlib.suppress(OSError):
                self.channel.send(HURRY)
        self._tell()

    def _tell(self) -> None:
        if self._assignment is None or self.facts is None:
            return
        self._assignment.cold = self._doubt()
        self.channel.setblocking(True)
        with contextlib.suppress(OSError):
            # one that has died is found by its exit
            self.channel.sendall(self._assignment.encode())
        self.channel.setblocking(False)
        self._told = True


def problem_of(waiting: WaitingRank) -> str:
    """Why a rank that has done its imports cannot be used; empty when it can."""
    facts = waiting.facts
    assert facts is not None, "it is asked when the rank is ready"
    return facts.problem or unfit(waiting.process.pid, facts.threads)


def unfit(pid: int, allowed: int = 1) -> str:
    """What a process has that a rank may not have before its program runs; empty when there is nothing.
    ``allowed`` are the threads that it has when it has imported what computes, and nothing else."""
    try:
        threads = len(os.listdir(f"/proc/{pid}/task"))
        files = [os.readlink(entry.path) for entry in os.scandir(f"/proc/{pid}/fd")]
        stat = processes.identify(pid)
    except OSError:
        stat = None
    if stat is None:
        return "is gone"
    if threads != allowed:
        return f"has {threads} threads after its imports, not {allowed}"
    device = next((path for path in files if path.startswith("/dev/nvidia")), "")
    return f"has opened {device}" if device else ""


class Standby:
    """``line`` leads to the kernel, ``reaper`` to the process above."""

    def __init__(
        self,
        offer: dict[str, Any],
        line: socket.socket,
        reaper: socket.socket,
        *,
        idle_policy: IdlePolicy,
    ) -> None:
        self._spec = RunSpec.from_dict(offer["spec"])
        self._preload = Preload(**offer["preload"])
        self._line = line
        self._reaper = reaper
        self._idle_policy = idle_policy
        self._group = group_for_ranks()
        self._spawn = partial(start_rank, group=self._group)
        self._ranks: dict[int, WaitingRank] = {}
        self._beside, self._at_once = bool(offer["beside"]), bool(offer["hurry"])
        self._background: BackgroundShare | None = None
        self._spare: SpareCpus | None = None
        self._inherited = dict(os.environ)
        self._own: dict[int, tuple[Mapping[str, str], Mapping[str, str]]] = {}
        self._selector = selectors.DefaultSelector()
        self._staleness: Staleness | None = None
        self._said = b""
        self._ready = False
        self._over = ""
        self._hopeless = False
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
        if self._beside and not self._at_once:
            self._background, self._spare = BackgroundShare(), SpareCpus()
        self._begin_in_time()
        self._say({"up": True})
        while self._go is None and not self._over and not lifeline.gone:
            for key, _ in self._selector.select(_TICK):
                key.data()
            self._reap()
            self._look_at_the_clock()
            self._begin_in_time()
        self._selector.close()
        # what comes from here on is for the supervisor of the run, if there is to be one
        signal.pthread_sigmask(signal.SIG_BLOCK, REQUESTS_TO_END)
        self._signalled(wakeup)
        if self._go is None or self._over:
            return self._end()
        return self._supervise(self._go)

    def _end(self) -> int:
        self._say({"gone": self._over, "hopeless": self._hopeless})
        end_descendants(collect_exited, patience=0.0)
        if self._group is not None:
            self._group.end()
            self._group.remove()
        return 0

    def _begin_in_time(self) -> None:
        """Start the ranks, beside a run when that will not feel it: what cannot be kept behind it has to find
        as many CPUs idle as there are ranks."""
        if self._ranks or self._over or self._go is not None:
            return
        if self._background is not None and self._spare is not None:
            felt = not self._background.possible or self._spare.limited
            if felt and self._spare.look() < len(self._spec.ranks):
                return
        self._begin()

    def _begin(self) -> None:
        """Start the ranks, each as it would be for the run that is awaited."""
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
            if self._background is not None:
                self._background.take(started.process.pid)
            waiting = self._ranks[rank.rank] = WaitingRank(started.process, started.channel)
            self._selector.register(
                waiting.channel, selectors.EVENT_READ, lambda r=rank.rank: self._hear_rank(r)
            )

    def _hear_rank(self, rank: int) -> None:
        waiting = self._ranks[rank]
        if waiting.hear() is None:
            self._over = self._over or f"rank {rank} ended while it waited"
            self._hopeless = not self._ready
            self._selector.unregister(waiting.channel)
            return
        if self._ready or any(one.facts is None for one in self._ranks.values()):
            return
        self._ready = True
        facts = [one.facts for one in self._ranks.values() if one.facts is not None]
        self._over = next(filter(None, map(problem_of, self._ranks.values())), "")
        if self._over:
            self._hopeless = True
            return
        self._hurry()
        self._staleness = Staleness(facts[0].files, facts[0].path, self._spec.cwd)
        reads = sorted({name for one in facts for name in one.reads})
        self._say({"ready": {"reads": reads, "pids": [os.getpid(), *self._pids()]}})

    def _pids(self) -> list[int]:
        return [one.process.pid for one in self._ranks.values()]

    def _hurry(self) -> None:
        """Let the ranks have the share of any process."""
        if self._background is not None:
            for pid in self._pids():
                self._background.give_back(pid)

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
            try:
                self._obey(loads(line, exact=True))
            except MALFORMED:
                self._leave()

    def _obey(self, said: dict[str, Any]) -> None:
        if "go" in said:
            if problem := self._problem():
                self._say({"taken": problem})
            else:
                self._go = said
        elif "hurry" in said:
            self._beside = False
            self._hurry()
            self._background = None
        else:
            self._leave()

    def _problem(self) -> str:
        """Why the ranks are not what a cold start would make now; empty when they are, as far as is known."""
        self._reap()
        if self._over or self._staleness is None:
            return self._over
        for rank, waiting in self._ranks.items():
            if problem := problem_of(waiting):
                return f"rank {rank} {problem}"
        return self._staleness.changed()

    def _supervise(self, said: dict[str, Any]) -> int:
        """Be the supervisor of a run. It begins with an acknowledgement: without one it is not begun."""
        directory = RunDirectory(Path(said["go"]))
        # before it is acknowledged: what started the reaper looks for the lock when that has ended
        if not self._tell_reaper(directory) or not self._say({"taken": ""}):
            return self._end()
        self._line.close()
        if not self._ready:
            self._hurry()
        os.environ.clear()
        os.environ.update(said["environment"])
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
        """The rank that waits, or will, with its run; a new process where there is none, or where it will
        not be ready."""
        waiting = self._ranks.pop(command.rank, None)
        if waiting is None or isinstance(command.order, Preload):
            return self._spawn(command)
        if waiting.facts is None and waiting.held:
            waiting.send(signal.SIGKILL)
            return self._spawn(command)
        # where that is impossible a cold start fails in the same way
        os.close(os.open(command.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600))
        assignment = Assignment(
            **vars(command.order),
            environment=dict(command.environment),
            cwd=command.cwd,
            log=str(command.log),
        )
        # ranks that were ready have been compared before
        waiting.engage(assignment, str if self._ready else partial(self._doubt, waiting, command.rank))
        return waiting

    def _doubt(self, waiting: WaitingRank, rank: int) -> str:
        """Why a rank that was given its run while it imported is not what a cold start would have made then;
        empty when it is."""
        facts = waiting.facts
        assert facts is not None, "it is asked when the rank is ready"
        reads, unseen = frozenset(facts.reads), tuple(self._preload.unseen)
        then, now = self._inherited | dict(self._own[rank][0]), dict(os.environ) | dict(self._own[rank][1])
        for name in sorted(then.keys() | now.keys()):
            if then.get(name) != now.get(name) and (name in reads or name.startswith(unseen)):
                return f"{name} changed while {self._spec.framework} was imported, which may read it"
        staleness = Staleness(facts.files, facts.path, self._spec.cwd)
        return problem_of(waiting) or staleness.changed_since(facts.begun)

    def _tell_reaper(self, directory: RunDirectory) -> bool:
        """Which run it is from now on; with the lock, so that it holds as long as one of the two lives.
        False when the reaper has gone."""
        held = []
        with contextlib.suppress(OSError):
            held.append(take_run_lock(directory))
        try:
            socket.send_fds(self._reaper, [os.fsencode(directory.path)], held)
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
        if self._beside:
            self._idle_policy.restart()
        self._over = self._over or self._idle_policy.over()

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
    """The process of a standby: ``FD``. What it stands by for is the first line on the socket."""
    line = socket.socket(fileno=int(arguments[0]))
    line.set_inheritable(False)
    drop_interrupt()
    become_subreaper()
    ours, theirs = socket.socketpair()
    reaper = os.getpid()
    supervisor = os.fork()
    if supervisor == 0:
        ours.close()
        die_with_parent(reaper, signal.SIGTERM)
        offer = loads(_first_line(line), exact=True)
        least = max(LEAST_MEMORY, (memory_total() or 0) // 10)
        idle_policy = IdlePolicy(least=least, limit=float(offer.get("idle", IDLE_LIMIT)))
        return Standby(offer, line, theirs, idle_policy=idle_policy).stand_by()
    # the kernel is to see the end of the one that it talks to
    line.close()
    theirs.close()
    return watch_over(supervisor, _AssignedRun(ours).run)


def _first_line(line: socket.socket) -> bytes:
    data = b""
    while not data.endswith(b"\n"):
        piece = line.recv(1 << 20)
        if not piece:
            sys.exit(0)
        data += piece
    return data


class _AssignedRun:
    """What the reaper is told by the supervisor: the run that it has taken, with its lock, for this process
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
