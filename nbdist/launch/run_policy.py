"""Decisions of a supervisor: the reaction to each event of its ranks, and the steps that enforce an end.

It touches no process and no file, so that a test can replay a history. It receives events (``rank_exited``,
``stop``, ``tick``, …) and answers through ``record`` (events for the journal), ``send`` (a signal for a rank)
and ``free`` (ranks to free from waits for others).
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Collection, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from nbdist import config
from nbdist.model import (
    AttemptFailed,
    AttemptStarted,
    Escalated,
    Event,
    ImportsAwaited,
    ProcessId,
    Rank,
    RankErrored,
    RankExited,
    RankFinished,
    RankFreed,
    RankStarted,
    RankState,
    Reason,
    Resumed,
    Run,
    RunSpec,
    RunState,
    Stalled,
    StopRequested,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A step towards the end of a rank: ``signal`` (None: only wait), then ``grace`` seconds. ``free`` frees
    it from a wait for others of so many seconds. Unless ``always``, only freed ranks have the grace."""

    signal: signal.Signals | None = None
    grace: float
    free: float | None = None
    always: bool = True


KILL = Step(signal=signal.SIGKILL, grace=2.0)

# after a stop by a user or a limit, the program may catch KeyboardInterrupt and save its work
ON_STOP = (
    Step(signal=signal.SIGINT, grace=config.STUCK_AFTER),
    Step(free=config.STUCK_AFTER * 0.8, grace=config.INTERRUPT_GRACE - config.STUCK_AFTER),
    Step(signal=signal.SIGTERM, grace=config.TERMINATE_GRACE),
    KILL,
)
# after a failure, the other ranks would wait in a collective for ever
ON_PEER_FAILURE = (
    Step(free=config.PEER_LOOK, grace=config.PEER_GRACE, always=False),
    Step(free=config.PEER_LOOK, grace=config.FREED_GRACE, always=False),
    Step(signal=signal.SIGTERM, grace=config.PEER_GRACE),
    KILL,
)
# the same, after a look at their stacks: the failed rank may have waited for one of them
ON_PEER_ERROR = (Step(grace=config.PEER_LOOK), *ON_PEER_FAILURE)
_TERMINATE = (Step(signal=signal.SIGTERM, grace=config.TERMINATE_GRACE), KILL)
# a rank that raised, too: its traceback takes a second on a busy machine
ON_ERROR_AS_WELL = (Step(grace=config.TERMINATE_GRACE), *_TERMINATE)
# the failed rank itself, which is about to exit
ON_OWN_ERROR = (Step(grace=config.EXIT_GRACE), *_TERMINATE)


