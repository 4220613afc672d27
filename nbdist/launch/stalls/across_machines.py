"""The messages between the machines of a run about ranks that do nothing, and where those are.

A machine whose ranks do nothing may only wait for another one. So each sends how long nothing has happened on
it, every second while that is long, and each calls the run stalled when nothing happens on any. Machines that
share no directory send each other the stacks, too.
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
"""Seconds without a word after which something happens on a machine, for all that is known."""

_SHARE = 0.25
"""The part of the limit after which it is told."""

_TEXT = 20_000
"""Characters of a rank's stacks that fit into a message; the main thread stands at the end."""

_PROGRAM = "<the program>"


class StallExchange:
    """The exchange of one machine: ``say`` sends to all others, where there are any. ``shared``: all read the
    same directories."""

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
        self._answers: dict[int, tuple[float, RankAnswer]] = {}
        self._wanted = False
        self._news = False

    def hear(self, message: Message) -> None:
        """Take a message of another machine, which ``link.check`` has passed."""
        match message["kind"]:
            case "still":
                stillness = Stillness(**{name: message[name] for name in ("idle", "still", "waits")})
                self._heard[message["node"]] = self._clock(), stillness
            case "stacks":
                self._answers[message["rank"]] = self._clock(), _answer(message, self._spec.program)
                self._news = True
            case "where":
                self._wanted = True

    def next_attempt(self) -> None:
        """Forget the messages: they are about other ranks."""
        self._heard.clear()
        self._answers.clear()
        self._wanted = False

    def tell(self, here: Stillness, limit: float, now: float) -> None:
        """Send how long nothing has happened here, if it is time."""
        if max(here.idle, here.still) < _SHARE * limit or now - self._told < _PERIOD:
            return
        self._told = now
        self._say({"kind": "still", "node": self._spec.node_rank} | asdict(here))

    def elsewhere(self, now: float) -> list[Stillness]:
        """Return how long nothing has happened on each of the other machines with running ranks."""
        busy = {rank.spec.node_rank for rank in self._run().ranks if not rank.state.terminal}
        return [self._of(node, now) for node in sorted(busy - {self._spec.node_rank})]

    def _of(self, node: int, now: float) -> Stillness:
        then, stillness = self._heard.get(node, (now, Stillness()))
        return Stillness() if now - then > _FORGOTTEN else stillness

    def ask(self) -> None:
        """Ask the other machines where their ranks are."""
        if not self._shared:
            self._say({"kind": "where"})

    def was_asked(self) -> bool:
        """Return whether another machine wants to know that; once."""
        wanted, self._wanted = self._wanted, False
        return wanted

    def tell_stacks(self, answers: Sequence[RankAnswer]) -> None:
        """Send where the ranks of this machine are."""
        if not self._shared:
            for answer in answers:
                self._say(_message(answer, self._spec.program))

    def answers(self) -> tuple[RankAnswer, ...]:
        """Return where the ranks of the other machines are, as far as those have answered."""
        return tuple(answer for _, answer in self._answers.values())

    def has_news(self) -> bool:
        """Return whether ``answers`` have changed; once."""
        news, self._news = self._news, False
        return news

    def all_answered(self, since: float) -> bool:
        """Return whether all ranks elsewhere that run have answered since then."""
        if self._shared:
            return True
        ranks = self._run().ranks
        there = (r.rank for r in ranks if not r.state.terminal and r.spec.node_rank != self._spec.node_rank)
        return all(rank in self._answers and self._answers[rank][0] >= since for rank in there)


def _message(answer: RankAnswer, program: str) -> Message:
    # as faulthandler writes it; whatever else there were would be longer as JSON
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
        # it lies elsewhere there
        text=message["text"].replace(f'File "{_PROGRAM}"', f'File "{program}"'),
        problem=message["problem"],
        blocked=message["blocked"],
        collectives=collectives_from(message["collectives"]),
    )
