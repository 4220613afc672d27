"""Supervisor of one run, which starts its ranks, watches them, ends them, and writes the journal.

It needs only the standard library, and has one thread (the ranks' parent-death signal belongs to the thread
that forked them) and its own session. ``run_policy`` decides; this module waits and acts.
"""

from __future__ import annotations

import errno
import os
import selectors
import signal
import time
from _socket import socket
from collections.abc import Callable, Collection, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from nbdist import config, processes
from nbdist.control_groups import ControlGroup, make_group, memory_problem
from nbdist.errors import LaunchError, UnknownRun
from nbdist.launch.attempt import Attempt
from nbdist.launch.binding import FOR_THE_RANKS, NOTIFY, allow_files, become_subreaper, drop_interrupt
from nbdist.launch.lifetime import (
    Lifeline,
    Wakeup,
    collect_exited,
    complain,
    end_descendants,
    owner_ended,
    supervisor_started,
)
from nbdist.launch.rank_process import RankCommand, RankProcess, Reservation, start_rank, tell_rank
from nbdist.launch.reaper import keep
from nbdist.launch.run_policy import Outcome, RunPolicy
from nbdist.model import Event, RankCut, RankStarted, Reason, RunEnded, RunSpec, decode_event
from nbdist.model.decoding import loads
from nbdist.model.events import RunState
from nbdist.store.control import RanksRequest, StacksRequest, StopRequest, take_requests
from nbdist.store.journal import Journal
from nbdist.store.paths import NodeDirectory, RunDirectory
from nbdist.store.run_store import read_spec

if TYPE_CHECKING:
    from nbdist.launch.machines.coordinator import Coordinator
    from nbdist.launch.notices import Notices
    from nbdist.launch.session import Session


_THEFTS = 3
"""Restarts of a run, without ``--retries``, after another process took its port."""

_TICK = 0.05
_QUIET_TICK = 0.065
"""Seconds between two looks into control/ and at the logs: wake-ups are the cost of an idle run."""


