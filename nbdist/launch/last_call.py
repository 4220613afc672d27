"""The call of ``nbdist.should_stop`` at which all ranks leave, at the limit of ``--until``.

Each rank's next call waits until the supervisor knows how many calls every rank has begun, on all machines,
and has named one that none has (``worker.limit``). Where no rank has ever called, the ranks are interrupted.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from nbdist.launch.run_policy import RunPolicy
from nbdist.launch.stalls.across_machines import StallExchange
from nbdist.model import RunSpec
from nbdist.store.paths import RankDirectory
from nbdist.worker import order

_ANSWERS = 5.0
"""Seconds for the ranks, and the other machines, to answer."""


class LastCall:
    """The choice of one attempt. ``ask`` sends words to a rank and returns whether it can be reached,
    ``files`` returns its directory. All times are monotonic seconds."""

    def __init__(
        self,
        spec: RunSpec,
        policy: RunPolicy,
        *,
        ask: Callable[[int, bytes], bool],
        files: Callable[[int], RankDirectory],
        others: StallExchange,
    ) -> None:
        self._spec = spec
        self._policy = policy
        self._ask = ask
        self._files = files
        self._others = others
        self._calls: dict[int, int] = {}
        self._asked: set[int] = set()
        self._until: float | None = None
        self._told = self._named = False

    def answered(self, rank: int) -> None:
        """Read the number of calls that a rank has begun."""
        try:
            self._calls[rank] = int(self._files(rank).calls.read_text())
        except (OSError, ValueError):
            self._calls[rank] = 0

    def tick(self, ranks: Collection[int], now: float) -> None:
        """Ask the live ``ranks`` at the limit, and name the call when all have answered."""
        if not self._policy.leaves_by_itself or self._named:
            return
        if self._until is None:
            self._until = now + _ANSWERS
            self._asked = {rank for rank in ranks if self._ask(rank, order.PAUSE)}
        late = now >= self._until
        if not (late or self._calls.keys() >= self._asked & set(ranks)):
            return
        most = max(self._calls.values(), default=0)
        if self._spec.nodes > 1 and not self._told:
            self._told = True
            self._others.tell_calls(most)
        if not (late or len(self._others.calls) >= self._spec.nodes - 1):
            return
        self._named = True
        if most := max([most, *self._others.calls.values()]):
            for rank in self._asked & set(ranks):
                self._ask(rank, order.LEAVE + order.Leave(call=most + 1).encode())
        else:
            self._policy.end_at_limit(now)
