"""One attempt of a run: the processes of its ranks, what they say, and what is recorded beside them.

It is told when to look and what has exited; what follows from that is the run policy's to decide.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING

from nbdist import config, processes
from nbdist.launch.lifetime import complain
from nbdist.launch.log_watch import LogWatch
from nbdist.launch.rank_process import RankCommand, RankProcess, port_was_taken, rank_command, rank_sockets
from nbdist.launch.run_policy import RunPolicy
from nbdist.launch.stalls.stack_taker import RankContact, StackTaker, find
from nbdist.launch.stalls.stall_watch import StallWatch
from nbdist.model import Rendezvous, RunSpec
from nbdist.store.logs import LogStream
from nbdist.store.paths import RunDirectory, make_private
from nbdist.worker.order import (
    ERRORED,
    FINISHED,
    FINISHED_ALONE,
    FREE,
    FREED,
    HEARD,
    INTERRUPT,
    KEPT,
    LEAVING,
    Wait,
)

if TYPE_CHECKING:
    from nbdist.control_groups import ControlGroup
    from nbdist.launch.log_watch import WorkerLogs
    from nbdist.launch.meters import Meters
    from nbdist.launch.session import Session
    from nbdist.launch.stalls.across_machines import StallExchange

_ERROR_TAIL = 65_536

QUIET_BEFORE_STACKS = 5.0
"""Seconds without a sign of life after which it is worth knowing where a rank was when it was ended."""

_EXITS = 1.0
"""Seconds after which a rank has exited that has closed its socket by that."""

_HEARS = 0.4
"""Seconds that a rank's thread has to answer; native code may keep the interpreter from it."""