class Supervisor:
    """The supervisor of one run. Tests inject their own ``spawn`` and ``reserve``."""

    def __init__(
        self,
        directory: RunDirectory,
        spec: RunSpec,
        lifeline: Lifeline,
        *,
        spawn: Callable[[RankCommand], RankProcess] = start_rank,
        reserve: Callable[[], Reservation] = Reservation,
        attempts: int = 0,
        begun: Sequence[Event] = (),
        group: ControlGroup | None = None,
    ) -> None:
        """Open the journal, which has the events ``begun``; ``attempts`` counts those of earlier
        supervisors."""
        self._directory = directory
        self._spec = spec
        self._lifeline = lifeline
        self._spawn = spawn
        self._reserve = reserve
        self._journal = Journal(directory.journal, report=complain)
        self._attempt: Attempt | None = None
        self._attempts = attempts
        self._retries = spec.retries
        self._thefts = 0
        self._spared: frozenset[int] = frozenset()
        self._selector = selectors.DefaultSelector()
        self._policy = RunPolicy(
            spec,
            record=self._record,
            send=self._send,
            wall_clock=time.time,
            free=self._free,
            written=self._written,
            look_at_save=self._look_at_save,
        )
        for event in begun:
            self._policy.know(event)
        self._coordinator: Coordinator | None = None
        self._session: Session | None = None
        self._group = group
        # the watcher of an engine's run tells of it
        on_engine = isinstance(directory, NodeDirectory)
        wanted = NOTIFY in os.environ and not on_engine and spec.node_rank == 0 and spec.sweep is None
        self._notices: Notices | None = None
        if wanted:
            from nbdist.launch.notices import Notices  # most runs have none

            self._notices = Notices(directory)

    def run(self) -> RunState:
        """Supervise from the first event to the last; return how the run ended."""
        wakeup = Wakeup()
        self._selector.register(wakeup.socket, selectors.EVENT_READ, lambda: self._take_signals(wakeup))
        become_subreaper()
        allow_files(len(self._spec.here))
        if self._policy.run.supervisor is None:  # or the journal has begun with this process
            self._policy.record(supervisor_started())
        for descriptor in self._lifeline.descriptors():
            self._selector.register(descriptor, selectors.EVENT_READ, self._owner_gone)
        try:
            self._join_others()
        except LaunchError as error:
            return self._end(Outcome.failed(Reason.said(str(error))))
        outcome = self._try()
        while self._tries_again():
            self._policy.next_attempt(outcome.reason, self._clean_up())
            outcome = self._try()
        return self._end(outcome)

    def _try(self) -> Outcome:
        """Start every rank and wait until all have exited."""
        coordinator = self._coordinator
        try:
            reservation = self._reserve() if coordinator is None else coordinator.reservation()
        except LaunchError as error:
            return Outcome.failed(Reason.said(str(error)))
        rendezvous = reservation.rendezvous
        if coordinator is not None:
            if (outcome := coordinator.gather(self._attempts + 1)) is not None:
                reservation.release()
                return outcome
            rendezvous = coordinator.complete(rendezvous)
        self._attempts += 1
        attempt = self._attempt = Attempt(
            self._directory,
            self._spec,
            self._attempts,
            policy=self._policy,
            selector=self._selector,
            spawn=self._spawn,
            others=None if coordinator is None else coordinator.stalls,
            group=self._group,
        )
        try:
            attempt.start(rendezvous)
            # after the ranks, which the attempt can end if the disk refuses the session its socket
            if self._spec.session is not None:
                from nbdist.launch.session import Session  # other runs have no cells

                attempt.session = self._session = Session(
                    self._directory, self._spec, policy=self._policy, selector=self._selector, ranks=attempt
                )
        except OSError as error:
            reason = Reason("rank-not-started", error=str(error), **self._remedy(error))
            self._policy.stop(reason, time.monotonic())
            self._wait(attempt)
            return Outcome.failed(reason)
        else:
            self._wait(attempt)
            outcome = self._policy.outcome()
            if coordinator is not None:
                return coordinator.settle(outcome, lambda: self._look(attempt))
            return outcome
        finally:
            reservation.release()
            self._spared |= attempt.forget()

    def _remedy(self, error: OSError) -> dict[str, Reason | int]:
        """Return the obstacle that the user can remove: the limit of open files, or the disk."""
        from nbdist.devices.usage import refusal  # most ranks can be started

        if error.errno == errno.EMFILE:
            return {"files": os.sysconf("SC_OPEN_MAX")}
        disk = refusal(error, self._directory.path)
        return {"disk": disk} if disk else {}

    def _tries_again(self) -> bool:
        """Count and return whether another attempt follows."""
        if self._attempt is None or not self._policy.may_be_tried_again:
            return False
        if self._coordinator is None and self._thefts < _THEFTS and self._attempt.port_was_taken():
            self._thefts += 1
            return True
        self._retries -= 1
        return self._retries >= 0

    def _wait(self, attempt: Attempt) -> None:
        """Wait until every rank has exited."""
        while not self._policy.over(time.monotonic()):
            self._look(attempt)

    def _look(self, attempt: Attempt | None) -> None:
        """Wait a moment, then handle exits, messages of ranks, signals and requests."""
        quiet = attempt is None or attempt.quiet
        tick, deadline = _QUIET_TICK if quiet else _TICK, self._policy.next_deadline()
        patience = tick if deadline is None else max(0.0, min(tick, deadline - time.monotonic()))
        ready = self._selector.select(patience)
        # exits first: a peer may already report the closed connection of an exited rank
        self._reap()
        for key, _ in ready:
            key.data()
        self._reap()
        self._serve(attempt)
        if self._directory.deleted:
            self._policy.stop(Reason("directory-deleted"), time.monotonic(), requested=False)
        if self._coordinator is not None:
            self._coordinator.tick(time.monotonic())
        self._policy.tick(time.monotonic())
        if attempt is not None:
            attempt.tick(time.monotonic())
        if self._session is not None:
            self._session.tick(time.monotonic())
        self._journal.flush()

    def _record(self, event: Event) -> None:
        self._journal.append(event)
        if self._coordinator is not None:
            self._coordinator.local_event(event)
        if self._session is not None:
            self._session.recorded(event)
        if self._notices is not None:
            self._journal.flush()
            self._notices.recorded(event)

    def _join_others(self) -> None:
        """Open the lines to the other machines of the run. Raises LaunchError."""
        if self._spec.nodes == 1:
            return
        # most runs are on one machine, and do without hmac and the like
        from nbdist.launch.machines.coordinator import Coordinator
        from nbdist.launch.machines.nodes import PeerNodes

        # the ranks inherit this environment, but not the key
        nodes = PeerNodes(self._spec, os.environ.pop(config.LINK_KEY).split(","), self._selector)
        nodes.open()
        self._coordinator = Coordinator(
            self._spec, self._policy, nodes, self._directory, look=lambda: self._look(None)
        )

    def _serve(self, attempt: Attempt | None) -> None:
        """Obey the requests in ``control/``."""
        for request in take_requests(self._directory):
            match request:
                case StopRequest():
                    if isinstance(self._directory, NodeDirectory) and self._policy.stop_reason is not None:
                        continue  # another node was faster: do not hasten the end
                    self._policy.stop(request.reason, time.monotonic())
                case StacksRequest() if attempt is not None:
                    attempt.take_stacks(request.name, time.monotonic())
                case RanksRequest() if attempt is not None:
                    attempt.pass_to_ranks(request)

    def _reap(self) -> bool:
        """Reap exited ranks and orphans; return whether others are left."""
        return collect_exited() if self._attempt is None else collect_exited(self._attempt.exited)

    def _send(self, rank: int, number: signal.Signals) -> None:
        if self._attempt is not None:
            self._attempt.send(rank, number)

    def _free(self, ranks: Collection[int], patience: float) -> Collection[int]:
        return ranks if self._attempt is None else self._attempt.free(ranks, patience)

    def _written(self, rank: int) -> int:
        return 0 if self._attempt is None else self._attempt.written(rank)

    def _look_at_save(self, rank: int) -> RankCut:
        assert self._attempt is not None, "its ranks save"
        return self._attempt.look_at_save(rank)

    def _owner_gone(self) -> None:
        for descriptor in self._lifeline.descriptors():
            self._selector.unregister(descriptor)
        reason = self._lifeline.ended or owner_ended(self._directory, self._spec)
        self._policy.stop(reason, time.monotonic(), requested=False)

    def _take_signals(self, wakeup: Wakeup) -> None:
        for number in wakeup.received():
            if number in FOR_THE_RANKS:
                # Slurm has sent it to all processes of the step
                if self._attempt is not None and not isinstance(self._directory, NodeDirectory):
                    self._attempt.pass_on(number)
                continue
            if number is signal.SIGURG and self._policy.stop_reason is not None:
                continue  # another node was faster: do not hasten the end
            reason = Reason("supervisor-got", signal=number.name)
            self._policy.stop(reason, time.monotonic(), requested=False)

    def _clean_up(self) -> int:
        """End the processes that an attempt left; return their number."""
        spared = self._spared if self._notices is None else self._spared | self._notices.senders
        leftover = end_descendants(self._reap, spared=spared)
        if self._group is not None:
            leftover += self._group.end()
        if self._attempt is not None:
            self._attempt.close()
        return leftover

    def _end(self, outcome: Outcome) -> RunState:
        leftover = self._clean_up()
        if self._group is not None:
            self._group.remove()
        if self._coordinator is not None:
            outcome = self._coordinator.close(outcome)
        # another node of an engine's run may still work, and the queue may start the job again
        if self._spec.inputs and not self._spec.keep_inputs and not self._spec.engine:
            self._directory.delete_inputs()
        ended = RunEnded(time=time.time(), state=outcome.state, reason=outcome.reason, leftover=leftover)
        self._policy.record(ended)
        self._journal.flush()
        self._journal.close()
        if self._session is not None:
            self._session.close()
        if self._notices is not None:
            self._notices.finish()
        return outcome.state