class Escalation:
    """The steps that end one rank, each followed by its grace."""

    def __init__(self, steps: tuple[Step, ...], now: float) -> None:
        self._steps = list(steps)
        self._last: Step | None = None
        self.deadline = now

    @property
    def pending(self) -> bool:
        """True while a step is left."""
        return bool(self._steps)

    def due(self, now: float) -> Step | None:
        """Return the next step, if its time has come."""
        if not self._steps or now < self.deadline:
            return None
        step = self._last = self._steps.pop(0)
        self.deadline = now + step.grace
        return step

    def hasten(self, now: float) -> None:
        """Make the next step due at once; after the last one, keep the grace."""
        if self._steps:
            self.deadline = min(self.deadline, now)

    def insist(self, now: float) -> None:
        """Make the next signal due at once."""
        while self._steps and self._steps[0].free is not None:
            del self._steps[0]
        self.hasten(now)

    def give_up(self, now: float) -> None:
        """Make the next signal due, unless ranks that cannot be freed have the grace, too."""
        if self._last is not None and not self._last.always:
            self.insist(now)

    def exhausted(self, now: float) -> bool:
        """Return whether the grace of the last step is over."""
        return not self._steps and now >= self.deadline


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The recorded end of a run."""

    state: RunState
    reason: Reason

    @classmethod
    def failed(cls, reason: Reason) -> Outcome:
        return cls(state=RunState.FAILED, reason=reason)

    @classmethod
    def stopped(cls, reason: Reason) -> Outcome:
        return cls(state=RunState.STOPPED, reason=reason)


class RunPolicy:
    """One attempt of a run, from its first process to its last. ``now`` is always monotonic seconds."""

    def __init__(
        self,
        spec: RunSpec,
        *,
        record: Callable[[Event], None],
        send: Callable[[int, signal.Signals], None],
        wall_clock: Callable[[], float],
        free: Callable[[Collection[int], float], Collection[int]] = lambda ranks, _: ranks,
    ) -> None:
        """Store the callables. ``free`` returns the ranks that it cannot reach."""
        self.run = Run.of(spec)
        self._record_to = record
        self._send = send
        self._free = free
        self._wall_clock = wall_clock
        self._escalations: dict[int, Escalation] = {}
        # signals sent to ranks that had not failed: we caused their ends
        self._sent: dict[int, set[signal.Signals]] = {}
        # ranks whose stacks are taken before they get a signal
        self._looked_at: set[int] = set()
        # a rank got a signal before it had finished
        self._cut_short = False
        self._timeout_at: float | None = None
        self._failed = False
        self.stop_reason: Reason | None = None
        self.timed_out = False
        # a failure on another machine, and if it was the first
        self.peer_failure: Reason | None = None
        self._peer_first = False
        self._hopeless = False

    def next_attempt(self, reason: Reason, leftover: int) -> None:
        """Forget the failed attempt, but not the time limit or a stop, which are the run's."""
        self.record(
            AttemptFailed(time=self._wall_clock(), attempt=self.run.attempt, reason=reason, leftover=leftover)
        )
        self._escalations.clear()
        self._sent.clear()
        self._looked_at.clear()
        self._cut_short = False
        self._failed = False
        self.peer_failure = None

    @property
    def may_be_tried_again(self) -> bool:
        """True if the attempt ended by the failure of a rank, and nothing else ends the run."""
        if self.run.spec.session is not None:
            return False  # the ranks' values are lost
        ended = self.stop_reason is not None or self.timed_out or self._hopeless
        return self._failed and not ended and not self._running()

    def record(self, event: Event) -> None:
        """Record an event in the run and in the journal."""
        self.run = self.run.after(event)
        self._record_to(event)

    def know(self, event: Event) -> None:
        """Apply an event that the journal already has."""
        self.run = self.run.after(event)

    def attempt_started(self, attempt: int, host: str, port: int, now: float) -> None:
        if (self.run.attempt, self.run.port) != (attempt, port):
            self.record(AttemptStarted(time=self._wall_clock(), attempt=attempt, host=host, port=port))
        if self.run.spec.timeout is not None and attempt == 1:
            self._timeout_at = now + self.run.spec.timeout

    def rank_started(self, rank: int, process: ProcessId) -> None:
        if self.run.ranks[rank].process != process:
            self.record(RankStarted(time=self._wall_clock(), rank=rank, **asdict(process)))

    def imports_awaited(self, ranks: tuple[int, ...]) -> None:
        """Record that these ranks still import."""
        self.record(ImportsAwaited(time=self._wall_clock(), ranks=ranks))

    def rank_finished(self, rank: int, *, joined: bool = True) -> None:
        self.record(RankFinished(time=self._wall_clock(), rank=rank, joined=joined))

    def rank_errored(self, rank: int, now: float) -> None:
        """Record that the program of a rank raised, and end its peers before it exits by itself."""
        self.record(RankErrored(time=self._wall_clock(), rank=rank))
        if rank in self._looked_at:
            # it was about to get a signal: most likely it raised because the failed one has gone
            self._note_signal(rank, signal.SIGTERM)
            self._escalations[rank] = Escalation(ON_ERROR_AS_WELL, now)
        self._escalations.setdefault(rank, Escalation(ON_OWN_ERROR, now))
        self._fail(now, ON_PEER_ERROR)

    def kill(self, rank: int) -> None:
        """Kill one rank of a session, as requested."""
        self._note_signal(rank, signal.SIGKILL)
        self._send(rank, signal.SIGKILL)

    def peers_answered(self, now: float) -> None:
        """Continue with the ranks whose stacks have now been taken."""
        for rank in (self._looked_at & self._escalations.keys()) - self._sent.keys():
            self._escalations[rank].hasten(now)
        self._looked_at.clear()

    def rank_freed(self, rank: int) -> None:
        """Record that the rank returns from a wait for others."""
        if self.run.ranks[rank].freed is None:
            self.record(RankFreed(time=self._wall_clock(), rank=rank))

    def rank_kept(self, rank: int, now: float) -> None:
        """Continue with a rank that could not be freed."""
        if (escalation := self._escalations.get(rank)) is not None:
            escalation.give_up(now)

    def rank_exited(self, rank: int, code: int, now: float, **more: Any) -> None:
        """Record the exit of a rank; ``more`` are further fields of the event."""
        sent = self._sent.get(rank, set())
        # a SIGKILL that we did not send came from outside
        ended = bool(sent) and (code != -signal.SIGKILL or signal.SIGKILL in sent)
        self.record(RankExited(time=self._wall_clock(), rank=rank, code=code, ended=ended, **more))
        self._escalations.pop(rank, None)
        if self.run.ranks[rank].state is RankState.FAILED:
            self._fail(now)

    @property
    def goes_on(self) -> bool:
        """True while ranks run and no end has begun."""
        return self.run.state is RunState.RUNNING and bool(self._running())

    def stalled(self, quiet: float) -> None:
        """Record that nothing has happened for so many seconds."""
        now = self._wall_clock()
        self.record(Stalled(time=now, since=now - quiet))

    def resumed(self) -> None:
        """Record the end of a stall."""
        self.record(Resumed(time=self._wall_clock()))

    def peer_failed(self, reason: Reason, now: float, *, final: bool) -> None:
        """Note that another machine's ranks failed, or that it has gone. ``final`` bars another attempt."""
        if self.peer_failure is None:
            self.peer_failure, self._peer_first = reason, not self._failed
        elif reason.extends(self.peer_failure):
            self.peer_failure = reason  # the same in more detail
        self._hopeless |= final
        self._fail(now)

    def stop(self, reason: Reason, now: float, *, requested: bool = True) -> None:
        """End the run; a rank whose end has begun gets its next step at once."""
        for escalation in self._escalations.values():
            escalation.insist(now)
        if self.stop_reason is None:
            self.stop_reason = reason
            self.record(StopRequested(time=self._wall_clock(), reason=reason, requested=requested))
            self._end_ranks(ON_STOP, now)
        self.tick(now)

    def time_is_up(self, now: float) -> None:
        """End the run at its time limit, by the clock of any machine; start no other attempt."""
        self._timeout_at = None
        done = all(rank.state is RankState.FINISHED for rank in self._here())
        if not done and self.stop_reason is None and not self._failed:
            self.timed_out = True
            self._end_ranks(ON_STOP, now)

    def tick(self, now: float) -> None:
        """Apply the limits and the escalation steps that are due."""
        if self._timeout_at is not None and now >= self._timeout_at:
            self.time_is_up(now)
        due: dict[signal.Signals, list[int]] = {}
        stuck: dict[float, list[int]] = {}
        for rank, escalation in self._escalations.items():
            step = escalation.due(now)
            if step is not None and step.signal is not None:
                due.setdefault(step.signal, []).append(rank)
            elif step is not None and step.free is not None:
                stuck.setdefault(step.free, []).append(rank)
        kept = [rank for patience, ranks in stuck.items() for rank in self._release(ranks, patience)]
        for number, ranks in due.items():
            self.record(Escalated(time=self._wall_clock(), ranks=tuple(ranks), signal=number.name))
            for rank in ranks:
                if self.run.ranks[rank].errored is None:
                    self._note_signal(rank, number)
                self._send(rank, number)
        for rank in kept:
            self.rank_kept(rank, now)
        if kept:
            self.tick(now)

    def next_deadline(self) -> float | None:
        """Return the time of the next ``tick`` at the latest; None without a deadline."""
        deadlines = [e.deadline for e in self._escalations.values() if e.pending]
        if self._timeout_at is not None:
            deadlines.append(self._timeout_at)
        return min(deadlines, default=None)

    def over(self, now: float) -> bool:
        """Return whether every rank has exited or survived SIGKILL (stuck in the kernel)."""
        return all(
            rank in self._escalations and self._escalations[rank].exhausted(now) for rank in self._running()
        )

    def outcome(self) -> Outcome:
        """Return how the run ended, once it is over."""
        if stuck := self._running():
            return Outcome.failed(Reason("rank-stuck", ranks=tuple(stuck)))
        if self.timed_out:
            return Outcome.failed(self.run.spec.timeout_reason)
        if self._failed and self.peer_failure is not None and self._peer_first:
            return Outcome.failed(self.peer_failure)
        # a program that finished before its signal has finished
        if not self._cut_short and all(rank.state is RankState.FINISHED for rank in self._here()):
            return Outcome(state=RunState.FINISHED, reason=Reason())
        if self.stop_reason is not None and not self._failed:
            return Outcome.stopped(self.stop_reason)
        # a session lacks a rank that was ended as much as one that failed
        lost = {RankState.FAILED} if self.run.spec.session is None else {RankState.FAILED, RankState.STOPPED}
        failed = tuple(rank.rank for rank in self._here() if rank.state in lost)
        return Outcome.failed(Reason("ranks-failed", ranks=failed))

    def _fail(self, now: float, steps: tuple[Step, ...] = ON_PEER_FAILURE) -> None:
        """End the others, which would wait for ever; those of a session keep their values instead."""
        if self.stop_reason is None and not self.timed_out:
            self._failed = True
        if self.run.spec.session is not None:
            return
        self._end_ranks(steps, now)
        self.tick(now)

    def _release(self, ranks: list[int], patience: float) -> list[int]:
        """Free these ranks; return those that it cannot free."""
        leaving = [rank for rank in ranks if self.run.ranks[rank].errored is not None]
        waiting = [rank for rank in ranks if rank not in leaving]
        for rank in waiting:
            # a freed rank raises KeyboardInterrupt, as after SIGINT
            self._note_signal(rank, signal.SIGINT)
        return [*leaving, *(self._free(waiting, patience) if waiting else ())]

    def _note_signal(self, rank: int, number: signal.Signals) -> None:
        self._sent.setdefault(rank, set()).add(number)
        self._cut_short |= self.run.ranks[rank].finished is None

    def _end_ranks(self, steps: tuple[Step, ...], now: float) -> None:
        for rank in self._running():
            if rank not in self._escalations:
                self._escalations[rank] = Escalation(steps, now)
                if steps is ON_PEER_ERROR:
                    self._looked_at.add(rank)

    def _running(self) -> list[int]:
        return [rank.rank for rank in self._here() if rank.state is RankState.RUNNING]

    def _here(self) -> Iterator[Rank]:
        """Yield the ranks of this machine."""
        node = self.run.spec.node_rank
        return (rank for rank in self.run.ranks if rank.spec.node_rank == node)
