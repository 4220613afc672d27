"""What the machines of a run tell each other about ranks that do nothing, and where those are.

A machine whose ranks do nothing may only wait for another one. So each says how long nothing has happened on
it, every second while that is long, and each calls the run stalled when nothing happens on any. Machines
that share no directory tell each other the stacks, too.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from nbdist.launch.machines.link import Message
from nbdist.launch.stalls.stall_watch import Stillness
from nbdist.model import Run, RunSpec
from nbdist.store.reports import RankAnswer, collectives_from

_PERIOD = 1.0
_FORGOTTEN = 5.0
"""Seconds without a word after which something happens on a machine, for all that is known."""

_SHARE = 0.25
"""The part of the limit after which it is told."""

_TEXT = 20_000
"""Characters of a rank's stacks that fit into a message; the main thread stands at the end."""

_PROGRAM = "<the program>"


@dataclass(slots=True)
class _Heard:
    at: float
    stillness: Stillness


class StallExchange:
    """``say`` tells all other machines; ``shared`` says that they read each other's directories."""

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
        self._heard: dict[int, _Heard] = {}
        self._told = 0.0
        self._answers: dict[int, RankAnswer] = {}
        self._came: dict[int, float] = {}
        self._wanted = False
        self._news = False

    def hear(self, message: Message) -> None:
        """What a machine has told (``link.check`` has seen it)."""
        match message.get("kind"):
            case "still":
                said = Stillness(
                    idle=float(message["idle"]), still=float(message["still"]), waits=bool(message["waits"])
                )
                self._heard[int(message["node"])] = _Heard(self._clock(), said)
            case "stacks":
                rank = int(message["rank"])
                self._answers[rank] = _answer(message, self._spec.program)
                self._came[rank] = self._clock()
                self._news = True
            case "where":
                self._wanted = True

    def next_attempt(self) -> None:
        """What was told is about other ranks."""
        self._heard.clear()
        self._answers.clear()
        self._came.clear()
        self._wanted = False

    def tell(self, here: Stillness, limit: float, now: float) -> None:
        """Say how long nothing has happened here."""
        if max(here.idle, here.still) < _SHARE * limit or now - self._told < _PERIOD:
            return
        self._told = now
        self._say(
            {
                "kind": "still",
                "node": self._spec.node_rank,
                "idle": here.idle,
                "still": here.still,
                "waits": here.waits,
            }
        )

    def elsewhere(self, now: float) -> list[Stillness]:
        """How long nothing has happened on each of the other machines that have ranks which run."""
        busy = {rank.spec.node_rank for rank in self._run().ranks if not rank.state.terminal}
        return [self._of(node, now) for node in sorted(busy - {self._spec.node_rank})]

    def _of(self, node: int, now: float) -> Stillness:
        heard = self._heard.get(node)
        return Stillness() if heard is None or now - heard.at > _FORGOTTEN else heard.stillness

    # where the ranks are

    def ask(self) -> None:
        """Ask the other machines where their ranks are."""
        if not self._shared:
            self._say({"kind": "where"})

    def was_asked(self) -> bool:
        """Whether another machine wants to know that; once."""
        wanted, self._wanted = self._wanted, False
        return wanted

    def tell_stacks(self, answers: Sequence[RankAnswer]) -> None:
        """Say where the ranks of this machine are."""
        if self._shared:
            return
        for answer in answers:
            self._say(_message(answer, self._spec.program))

    def answers(self) -> tuple[RankAnswer, ...]:
        """Where the ranks of the other machines are, as far as they have said so."""
        return tuple(answer for _, answer in sorted(self._answers.items()))

    def has_news(self) -> bool:
        """Whether ``answers`` have changed; once."""
        news, self._news = self._news, False
        return news

    def all_answered(self, since: float) -> bool:
        """Whether all ranks elsewhere that run have said so since then."""
        if self._shared:
            return True
        ranks = self._run().ranks
        there = (r.rank for r in ranks if not r.state.terminal and r.spec.node_rank != self._spec.node_rank)
        return all(self._came.get(rank, 0.0) >= since for rank in there)


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
        "collectives": {group: asdict(one) for group, one in answer.collectives.items()},
    }


def _answer(message: Mapping[str, Any], program: str) -> RankAnswer:
    return RankAnswer(
        rank=int(message["rank"]),
        # it lies elsewhere there
        text=str(message["text"]).replace(f'File "{_PROGRAM}"', f'File "{program}"'),
        problem=str(message["problem"]),
        blocked=bool(message["blocked"]),
        collectives=collectives_from(message["collectives"]),
    )