def main(arguments: Sequence[str]) -> int:
    """Supervise (``RUN_DIR [LIFELINE_FD]``); return 0 for a recorded end, 2 without a run of this user."""
    drop_interrupt()
    directory = RunDirectory(Path(arguments[0]).absolute())
    try:
        spec = read_spec(directory)
    except UnknownRun as error:
        complain(str(error))
        return 2
    descriptor = int(arguments[1]) if len(arguments) > 1 else None

    def begin() -> None:
        group = group_for_ranks(spec.memory)
        limitless = group is None and spec.memory is not None
        spawn = _refuse if limitless else partial(start_rank, group=group)
        lifeline = Lifeline(None if spec.detached else spec.owner, descriptor)
        Supervisor(directory, spec, lifeline, spawn=spawn, group=group).run()

    return keep(directory, begin)


def _refuse(command: RankCommand) -> RankProcess:
    raise OSError(memory_problem() or "its memory cannot be limited here")


def group_for_ranks(memory: int | None = None) -> ControlGroup | None:
    """Make a control group for this process's children, if allowed, with ``memory`` bytes per rank."""
    myself = processes.identify(os.getpid())
    return None if myself is None else make_group(myself.pid, myself.start_time, memory)


def adopt(
    directory: RunDirectory,
    text: str,
    descriptor: int | None,
    *,
    started: dict[str, tuple[int, socket]],
    lines: Sequence[str],
    port: tuple[int, str, int],
    group: ControlGroup | None,
) -> None:
    """Supervise the ranks ``started`` by ``prestart`` (pids and sockets by directory) for the spec in
    ``text``. The journal begins with ``lines``; without any, the ranks still wait for their orders."""
    spec = RunSpec.from_dict(loads(text, exact=True))
    begun = [event for event in map(decode_event, lines) if event is not None]
    known = {event.pid: event.process for event in begun if isinstance(event, RankStarted)}
    reservations = [Reservation.inherited(*port)]

    def spawn(command: RankCommand) -> RankProcess:
        if (rank := started.pop(command.environment["NBDIST_RANK_DIR"], None)) is None:
            return start_rank(command, group)
        pid, channel = rank
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
