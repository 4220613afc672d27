"""Decisions of a supervisor: the reaction to each event of its ranks. ``escalation`` has the steps to an end.

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
from nbdist.launch.escalation import (
    ON_ERROR_AS_WELL,
    ON_OWN_ERROR,
    ON_PEER_ERROR,
    ON_PEER_FAILURE,
    ON_STOP,
    Escalation,
    Step,
)
from nbdist.model import (
    AT_LIMIT,
    AttemptFailed,
    AttemptStarted,
    Escalated,
    Event,
    ImportsAwaited,
    ProcessId,
    Rank,
    RankCut,
    RankErrored,
    RankExited,
    RankFinished,
    RankFreed,
    RankSaves,
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
        written: Callable[[int], int] = lambda _: 0,
        look_at_save: Callable[[int], RankCut] | None = None,
    ) -> None:
        """Store the callables. ``free`` returns the ranks that it cannot reach, ``written`` the bytes that a
        rank has written so far, ``look_at_save`` what it saves."""
        self.run = Run.of(spec)
        self._record_to = record
        self._send = send
        self._free = free
        self._written = written
        self._look_at_save = look_at_save
        self._wall_clock = wall_clock
        self._escalations: dict[int, Escalation] = {}
        # signals sent to ranks that had not failed: we caused their ends
        self._sent: dict[int, set[signal.Signals]] = {}
        # ranks whose stacks are taken before they get a signal
        self._looked_at: set[int] = set()
        # ranks on their way out: when they were first, and what they wrote until the last extension
        self._left_at: dict[int, float] = {}
        self._saved: dict[int, int] = {}
        self._waiting: set[int] = set()
        # ranks whose time to save is over
        self._cut: set[int] = set()
        self._stopped_at = 0.0
        # a rank got a signal before it had finished
        self._cut_short = False
        self._timeout_at: float | None = None
        self._ticked_at = 0.0
        # when the ranks are to leave, and when those that have not are ended
        self._until_at: float | None = None
        self._left_alone_until: float | None = None
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
        for by_rank in (self._left_at, self._saved, self._waiting, self._cut):
            by_rank.clear()
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
        if attempt > 1:
            return
        if self.run.spec.timeout is not None:
            self._timeout_at = now + self.run.spec.timeout
        if (until := self.run.spec.until) is not None:
            self._until_at = now + until - (0.0 if self.run.spec.is_from_start else self._wall_clock())

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
        escalation = self._escalations.get(rank)
        # it may have left its wait by itself, and save
        if escalation is not None and escalation.held is None:
            escalation.give_up(now)

    def rank_leaves(self, rank: int, now: float, *, writes: bool = False, waits: bool = False) -> None:
        """Give a rank on its way out its time; one that ``writes`` has more while it goes on to. Where all
        ``waits`` for each other, continue."""
        escalation = self._escalations.get(rank)
        if escalation is None or rank in self._cut or self.run.ranks[rank].errored is not None:
            return
        if self.run.ranks[rank].saves is None:
            self.record(RankSaves(time=self._wall_clock(), rank=rank))
        escalation.held = self._left_at.setdefault(rank, now) + self.run.spec.grace
        # one that has just written may open the next file
        if writes or self._saved.pop(rank, None) is not None:
            escalation.held = max(escalation.held, self._more_time(rank, now))
        if writes:
            self._saved[rank] = self._written(rank)
        (self._waiting.add if waits else self._waiting.discard)(rank)
        if self.run.spec.nodes == 1 and self._waiting >= set(self._running()):
            for waiting in self._waiting & self._escalations.keys():
                self._escalations[waiting].held = None
                self._escalations[waiting].hasten(now)

    def rank_stays(self, rank: int, now: float) -> None:
        """Go on to end a rank that is no longer on its way out."""
        self._waiting.discard(rank)
        if (escalation := self._escalations.get(rank)) is not None and escalation.held is not None:
            self.record(RankSaves(time=self._wall_clock(), rank=rank, saves=False))
            escalation.held = None

    def _hold_longer(self, rank: int, escalation: Escalation, now: float) -> bool:
        """Return whether a rank whose time is over has written since, and gets more."""
        if (before := self._saved.get(rank)) is None:
            return False
        self._saved[rank] = self._written(rank)
        until = self._more_time(rank, now)
        if self._saved[rank] <= before or until <= now:
            return False
        escalation.held = until
        return True

    def _more_time(self, rank: int, now: float) -> float:
        return min(now + self.run.spec.grace, self._left_at[rank] + config.LONGEST_SAVE)

    def _end_save(self, rank: int, escalation: Escalation) -> None:
        """Record what a rank saves that has no more time."""
        escalation.held = None
        self._cut.add(rank)
        if self._look_at_save is not None:
            self.record(self._look_at_save(rank))

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
        """End the run. Where its end was requested some time ago, a request makes the next signal due: only
        that cuts a save short."""
        if reason.origin.code == AT_LIMIT:
            self.reach_limit(now)
            return
        first = self.stop_reason is None or (requested and self.leaves_by_itself)
        again = requested and not first and now - self._stopped_at >= config.AS_ONE
        for rank, escalation in self._escalations.items() if first or again else ():
            if escalation.held is None:
                escalation.insist(now)
            elif again:
                self._end_save(rank, escalation)
                escalation.insist(now)
        if first or again:
            self._stopped_at = now
        if first:
            self.stop_reason = reason
            self.record(StopRequested(time=self._wall_clock(), reason=reason, requested=requested))
            self._end_ranks(ON_STOP, now)
        self.tick(now)

    @property
    def leaves_by_itself(self) -> bool:
        """True from the limit of ``--until`` on, until something else ends the run."""
        return self.stop_reason is not None and self.stop_reason.code == AT_LIMIT

    def reach_limit(self, now: float) -> None:
        """Begin the end at the limit of ``--until``: the supervisor lets the ranks leave."""
        self._until_at = None
        if self.stop_reason is None and not self._failed and not self.timed_out and self._running():
            self.stop_reason = Reason(AT_LIMIT, limit=self.run.spec.limit)
            self.record(StopRequested(time=self._wall_clock(), reason=self.stop_reason))
            self._left_alone_until = now + config.LONGEST_SAVE

    def end_at_limit(self, now: float) -> None:
        """Interrupt the ranks at the limit, which do not leave by themselves."""
        self._left_alone_until = None
        if self.leaves_by_itself:
            self._end_ranks(ON_STOP, now)

    def time_is_up(self, now: float) -> None:
        """End the run at its time limit, by the clock of any machine; start no other attempt."""
        self._timeout_at = None
        done = all(rank.state is RankState.FINISHED for rank in self._here())
        if not done and self.stop_reason is None and not self._failed:
            self.timed_out = True
            self._end_ranks(ON_STOP, now)

    def tick(self, now: float) -> None:
        """Apply the limits, which move on while a debugger holds a rank, and the escalation steps that are
        due."""
        passed, self._ticked_at = now - self._ticked_at, now
        if self._timeout_at is not None and self.run.held:
            self._timeout_at += passed
        if self._until_at is not None and self.run.held and self.run.spec.is_from_start:
            self._until_at += passed
        if self._timeout_at is not None and now >= self._timeout_at:
            self.time_is_up(now)
        if self._until_at is not None and now >= self._until_at:
            self.reach_limit(now)
        if self._left_alone_until is not None and now >= self._left_alone_until:
            self.end_at_limit(now)
        due: dict[signal.Signals, list[int]] = {}
        stuck: dict[float, list[int]] = {}
        for rank, escalation in self._escalations.items():
            over = escalation.held is not None and now >= escalation.held
            if over and not self._hold_longer(rank, escalation, now):
                self._end_save(rank, escalation)
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
        deadlines += filter(None, (self._timeout_at, self._until_at, self._left_alone_until))
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
            reason = self.stop_reason if self.leaves_by_itself else None
            return Outcome(state=RunState.FINISHED, reason=reason or Reason())
        if self.leaves_by_itself and not any(rank.state is RankState.FAILED for rank in self._here()):
            return Outcome(state=RunState.FINISHED, reason=self.stop_reason or Reason())
        if self.stop_reason is not None and not self._failed and not self.leaves_by_itself:
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
