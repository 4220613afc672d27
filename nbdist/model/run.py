"""A run as it stands: the fold of its events over its spec. Pure, so any reader gets the same."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from nbdist.errors import IllegalTransition
from nbdist.model import events
from nbdist.model.events import Event, RankCut, RankExited, RankState, RunEnded, RunLost, RunState, move
from nbdist.model.reason import NO_REASON, Reason
from nbdist.model.spec import ProcessId, RankSpec, RunSpec

# signals that can kill a correct program after its last statement, while the framework tears down (torch's
# gloo aborts in about 2 % of correct runs; the abort's report may meet a dead thread: SIGBUS or SIGSEGV)
_TEARDOWN_SIGNALS = frozenset({-6, -7, -11})
_OF_EXIT = ("code", "oom", "memory", "log", "limit", "full")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rank:
    """One rank of the current attempt. ``saves``: since when it has been on its way out."""

    spec: RankSpec
    state: RankState = RankState.PENDING
    process: ProcessId | None = None
    started: float | None = None
    finished: float | None = None
    joined: bool = True
    errored: float | None = None
    freed: float | None = None
    held: events.RankHeld | None = None
    saves: float | None = None
    cut: RankCut | None = None
    exited: float | None = None
    code: int | None = None
    oom: bool = False
    memory: int = 0
    log: int = 0
    limit: int = 0
    full: str = ""

    @property
    def rank(self) -> int:
        return self.spec.rank


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run at one moment. ``supervisor_host`` is the machine of the processes' pids; ``stalled`` the last
    sign of progress (Unix seconds) of a run that stalls, or ended so; ``failures`` the reasons of failed
    attempts; ``leftover`` the number of processes that the ranks left behind and nbdist ended.
    ``awaited``: machines that have not come yet; ``hosts``: the addresses of all; ``importing``: ranks
    whose imports, begun before the run, are not done. ``job``: the run's name in its engine; ``queued``:
    why it waits there. ``cell``: the last cell that a session began; ``busy``: the ranks that execute it;
    ``active``: when one began or ended last."""

    spec: RunSpec
    state: RunState = RunState.PENDING
    attempt: int = 1
    supervisor: ProcessId | None = None
    supervisor_host: str = ""
    port: int | None = None
    started: float | None = None
    ended: float | None = None
    reason: Reason = NO_REASON
    stop_reason: Reason = NO_REASON
    stop_requested: bool = False
    stalled: float | None = None
    leftover: int = 0
    failures: tuple[Reason, ...] = ()
    awaited: tuple[int, ...] = ()
    importing: tuple[int, ...] = ()
    hosts: tuple[str, ...] = ()
    job: str = ""
    queued: Reason = NO_REASON
    cell: int = 0
    cell_line: str = ""
    busy: tuple[int, ...] = ()
    active: float | None = None
    ranks: tuple[Rank, ...] = ()

    @classmethod
    def of(cls, spec: RunSpec, events: Iterable[Event] = ()) -> Run:
        """Return the run after ``events``. Raises IllegalTransition when they cannot have happened."""
        run = cls(spec=spec, ranks=tuple(Rank(spec=rank) for rank in spec.ranks))
        for event in events:
            run = run.after(event)
        return run

    @property
    def run_id(self) -> str:
        return self.spec.run_id

    @property
    def label(self) -> str:
        """Return the short name on a screen: name and the random end of the run id."""
        return f"{self.spec.name}-{self.run_id.rsplit('-', 1)[-1]}"

    @property
    def idle(self) -> bool:
        """Return whether it is a session that waits for a cell."""
        return self.spec.session is not None and self.state is RunState.RUNNING and not self.busy

    @property
    def saves(self) -> bool:
        """Return whether a rank is on its way out, and has time to save its work."""
        return any(rank.saves is not None and not rank.state.terminal for rank in self.ranks)

    @property
    def held(self) -> dict[int, events.RankHeld]:
        """Return what a debugger holds, by rank."""
        ranks = (rank for rank in self.ranks if not rank.state.terminal)
        return {rank.rank: rank.held for rank in ranks if rank.held is not None}

    @property
    def timed_out(self) -> bool:
        """Return whether its time limit ended it, and not the failure of a rank."""
        return self.state is RunState.FAILED and self.reason.code == "time-limit"

    @property
    def stopped_as_asked(self) -> bool:
        """Return whether it was stopped on request: nothing went wrong."""
        return self.state is RunState.STOPPED and self.stop_requested

    def elapsed(self, now: float) -> float:
        """Return the seconds from the ranks' start until ``now`` or the end."""
        if self.started is None:
            return 0.0
        return max(0.0, (self.ended if self.ended is not None else now) - self.started)

    def after(self, event: Event) -> Run:
        """Return the run after one more event."""
        match event:
            case events.SupervisorStarted():
                # an engine's run may get another supervisor
                fresh = self.state is RunState.PENDING and not self.job
                return self._move(
                    RunState.STARTING if fresh else self.state,
                    supervisor=event.process,
                    supervisor_host=event.host,
                )
            case events.AttemptStarted():
                return self._move(
                    RunState.STARTING,
                    attempt=event.attempt,
                    port=event.port,
                    started=event.time if self.started is None else self.started,
                    stalled=None,
                    importing=(),
                    queued=NO_REASON,
                    ranks=tuple(Rank(spec=rank) for rank in self.spec.ranks),
                )
            case events.RankStarted():
                run = self._with_rank(
                    event.rank, RankState.RUNNING, process=event.process, started=event.time
                )
                return run._move(RunState.RUNNING) if run._all_started() else run
            case events.ImportsAwaited():
                return replace(self, importing=event.ranks)
            case events.RankFinished():
                return self._with_rank(event.rank, finished=event.time, joined=event.joined)
            case events.RankErrored():
                return self._with_rank(event.rank, errored=event.time)
            case events.RankFreed():
                return self._with_rank(event.rank, freed=event.time)
            case events.RankHeld():
                return self._with_rank(event.rank, held=event if event.why else None)
            case events.RankSaves():
                return self._with_rank(event.rank, saves=event.time if event.saves else None)
            case events.RankCut():
                return self._with_rank(event.rank, cut=event)
            case events.RankExited():
                state = exit_state(self._rank(event.rank), event)
                how = {name: getattr(event, name) for name in _OF_EXIT}
                return self._with_rank(event.rank, state, exited=event.time, **how)
            case events.Stalled():
                return replace(self, stalled=event.since)
            case events.Resumed():
                return replace(self, stalled=None)
            case events.CellStarted():
                return replace(
                    self, cell=event.cell, cell_line=event.line, busy=event.ranks, active=event.time
                )
            case events.CellEnded():
                left = tuple(rank for rank in self.busy if rank != event.rank)
                return replace(self, busy=left, active=event.time)
            case events.Rejoined():
                return replace(self, port=event.port)
            case events.RemoteRank():
                over = event.time if event.state.terminal else None
                begun = self._rank(event.rank).started or event.time
                return self._with_rank(event.rank, event.state, started=begun, exited=over, code=event.code)
            case events.NodesAwaited():
                return replace(self, awaited=event.nodes, hosts=event.hosts or self.hosts)
            case events.Queued():
                return self._move(
                    RunState.PENDING,
                    job=event.job,
                    queued=event.reason,
                    stop_reason=NO_REASON,
                    stop_requested=False,
                    stalled=None,
                    ranks=tuple(Rank(spec=rank) for rank in self.spec.ranks),
                )
            case events.StopRequested():
                return self._move(RunState.STOPPING, stop_reason=event.reason, stop_requested=event.requested)
            case events.Escalated():
                return self._move(RunState.STOPPING)
            case events.AttemptFailed():
                failures, leftover = (*self.failures, event.reason), self.leftover + event.leftover
                return replace(self, failures=failures, leftover=leftover)
            case events.RunEnded():
                # a rank that was never started
                return self._end(event.state, event, {RankState.PENDING}, RankState.STOPPED)
            case events.RunLost():
                going_on = {RankState.PENDING, RankState.RUNNING}
                return self._end(RunState.LOST, event, going_on, RankState.LOST, exited=event.time)

    def _end(
        self, to: RunState, event: RunEnded | RunLost, now: set[RankState], end: RankState, **changes: Any
    ) -> Run:
        """Return the ended run; ranks that are in one of the states ``now`` end as ``end``."""
        ranks = tuple(
            replace(rank, state=move(rank.state, end), **changes) if rank.state in now else rank
            for rank in self.ranks
        )
        leftover = self.leftover + event.leftover
        return self._move(to, ended=event.time, reason=event.reason, leftover=leftover, ranks=ranks)

    def _move(self, to: RunState, **changes: Any) -> Run:
        return replace(self, state=move(self.state, to), **changes)

    def _all_started(self) -> bool:
        """Return whether a starting attempt has all ranks of this machine; the last are missing longest."""
        return self.state is RunState.STARTING and all(
            rank.started is not None or not self.spec.is_here(rank.spec) for rank in reversed(self.ranks)
        )

    def _rank(self, rank: int) -> Rank:
        if not 0 <= rank < len(self.ranks):
            raise IllegalTransition(f"there is no rank {rank} in a run of {len(self.ranks)}")
        return self.ranks[rank]

    def _with_rank(self, rank: int, to: RankState | None = None, **changes: Any) -> Run:
        now = self._rank(rank)
        moved = replace(now, state=move(now.state, to or now.state), **changes)
        return replace(self, ranks=(*self.ranks[:rank], moved, *self.ranks[rank + 1 :]))


def exit_state(rank: Rank, exited: RankExited) -> RankState:
    """Return the state of a rank after its exit."""
    # once the program has finished, the exit status is irrelevant
    torn_down = rank.finished is not None and (exited.ended or exited.code in _TEARDOWN_SIGNALS)
    if rank.errored is None and (exited.code == 0 or torn_down):
        return RankState.FINISHED
    return RankState.STOPPED if exited.ended else RankState.FAILED
