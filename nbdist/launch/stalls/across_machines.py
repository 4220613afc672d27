"""Messages between the machines of a run about idle ranks and their stacks.

A machine with idle ranks may only wait for another one. So each sends its idle time while that is long, and
calls the run stalled when all are idle. Machines that share no directory send each other the stacks, too.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from nbdist.launch.stalls.stall_watch import Stillness
from nbdist.model import Run, RunSpec
from nbdist.store.reports import RankAnswer, collectives_from

if TYPE_CHECKING:
    from nbdist.launch.machines.link import Message  # most runs are on one machine

_PERIOD = 1.0
_FORGOTTEN = 5.0
"""Seconds without a message after which a machine counts as busy."""

_SHARE = 0.25
"""The part of the limit after which a machine sends its idle time."""

_TEXT = 20_000
"""Characters of a rank's stacks in a message; the main thread is at the end."""

_PROGRAM = "<the program>"


class StallExchange:
    """The exchange of one machine. ``say`` sends to all others; ``shared`` if all read the same
    directories."""

    def __init__(
        self,
        spec: RunSpec,
        say: Callable[[Message], object],
        run: Callable[[], Run],
        *,
        shared: bool,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._spec = spec
        self._say = say
        self._run = run
        self._shared = shared
        self._clock = clock
        self._heard: dict[int, tuple[float, Stillness]] = {}
        self._told = 0.0
        # by node, the calls of ``nbdist.should_stop`` at the limit of time (``last_call``)
        self.calls: dict[int, int] = {}
        self._answers: dict[int, tuple[float, RankAnswer]] = {}
        self._wanted = False
        self._news = False

    def hear(self, message: Message) -> None:
        """Handle a message of another machine, which ``link.check`` has passed."""
        match message["kind"]:
            case "still":
                stillness = Stillness(**{name: message[name] for name in ("idle", "still", "waits")})
                self._heard[message["node"]] = self._clock(), stillness
            case "stacks":
                self._answers[message["rank"]] = self._clock(), _answer(message, self._spec.program)
                self._news = True
            case "where":
                self._wanted = True
            case "calls":
                self.calls[message["node"]] = message["most"]

    def tell_calls(self, most: int) -> None:
        """Tell the others how often ranks of this machine have called ``nbdist.should_stop``."""
        self._say({"kind": "calls", "node": self._spec.node_rank, "most": most})

    def next_attempt(self) -> None:
        """Forget the messages, which are about other processes."""
        self._heard.clear()
        self._answers.clear()
        self.calls.clear()
        self._wanted = False

    def tell(self, here: Stillness, limit: float, now: float) -> None:
        """Send the idle time of this machine, when it is time."""
        if max(here.idle, here.still) < _SHARE * limit or now - self._told < _PERIOD:
            return
        self._told = now
        self._say({"kind": "still", "node": self._spec.node_rank} | asdict(here))

    def elsewhere(self, now: float) -> list[Stillness]:
        """Return the idle times of the other machines with running ranks."""
        busy = {rank.spec.node_rank for rank in self._run().ranks if not rank.state.terminal}
        known = (self._heard.get(node, (now, Stillness())) for node in sorted(busy - {self._spec.node_rank}))
        return [Stillness() if now - then > _FORGOTTEN else stillness for then, stillness in known]

    def ask(self) -> None:
        """Request the stacks of the other machines' ranks."""
        if not self._shared:
            self._say({"kind": "where"})

    def was_asked(self) -> bool:
        """Return once whether another machine requested the stacks."""
        wanted, self._wanted = self._wanted, False
        return wanted

    def tell_stacks(self, answers: Sequence[RankAnswer]) -> None:
        """Send the stacks of this machine's ranks."""
        if not self._shared:
            for answer in answers:
                self._say(_message(answer, self._spec.program))

    def answers(self) -> tuple[RankAnswer, ...]:
        """Return the stacks received from the other machines."""
        return tuple(answer for _, answer in self._answers.values())

    def has_news(self) -> bool:
        """Return once whether ``answers`` have changed."""
        news, self._news = self._news, False
        return news

    def all_answered(self, since: float) -> bool:
        """Return whether all running ranks of other machines have answered since then."""
        if self._shared:
            return True
        ranks = self._run().ranks
        others = (r.rank for r in ranks if not r.state.terminal and r.spec.node_rank != self._spec.node_rank)
        return all(rank in self._answers and self._answers[rank][0] >= since for rank in others)


def _message(answer: RankAnswer, program: str) -> Message:
    # faulthandler writes ASCII; other characters would be longer as JSON
    text = answer.text.encode("ascii", "replace").decode()
    text = text.replace(f'File "{program}"', f'File "{_PROGRAM}"')
    return {
        "kind": "stacks",
        "rank": answer.rank,
        "text": text[-_TEXT:],
        "problem": answer.problem,
        "blocked": answer.blocked,
        "collectives": {group: asdict(last) for group, last in answer.collectives.items()},
    }


def _answer(message: Message, program: str) -> RankAnswer:
    return RankAnswer(
        rank=message["rank"],
        # the other machine has the program elsewhere
        text=message["text"].replace(f'File "{_PROGRAM}"', f'File "{program}"'),
        problem=message["problem"],
        blocked=message["blocked"],
        collectives=collectives_from(message["collectives"]),
    )