class Attempt:
    """The ranks of one attempt. ``spawn`` starts a rank; the selector tells when one has something to say."""

    def __init__(
        self,
        directory: RunDirectory,
        spec: RunSpec,
        number: int,
        *,
        policy: RunPolicy,
        selector: selectors.BaseSelector,
        spawn: Callable[[RankCommand], RankProcess],
        others: StallExchange | None = None,
        group: ControlGroup | None = None,
    ) -> None:
        self._directory = directory
        self._spec = spec
        self._number = number
        self._policy = policy
        self._selector = selector
        self._spawn = spawn
        self._group = group
        self._ranks: dict[int, RankProcess] = {}
        self._importing: tuple[int, ...] = ()
        self._rank_of: dict[int, int] = {}
        self._oom_kills = processes.oom_kills()
        self._logs = LogWatch(room=config.log_room(), report=complain)
        self._meters: Meters | None = None
        self._copies: WorkerLogs | None = None
        self._taker = StackTaker(directory, number, wall_clock=time.time, others=others)
        self._limit = spec.hang_after or float("inf")
        self._stalls = StallWatch(self._limit)
        self._others = others
        if others is not None:
            others.next_attempt()
        self._last_look = self._knows_waits = False
        # until when these ranks may answer that they interrupt their program, or come back from a wait
        self._unheard: dict[int, float] = {}
        self._unfreed: dict[int, float] = {}
        # when those are freed that were interrupted by themselves, and how long they must have waited
        self._interrupted: dict[int, tuple[float, float]] = {}
        # when it is seen whether these ranks of a session have closed their sockets and go on
        self._unreachable: dict[int, float] = {}
        self.session: Session | None = None
        """What gives the ranks cells, where there is such."""

    def start(self, rendezvous: Rendezvous) -> None:
        """Start every rank. Raises OSError when one cannot be started; others may then run."""
        self._policy.attempt_started(self._number, rendezvous.host, rendezvous.port, time.monotonic())
        for rank in self._spec.here:
            files = self._directory.rank(rank.rank, self._number)
            make_private(files.path)
            started = self._spawn(rank_command(self._directory, self._spec, rank, self._number, rendezvous))
            self._ranks[rank.rank] = started
            self._rank_of[started.process.pid] = rank.rank
            self._selector.register(started.channel, selectors.EVENT_READ, lambda r=rank.rank: self._hear(r))
            self._policy.rank_started(rank.rank, started.process)
            self._logs.add(rank.rank, files)
            self._stalls.add(rank.rank, started.process.pid)
        self._look_for_imports()
        self._meter()
        self._copy_logs()

    @property
    def quiet(self) -> bool:
        """Whether the ranks write nothing at present, as far as has been seen."""
        return self._logs.quiet

    def tick(self, now: float) -> None:
        """Record what is to be seen of the ranks, if it is time."""
        self._end_waits(now)
        self._logs.tick(now)
        if self._copies is not None:
            self._copies.tick(now)
        self._stalls.tick(now)
        if self._logs.grew or (self.session is not None and not self.session.busy):
            self._stalls.did(now)
        if self._meters is not None and self._meters.tick(now) and self._policy.goes_on:
            self._judge(now)
        if self._others is not None and self._others.was_asked() and not self._last_look:
            self._stalls.pardon()
            self._taker.take(self._asked(), now, told=False)
        if self._taker.tick(now):
            if self._taker.last is not None:
                self._stalls.took(self._taker.last, now)
            self._policy.peers_answered(now)
            # a reader who finds the stall is to find its stacks, too
            if self._stalls.stalled and self._policy.run.stalled is None:
                self._tell_stall(now)

    def take_stacks(self, name: str, now: float) -> None:
        """Find out where the ranks are, for the request of this name; of ranks that were told to end,
        where they had been."""
        if self._last_look:
            self._taker.repeat(name)
            return
        self._stalls.pardon()
        self._taker.take(self._asked(), now, name=name)

    def interrupt(self, rank: int, patience: float = config.STUCK_AFTER) -> None:
        """Let a rank do what it does at Ctrl-C; free it after ``patience`` seconds if it waits for others."""
        if rank in self._ranks and not self._policy.run.ranks[rank].state.terminal:
            self._interrupt(rank)
            self._interrupted[rank] = time.monotonic() + patience, patience

    def came_back(self, rank: int) -> None:
        """A rank is done with what it was interrupted in, or was to be freed from."""
        self._unheard.pop(rank, None)
        self._unfreed.pop(rank, None)
        self._interrupted.pop(rank, None)

    def tell(self, rank: int, words: bytes) -> None:
        """Tell a rank of a session something. The exit of one that has gone is about to be seen."""
        with contextlib.suppress(OSError):
            self._ranks[rank].ask(words)

    def log_size(self, rank: int) -> int:
        """How many bytes the log of a rank has now."""
        try:
            return os.stat(self._directory.rank(rank, self._number).log).st_size
        except OSError:
            return 0

    def exited(self, pid: int, status: int, memory: int) -> None:
        """A child has been collected, which need not be a rank. ``memory``: the most bytes that it held."""
        rank = self._rank_of.pop(pid, None)
        if rank is None:
            return
        self.came_back(rank)
        # what it said before it exited may still wait in its socket
        self._hear(rank)
        code = os.waitstatus_to_exitcode(status)
        oom = code == -signal.SIGKILL and processes.oom_kills() > self._oom_kills
        self._logs.look_at(rank)
        if self._meters is not None:
            self._meters.remove(rank)
        self._stalls.did(time.monotonic())
        files = self._directory.rank(rank, self._number)
        with contextlib.suppress(OSError):
            files.error_room.unlink()
        log = LogStream(files.log).size
        limit = self._limit_of(rank) if code == -signal.SIGKILL else 0
        full = self._full() if code else ""
        self._policy.rank_exited(
            rank, code, time.monotonic(), oom=oom, memory=memory, log=log, limit=limit, full=full
        )

    def _limit_of(self, rank: int) -> int:
        """The memory limit that the rank has met; 0 where it has met none."""
        return self._spec.memory or 0 if self._group is not None and self._group.ran_out(rank) else 0

    def _full(self) -> str:
        """The disk that is full now: the run's own, or shared memory. Others may hang, as those of a server
        that is away do."""
        from nbdist.devices.usage import SHARED_MEMORY, full_disks  # most ranks end well

        return ", ".join(disk.mount for disk in full_disks([str(self._directory.path), SHARED_MEMORY]))

    def send(self, rank: int, number: signal.Signals) -> None:
        if number is signal.SIGINT:
            now = time.monotonic()
            self._look_once_more(
                now, wanted=self._policy.timed_out or self._stalls.quiet(now) > QUIET_BEFORE_STACKS
            )
            self._interrupt(rank)
        elif (started := self._ranks.get(rank)) is not None:
            started.send(number)

    def free(self, ranks: Collection[int], patience: float) -> list[int]:
        """Get ranks back that have waited for others for so many seconds; they answer. Those that cannot be
        asked."""
        now = time.monotonic()
        if not self._knows_waits and self._policy.run.stalled is None:
            self._knows_waits = True
            self._taker.take(self._asked(), now, told=False)
        pids = {rank: started.process.pid for rank, started in self._ranks.items()}
        run = self._policy.run
        sockets = rank_sockets(pids, run.port or 0, run.hosts)
        kept = []
        for rank in ranks:
            wait = Wait(patience=patience, sockets=sockets[rank][0], store=sockets[rank][1])
            if self._asks(rank, FREE + wait.encode()):
                self._unfreed[rank] = now + patience + _HEARS
            else:
                kept.append(rank)
        return kept

    def _interrupt(self, rank: int) -> None:
        """Ask the rank to raise KeyboardInterrupt, or else send SIGINT."""
        if self._asks(rank, INTERRUPT):
            self._unheard[rank] = time.monotonic() + _HEARS
        elif (started := self._ranks.get(rank)) is not None:
            started.send(signal.SIGINT)

    def _asks(self, rank: int, words: bytes) -> bool:
        """Whether the rank's thread is there, and could be asked."""
        started = self._ranks.get(rank)
        if started is None:
            return False
        target = find(started.process, self._directory.rank(rank, self._number))
        if target.problem or not target.thread:
            return False
        try:
            started.ask(words)
        except OSError:
            return False
        return True

    def _end_waits(self, now: float) -> None:
        """See to ranks that have not answered in time."""
        for rank in [rank for rank, until in self._unheard.items() if now >= until]:
            del self._unheard[rank]
            self._ranks[rank].send(signal.SIGINT)
        for rank in [rank for rank, until in self._unfreed.items() if now >= until]:
            del self._unfreed[rank]
            self._policy.rank_kept(rank, now)
        for rank in [rank for rank, (until, _) in self._interrupted.items() if now >= until]:
            _, patience = self._interrupted.pop(rank)
            self.free((rank,), patience)
        for rank in [rank for rank, until in self._unreachable.items() if now >= until]:
            del self._unreachable[rank]
            self._see_whether_it_exits(rank, now)

    def _see_whether_it_exits(self, rank: int, now: float) -> None:
        """Let the session do without a rank that can be given no cells."""
        over = self._policy.stop_reason is not None or self._policy.run.ranks[rank].state.terminal
        if self.session is None or over:
            return
        if processes.is_exiting(self._ranks[rank].process.pid):
            self._unreachable[rank] = now + _EXITS
        else:
            self.session.unreachable(rank, now)

    def port_was_taken(self) -> bool:
        """Whether rank 0 says that another process had the port where the ranks were to meet."""
        log = LogStream(self._directory.rank(0, self._number).log)
        log.skip_to_tail(_ERROR_TAIL)
        text = log.read(_ERROR_TAIL).decode(errors="replace")
        port = self._policy.run.port
        return port is not None and port_was_taken(text, port)

    def forget(self) -> frozenset[int]:
        """Stop listening and measuring: all ranks have exited, or cannot be made to. The next attempt's
        must not be taken for these.

        Returns the pids of what was started here and could not be ended, which is no rank.
        """
        self._taker.tick(float("inf"))
        for rank in self._ranks.values():
            if rank.channel.fileno() >= 0:
                self._selector.unregister(rank.channel)
                rank.channel.close()
        self._ranks.clear()
        self._rank_of.clear()
        return frozenset() if self._meters is None else self._meters.close()

    def close(self) -> None:
        """Record what the logs hold, now that nothing is left that may write to them."""
        self._logs.close()
        if self._copies is not None:
            self._copies.close()

    def _look_for_imports(self) -> None:
        """Record which ranks import, when those are others than before."""
        importing = tuple(rank for rank, started in self._ranks.items() if not started.told)
        if importing != self._importing:
            self._importing = importing
            self._policy.imports_awaited(importing)

    def _copy_logs(self) -> None:
        if self._spec.log_dir:
            from nbdist.launch.log_watch import WorkerLogs  # most runs have none

            logs = [(r.local_rank, self._directory.rank(r.rank, self._number).log) for r in self._spec.here]
            self._copies = WorkerLogs(Path(self._spec.log_dir), logs, report=complain)

    def _meter(self) -> None:
        """Begin to measure what the ranks use."""
        from nbdist.launch.meters import Meters  # no rank has to wait for these 6 ms

        self._meters = Meters(stalls=self._stalls)
        for rank in self._spec.here:
            files = self._directory.rank(rank.rank, self._number)
            process = self._ranks[rank.rank].process
            self._meters.add(rank.rank, process, rank.device, files, time.monotonic())

    def _judge(self, now: float) -> None:
        """After the ranks have been measured: say that they have stalled, or go on."""
        if self._others is not None:
            self._others.tell(self._stalls.stillness(now), self._limit, now)
        if not self._stalls.judge(now, () if self._others is None else self._others.elsewhere(now)):
            if self._stalls.wants_look:
                self._taker.glance(self._asked(), now)
            return
        if self._stalls.stalled:
            self._taker.take(self._asked(), now)
            if not self._taker.busy:
                self._tell_stall(now)
        elif self._policy.run.stalled is not None:
            self._policy.resumed()

    def _tell_stall(self, now: float) -> None:
        if self._policy.goes_on:
            self._policy.stalled(now - self._stalls.active)

    def _look_once_more(self, now: float, *, wanted: bool) -> None:
        """Take stacks before the first rank gets a signal, so that a report says where the run hung; once,
        and not when a stall has recorded them already."""
        if self._last_look:
            return
        self._last_look = True
        if wanted and self._policy.run.stalled is None:
            self._knows_waits = True
            self._taker.take(self._asked(), now, ending=True)

    def _asked(self) -> list[RankContact]:
        return [
            RankContact(rank, started.process, self._directory.rank(rank, self._number), started.ask)
            for rank, started in self._ranks.items()
            if not self._policy.run.ranks[rank].state.terminal
            and self._policy.run.ranks[rank].errored is None
        ]

    def _hear(self, rank: int) -> None:
        """Hear what a rank says about itself, unless its socket has been closed."""
        channel = self._ranks[rank].channel
        if channel.fileno() < 0:
            return
        words = self._ranks[rank].hear()
        if self._importing:
            self._look_for_imports()
        if words is None:
            self._selector.unregister(channel)
            channel.close()
            self._unreachable[rank] = time.monotonic() + _EXITS
            return
        if self._policy.run.ranks[rank].state.terminal:
            return
        for word in words:
            self._take_word(rank, bytes([word]), time.monotonic())

    def _take_word(self, rank: int, word: bytes, now: float) -> None:
        if word == ERRORED:
            self._policy.rank_errored(rank, now)
            self._look_once_more(now, wanted=self._policy.stop_reason is None)
        elif word in (FINISHED, FINISHED_ALONE):
            self._policy.rank_finished(rank, joined=word != FINISHED_ALONE)
        elif word == HEARD:
            self._unheard.pop(rank, None)
        elif word in (FREED, KEPT, LEAVING):
            self._unfreed.pop(rank, None)
            if word == KEPT and self._unheard.pop(rank, None) is not None:
                self._ranks[rank].send(signal.SIGINT)
            elif self.session is not None:
                self.session.answered(rank, word, now)
            elif word == FREED:
                self._policy.rank_freed(rank)
            elif word == KEPT:
                self._policy.rank_kept(rank, now)
        elif self.session is not None:
            self.session.hear(rank, word, now)
