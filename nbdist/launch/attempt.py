"""One attempt of a run: the processes of its ranks, their messages, and the records beside them."""

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
from nbdist.launch.stalls.across_machines import StallExchange
from nbdist.launch.stalls.stack_taker import RankContact, StackTaker, find
from nbdist.launch.stalls.stall_watch import StallWatch
from nbdist.model import RankCut, Reason, Rendezvous, RunSpec
from nbdist.store.control import RanksRequest
from nbdist.store.held_ranks import read_held
from nbdist.store.logs import LogStream
from nbdist.store.paths import RunDirectory, make_private
from nbdist.worker import order

if TYPE_CHECKING:
    from nbdist.control_groups import ControlGroup
    from nbdist.launch.last_call import LastCall
    from nbdist.launch.log_watch import WorkerLogs
    from nbdist.launch.meters import Meters
    from nbdist.launch.session import Session

_ERROR_TAIL = 65_536

QUIET_BEFORE_STACKS = 5.0
"""Seconds of silence after which a stop records the stacks of the ranks."""

_EXITS = 1.0
"""Seconds between the close of an exiting rank's socket and its exit, at most."""

_HEARS = 0.4
"""Seconds for a rank's thread to answer; native code may hold the interpreter longer."""


class Attempt:
    """The ranks of one attempt, each started by ``spawn``."""

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
        self._limit = spec.hang_after or float("inf")
        self._stalls = StallWatch(self._limit)
        self._others = others or StallExchange(spec, lambda _: None, lambda: policy.run, shared=True)
        self._others.next_attempt()
        self._taker = StackTaker(directory, number, self._others)
        self._last_call: LastCall | None = None
        self._last_look = self._knows_waits = False
        # deadlines by rank: for the answer to an interrupt, for the return from a wait
        self._unheard: dict[int, float] = {}
        self._unfreed: dict[int, float] = {}
        # for ranks interrupted one by one: the time to free each, and the seconds it must have waited
        self._interrupted: dict[int, float] = {}
        self._patience: dict[int, float] = {}
        # for the exit of a rank that has closed its socket
        self._unreachable: dict[int, float] = {}
        self.session: Session | None = None

    def start(self, rendezvous: Rendezvous) -> None:
        """Start every rank. Raises OSError when one cannot start; others may then run."""
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
        from nbdist.launch.meters import Meters  # the ranks need not wait 6 ms for it

        self._meters = Meters(self._stalls)
        for rank in self._spec.here:
            files = self._directory.rank(rank.rank, self._number)
            process = self._ranks[rank.rank].process
            self._meters.add(rank.rank, process, rank.device, files, time.monotonic())
        if self._spec.log_dir:
            from nbdist.launch.log_watch import WorkerLogs  # most runs have none

            logs = [(r.local_rank, self._directory.rank(r.rank, self._number).log) for r in self._spec.here]
            self._copies = WorkerLogs(Path(self._spec.log_dir), logs, report=complain)

    @property
    def quiet(self) -> bool:
        """True while no log grows."""
        return self._logs.quiet

    def tick(self, now: float) -> None:
        """Watch the ranks and record their state, when it is time."""
        self._end_waits(now)
        if self._policy.leaves_by_itself:
            self._agree_on_last_call(now)
        self._logs.tick(now)
        if self._copies is not None:
            self._copies.tick(now)
        self._stalls.tick(now)
        idle = self.session is not None and not self.session.busy
        if self._logs.grew or idle or self._policy.run.held:
            self._stalls.did(now)
        if self._meters is not None and self._meters.tick(now) and self._policy.goes_on:
            self._judge(now)
        if self._others.was_asked() and not self._last_look:
            self._stalls.pardon()
            self._taker.take(self._contacts(), now, everywhere=False)
        if self._taker.tick(now):
            if self._taker.last is not None:
                self._stalls.took(self._taker.last, now)
            self._policy.peers_answered(now)
            # after the stacks: a reader of the stall expects them
            if self._stalls.stalled and self._policy.run.stalled is None:
                self._tell_stall(now)

    def _agree_on_last_call(self, now: float) -> None:
        if self._last_call is None:
            from nbdist.launch.last_call import LastCall  # most runs have no limit

            self._last_call = LastCall(
                self._spec,
                self._policy,
                ask=self._ask,
                files=lambda rank: self._directory.rank(rank, self._number),
                others=self._others,
            )
        live = [rank for rank in self._ranks if not self._policy.run.ranks[rank].state.terminal]
        self._last_call.tick(live, now)

    def take_stacks(self, name: str, now: float) -> None:
        """Take the stacks of the ranks for request ``name``, or repeat those from before their end."""
        if self._last_look:
            self._taker.repeat(name)
            return
        self._stalls.pardon()
        self._taker.take(self._contacts(), now, name=name)

    def interrupt(self, rank: int, patience: float = config.STUCK_AFTER) -> None:
        """Raise KeyboardInterrupt in a rank; free it after ``patience`` seconds if it waits for others."""
        if rank in self._ranks and not self._policy.run.ranks[rank].state.terminal:
            self._interrupt(rank)
            self._interrupted[rank], self._patience[rank] = time.monotonic() + patience, patience

    def pass_to_ranks(self, request: RanksRequest) -> None:
        """Interrupt these ranks, or let their threads do what is requested of their programs."""
        task = order.Task(name=request.name, seconds=request.seconds, expression=request.expression)
        for rank in request.ranks:
            if request.interrupt:
                self.interrupt(rank)
            else:
                self._ask(rank, order.TASK + task.encode())

    def came_back(self, rank: int) -> None:
        """Await no more answer from a rank that was interrupted or freed."""
        for waits in (self._unheard, self._unfreed, self._interrupted):
            waits.pop(rank, None)

    def tell(self, rank: int, words: bytes) -> None:
        """Send bytes to a rank of a session, if it lives."""
        with contextlib.suppress(OSError):
            self._ranks[rank].ask(words)

    def log_size(self, rank: int) -> int:
        """Return the bytes of a rank's log."""
        return LogStream(self._directory.rank(rank, self._number).log).size

    def exited(self, pid: int, status: int, memory: int) -> None:
        """Record the exit of a child, if it was a rank. ``memory`` is its peak in bytes."""
        rank = self._rank_of.pop(pid, None)
        if rank is None:
            return
        self.came_back(rank)
        # its socket may still hold its last messages
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
        full = ""
        if code:
            from nbdist.devices.usage import SHARED_MEMORY, full_disks  # most ranks end well

            # a look at other disks may hang
            disks = full_disks([str(self._directory.path), SHARED_MEMORY])
            full = ", ".join(disk.mount for disk in disks)
        over = code == -signal.SIGKILL and self._group is not None and self._group.ran_out(rank)
        self._policy.rank_exited(
            rank,
            code,
            time.monotonic(),
            oom=oom,
            memory=memory,
            log=self.log_size(rank),
            limit=(self._spec.memory or 0) if over else 0,
            full=full,
        )

    def send(self, rank: int, number: signal.Signals) -> None:
        """Send a rank a signal; before the first SIGINT, which its thread raises, take the stacks of all."""
        if number is signal.SIGINT:
            now = time.monotonic()
            wanted = self._policy.timed_out or self._stalls.quiet(now) > QUIET_BEFORE_STACKS
            self._look_once_more(now, wanted=wanted)
            self._interrupt(rank)
        elif (started := self._ranks.get(rank)) is not None:
            started.send(number)
            if number is signal.SIGTERM:
                self._ask(rank, order.SIGNALLED)

    def pass_on(self, number: signal.Signals) -> None:
        """Send a signal to the ranks that handle it: by default it would end them."""
        for started in self._ranks.values():
            state = processes.activity(started.process.pid)
            if state is not None and state.takes(number):
                started.send(number)

    def written(self, rank: int) -> int:
        """Return the bytes that a rank has written so far."""
        from nbdist.launch import saves  # most ranks need no more time

        return saves.written(self._ranks[rank].process.pid)

    def look_at_save(self, rank: int) -> RankCut:
        """Return what a rank saves now."""
        from nbdist.launch import saves

        line = saves.line_of(self._directory.rank(rank, self._number))
        file, size = saves.open_file(self._ranks[rank].process.pid, self._directory.path)
        return RankCut(time=time.time(), rank=rank, line=line, file=file, size=size)

    def free(self, ranks: Collection[int], patience: float) -> list[int]:
        """Free ranks that have waited for ``patience`` seconds; return the unreachable ones."""
        now = time.monotonic()
        if not self._knows_waits and self._policy.run.stalled is None:
            self._knows_waits = True
            self._taker.take(self._contacts(), now, everywhere=False)
        pids = {rank: started.process.pid for rank, started in self._ranks.items()}
        run = self._policy.run
        sockets = rank_sockets(pids, run.port or 0, run.hosts)
        kept = []
        for rank in ranks:
            wait = order.Wait(patience=patience, sockets=sockets[rank][0], store=sockets[rank][1])
            if self._ask(rank, order.FREE + wait.encode()):
                self._unfreed[rank] = now + patience + _HEARS
            else:
                kept.append(rank)
        return kept

    def _interrupt(self, rank: int) -> None:
        """Let the rank's thread raise KeyboardInterrupt, or else send SIGINT."""
        if self._ask(rank, order.TERMINATE if self._terminates else order.INTERRUPT):
            self._unheard[rank] = time.monotonic() + _HEARS
        elif (started := self._ranks.get(rank)) is not None:
            started.send(signal.SIGINT)

    @property
    def _terminates(self) -> bool:
        """Return whether the run ends by SIGTERM, or by the end of its owner, and not by a person's stop."""
        run = self._policy.run
        number = run.stop_reason.origin.fields.get("signal")
        return number == "SIGTERM" or (bool(run.stop_reason) and not run.stop_requested and number is None)

    def _ask(self, rank: int, words: bytes) -> bool:
        """Send a request to the rank's thread; return False if it cannot be reached."""
        if (started := self._ranks.get(rank)) is not None:
            target = find(started.process, self._directory.rank(rank, self._number))
            if not target.problem and target.thread:
                with contextlib.suppress(OSError):
                    started.ask(words)
                    return True
        return False

    def _end_waits(self, now: float) -> None:
        """Act on ranks that have not answered in time."""
        for rank in _take_overdue(self._unheard, now):
            self._ranks[rank].send(signal.SIGINT)
        for rank in _take_overdue(self._unfreed, now):
            self._policy.rank_kept(rank, now)
        for rank in _take_overdue(self._interrupted, now):
            self.free((rank,), self._patience[rank])
        for rank in _take_overdue(self._unreachable, now):
            over = self._policy.stop_reason is not None or self._policy.run.ranks[rank].state.terminal
            if self.session is None or over:
                continue
            if processes.is_exiting(self._ranks[rank].process.pid):
                self._unreachable[rank] = now + _EXITS
            else:
                self.session.unreachable(rank, now)

    def port_was_taken(self) -> bool:
        """Return whether rank 0 wrote that another process had the ranks' port."""
        log = LogStream(self._directory.rank(0, self._number).log)
        log.skip_to_tail(_ERROR_TAIL)
        text = log.read(_ERROR_TAIL).decode(errors="replace")
        port = self._policy.run.port
        return port is not None and port_was_taken(text, port)

    def forget(self) -> frozenset[int]:
        """Stop listening and measuring; return the pids of helper processes that could not be ended."""
        self._taker.tick(float("inf"))
        for rank in self._ranks.values():
            if rank.channel.fileno() >= 0:
                self._selector.unregister(rank.channel)
                rank.channel.close()
        self._ranks.clear()
        self._rank_of.clear()
        return frozenset() if self._meters is None else self._meters.close()

    def close(self) -> None:
        """Record the last of the logs, once no process can write to them."""
        self._logs.close()
        if self._copies is not None:
            self._copies.close()

    def _look_for_imports(self) -> None:
        """Record the ranks that still import, if they have changed."""
        importing = tuple(rank for rank, started in self._ranks.items() if not started.told)
        if importing != self._importing:
            self._importing = importing
            self._policy.imports_awaited(importing)

    def _judge(self, now: float) -> None:
        """Record after a measurement that the ranks have stalled or resumed."""
        self._others.tell(self._stalls.stillness(now), self._limit, now)
        if not self._stalls.judge(now, self._others.elsewhere(now)):
            if self._stalls.wants_look:
                self._taker.glance(self._contacts(), now)
            return
        if self._stalls.stalled:
            self._taker.take(self._contacts(), now)
            if not self._taker.busy:
                self._tell_stall(now)
        elif self._policy.run.stalled is not None:
            self._policy.resumed()

    def _tell_stall(self, now: float) -> None:
        if self._policy.goes_on:
            self._policy.stalled(now - self._stalls.active)

    def _look_once_more(self, now: float, *, wanted: bool) -> None:
        """Take stacks once, before the first signal, for a report of the hang, unless a stall recorded
        them."""
        if self._last_look:
            return
        self._last_look = True
        if wanted and self._policy.run.stalled is None:
            self._knows_waits = True
            self._taker.take(self._contacts(), now, ending=True)

    def _contacts(self) -> list[RankContact]:
        return [
            RankContact(rank, started.process, self._directory.rank(rank, self._number), started.ask)
            for rank, started in self._ranks.items()
            if not self._policy.run.ranks[rank].state.terminal
            and self._policy.run.ranks[rank].errored is None
        ]

    def _hear(self, rank: int) -> None:
        """Read the messages of a rank, unless its socket is closed."""
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
        if word == order.ERRORED:
            self._policy.rank_errored(rank, now)
            self._look_once_more(now, wanted=self._policy.stop_reason is None)
        elif word in (order.FINISHED, order.FINISHED_ALONE):
            self._policy.rank_finished(rank, joined=word != order.FINISHED_ALONE)
        elif word == order.HELD:
            self._policy.record(read_held(self._directory.rank(rank, self._number), rank))
        elif word == order.QUIT and self.session is None:
            self._policy.stop(Reason("debugger-quit"), now)
        elif word == order.QUIT and self.session is not None:
            self.session.interrupt(now)
        elif word == order.HEARD:
            self._unheard.pop(rank, None)
        elif word in (order.SAVES, order.WRITES, order.WAITS):
            writes, waits = word == order.WRITES, word == order.WAITS
            self._policy.rank_leaves(rank, now, writes=writes, waits=waits)
        elif word == order.PAUSED:
            if self._last_call is not None:
                self._last_call.answered(rank)
        elif word == order.STAYS:
            self._policy.rank_stays(rank, now)
        elif word in (order.FREED, order.KEPT, order.LEAVING):
            self._unfreed.pop(rank, None)
            if word == order.KEPT and self._unheard.pop(rank, None) is not None:
                self._ranks[rank].send(signal.SIGINT)
            elif self.session is not None:
                self.session.answered(rank, word, now)
            elif word == order.FREED:
                self._policy.rank_freed(rank)
            elif word == order.KEPT:
                self._policy.rank_kept(rank, now)
        elif self.session is not None:
            self.session.hear(rank, word, now)


def _take_overdue(waits: dict[int, float], now: float) -> list[int]:
    """Remove the ranks whose deadline has passed from ``waits``, and return them."""
    ranks = [rank for rank, until in waits.items() if now >= until]
    for rank in ranks:
        del waits[rank]
    return ranks
