"""The supervisor of one run: starts its ranks, watches them, ends them, and writes the journal.

Standard library only, one thread (the ranks' parent-death signal belongs to the thread that forked
them), its own session. What to do is decided in ``course``; this module waits and acts.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import socket
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from nbdist import processes
from nbdist.errors import LaunchError
from nbdist.launch.course import Course, Outcome
from nbdist.launch.keeper import keep
from nbdist.launch.lifetime import Lifeline, become_subreaper, end_descendants
from nbdist.launch.rank_process import RankCommand, RankProcess, start_rank
from nbdist.launch.rendezvous import Reservation, port_was_taken
from nbdist.model import (
    ProcessId,
    RankSpec,
    Rendezvous,
    RunEnded,
    RunSpec,
    SupervisorStarted,
)
from nbdist.model.states import RunState
from nbdist.store.control import take_requests
from nbdist.store.journal import Journal
from nbdist.store.log_stream import LogStream
from nbdist.store.paths import RunDirectory, make_private
from nbdist.worker.order import ERRORED, Order

_THEFTS = 3
"""How often a run is started again, unasked, because somebody else took its port."""

_ERROR_TAIL = 65_536
_TICK = 0.05
"""Seconds between two looks into control/."""


class Supervisor:
    """Runs one run to its end. ``spawn`` and ``reserve`` are what a test puts in its own of."""

    def __init__(
        self,
        directory: RunDirectory,
        spec: RunSpec,
        lifeline: Lifeline,
        *,
        spawn: Callable[[RankCommand], RankProcess] = start_rank,
        reserve: Callable[[], Reservation] = Reservation,
    ) -> None:
        self._directory = directory
        self._spec = spec
        self._lifeline = lifeline
        self._spawn = spawn
        self._reserve = reserve
        self._journal = Journal(directory.journal, report=_complain)
        self._ranks: dict[int, RankProcess] = {}
        self._attempts = 0
        self._retries = spec.retries
        self._thefts = 0
        self._oom_kills = 0
        self._selector = selectors.DefaultSelector()
        self._course = Course(spec, record=self._journal.append, send=self._send, wall_clock=time.time)

    def run(self) -> RunState:
        """From the first event to the last. Returns how the run ended."""
        self._watch_signals()
        become_subreaper()
        myself = processes.identify(os.getpid())
        assert myself is not None, "a running process is in the process table"
        self._course.record(
            SupervisorStarted(
                time=time.time(),
                pid=myself.pid,
                start_time=myself.start_time,
                boot_id=myself.boot_id,
                host=os.uname().nodename,
            )
        )
        self._watch_owner()
        outcome = self._attempt()
        while self._try_again():
            leftover = end_descendants(self._reap)
            self._course.next_attempt(outcome.reason, leftover)
            outcome = self._attempt()
        return self._end(outcome)

    def _attempt(self) -> Outcome:
        """Start every rank and wait until all have exited."""
        try:
            reservation = self._reserve()
        except LaunchError as error:
            return Outcome(state=RunState.FAILED, reason=str(error))
        try:
            self._start_ranks(reservation.rendezvous)
        except OSError as error:
            reason = f"a rank could not be started: {error}"
            self._course.stop(reason, time.monotonic())
            self._wait()
            return Outcome(state=RunState.FAILED, reason=reason)
        else:
            self._wait()
            return self._course.outcome()
        finally:
            reservation.release()
            self._forget_ranks()

    def _forget_ranks(self) -> None:
        """Close what is still open to the ranks: the next attempt's must not be taken for these."""
        for rank in self._ranks.values():
            if rank.channel.fileno() >= 0:
                self._selector.unregister(rank.channel)
                rank.channel.close()
        self._ranks.clear()

    def _try_again(self) -> bool:
        """Whether the attempt that is over is followed by another."""
        if not self._course.may_be_tried_again:
            return False
        if self._thefts < _THEFTS and self._port_was_taken():
            self._thefts += 1
            return True
        if self._retries > 0:
            self._retries -= 1
            return True
        return False

    def _port_was_taken(self) -> bool:
        run = self._course.run
        log = LogStream(self._directory.rank(0, run.attempt).log)
        log.skip_to_tail(_ERROR_TAIL)
        text = log.read(_ERROR_TAIL).decode(errors="replace")
        return run.port is not None and port_was_taken(text, run.port)

    def _start_ranks(self, rendezvous: Rendezvous) -> None:
        attempt = self._attempts = self._attempts + 1
        self._oom_kills = processes.oom_kills()
        self._course.attempt_started(attempt, rendezvous.host, rendezvous.port, time.monotonic())
        for rank in self._spec.ranks:
            make_private(self._directory.rank(rank.rank, attempt).path)
            started = self._spawn(self._command(rank, attempt, rendezvous))
            self._ranks[rank.rank] = started
            self._selector.register(started.channel, selectors.EVENT_READ, rank.rank)
            self._course.rank_started(rank.rank, started.process)

    def _command(self, rank: RankSpec, attempt: int, rendezvous: Rendezvous) -> RankCommand:
        files = self._directory.rank(rank.rank, attempt)
        environment = dict(os.environ)
        environment |= {key: rendezvous.fill(value) for key, value in rank.environment.items()}
        environment |= {
            "NBDIST_RUN_ID": self._spec.run_id,
            "NBDIST_RUN_DIR": str(self._directory.path),
            "NBDIST_RANK_DIR": str(files.path),
            "NBDIST_RANK": str(rank.rank),
            "NBDIST_BACKEND": self._spec.backend,
        }
        return RankCommand(
            run_id=self._spec.run_id,
            rank=rank.rank,
            python=self._spec.python,
            cwd=self._spec.cwd,
            environment=environment,
            log=files.log,
            order=Order(
                program=self._spec.program,
                args=list(self._spec.args),
                python_path=list(self._spec.python_path),
                module=self._spec.module,
                error_file=str(files.error),
            ),
        )

    def _wait(self) -> None:
        """Until every rank has exited."""
        while not self._course.over(time.monotonic()):
            ready = self._selector.select(self._patience())
            # first who has exited: a peer may already complain that the connection is closed
            self._reap()
            for key, _ in ready:
                if callable(key.data):
                    key.data()
                else:
                    self._drain(key.data)
            self._reap()
            for request in take_requests(self._directory):
                self._course.stop(request.reason, time.monotonic())
            if not self._directory.path.is_dir():
                self._course.stop("the directory of the run was deleted", time.monotonic())
            self._course.tick(time.monotonic())
            self._journal.flush()

    def _patience(self) -> float:
        deadline = self._course.next_deadline()
        return _TICK if deadline is None else max(0.0, min(_TICK, deadline - time.monotonic()))

    def _listen(self, rank: int) -> None:
        """Hear what a rank says about itself."""
        channel = self._ranks[rank].channel
        try:
            words = channel.recv(64)
        except OSError:
            words = b""
        if not words:
            self._selector.unregister(channel)
            channel.close()
            return
        if self._course.run.ranks[rank].state.terminal:
            return
        for word in words:
            if bytes([word]) == ERRORED:
                self._course.rank_errored(rank, time.monotonic())
            else:
                self._course.rank_finished(rank)

    def _reap(self) -> bool:
        """Collect exited children: ranks, and orphans that became ours. Whether others are left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            for rank, started in self._ranks.items():
                if started.process.pid == pid and not self._course.run.ranks[rank].state.terminal:
                    # what it said before it exited may still wait in its socket
                    self._drain(rank)
                    code = os.waitstatus_to_exitcode(status)
                    oom = code == -signal.SIGKILL and processes.oom_kills() > self._oom_kills
                    self._course.rank_exited(rank, code, time.monotonic(), oom=oom)

    def _drain(self, rank: int) -> None:
        """Hear a rank unless its socket has been closed."""
        channel = self._ranks[rank].channel
        if channel.fileno() >= 0:
            self._listen(rank)

    def _send(self, rank: int, number: signal.Signals) -> None:
        started = self._ranks.get(rank)
        if started is not None:
            started.send(number)

    def _watch_owner(self) -> None:
        for descriptor in self._lifeline.descriptors():
            self._selector.register(descriptor, selectors.EVENT_READ, self._owner_gone)

    def _owner_gone(self) -> None:
        for descriptor in self._lifeline.descriptors():
            self._selector.unregister(descriptor)
        of_a_cell = self._directory.is_cell(self._spec.program)
        owner = "the notebook's kernel" if of_a_cell else "the process that started it"
        self._course.stop(f"{owner} ended", time.monotonic())

    def _watch_signals(self) -> None:
        """Wake up for exits of children, and stop the run when told to end."""
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        theirs.setblocking(False)
        signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
        self._wakeup = (ours, theirs)
        self._selector.register(ours, selectors.EVENT_READ, self._take_signals)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            # the handler does nothing: the wake-up descriptor carries the number
            signal.signal(number, lambda *_: None)

    def _take_signals(self) -> None:
        for number in self._wakeup[0].recv(4096):
            if number != signal.SIGCHLD:
                name = signal.Signals(number).name
                self._course.stop(f"the supervisor got {name}", time.monotonic())

    def _end(self, outcome: Outcome) -> RunState:
        leftover = end_descendants(self._reap)
        self._course.record(
            RunEnded(
                time=time.time(),
                state=outcome.state,
                reason=outcome.reason,
                leftover=leftover,
            )
        )
        self._journal.flush()
        self._journal.close()
        return outcome.state


def main(arguments: Sequence[str]) -> int:
    """The supervisor's process. Exits 0 when it has recorded how the run ended, however that was."""
    directory = RunDirectory(Path(arguments[0]).absolute())
    spec = RunSpec.from_dict(json.loads(directory.spec.read_text(encoding="utf-8")))
    descriptor = int(arguments[1]) if len(arguments) > 1 else None
    owner: ProcessId | None = None if spec.detached else spec.owner

    def supervise() -> None:
        Supervisor(directory, spec, Lifeline(owner, descriptor)).run()

    return keep(directory, supervise)


def _complain(message: str) -> None:
    print(f"nbdist: {message}", file=sys.stderr)
