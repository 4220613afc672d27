"""Machines of one run call it stalled together, and tell each other where their ranks are."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from nbdist.launch.machines.link import Message, check
from nbdist.launch.stalls.across_machines import StallExchange
from nbdist.launch.stalls.stall_watch import StallWatch, Stillness
from nbdist.model import Run
from nbdist.store.reports import Collective, RankAnswer
from tests.fakes.runs import STARTED, a_spec

LIMIT = 60.0
IDLE = Stillness(idle=70.0)
SPINS = Stillness(still=70.0, waits=True)
COMPUTES_IN_ONE_CALL = Stillness(still=70.0)
BUSY = Stillness()


@pytest.mark.parametrize(
    ("others", "stalled"),
    [
        pytest.param([IDLE], True, id="nothing happens on the other one either"),
        pytest.param([IDLE, BUSY], False, id="one of the others works"),
        pytest.param([SPINS], True, id="the other one waits at full speed"),
        pytest.param([COMPUTES_IN_ONE_CALL], False, id="nobody is known to wait"),
        pytest.param([COMPUTES_IN_ONE_CALL, SPINS], True, id="one computes in one call and another waits"),
    ],
)
def test_a_machine_that_does_nothing_is_judged_with_the_others(
    tmp_path: Path, others: list[Stillness], *, stalled: bool
) -> None:
    watch = StallWatch(LIMIT, proc=str(tmp_path))
    for second in range(0, 100, 2):
        watch.tick(float(second))
        watch.tick(float(second) + 1)
        watch.saw(0, 0.0, [40], str(tmp_path / "none"), float(second))
        watch.judge(float(second), others)

    assert watch.stalled is stalled


class Machine:
    """One of two machines with a rank each; the other receives its messages as JSON."""

    def __init__(self, node: int, *, shared: bool = False) -> None:
        spec = a_spec()
        ranks = tuple(replace(rank, node_rank=rank.rank) for rank in spec.ranks)
        self.spec = replace(spec, nodes=2, node_rank=node, ranks=ranks, program=f"/machine{node}/train.py")
        run = Run.of(self.spec)
        for event in STARTED:
            run = run.after(event)
        self.sent: list[Message] = []
        self.now = 100.0
        self.stalls = StallExchange(
            self.spec, self.sent.append, lambda: run, shared=shared, clock=lambda: self.now
        )

    def hears(self, other: Machine) -> None:
        for message in other.sent:
            received = json.loads(json.dumps(message | {"attempt": 1}))
            check(received)
            self.stalls.hear(received)


def test_how_long_nothing_happens_is_told_and_forgotten_when_it_is_not_repeated() -> None:
    here, other = Machine(0), Machine(1)
    other.stalls.tell(Stillness(idle=20.0), LIMIT, 100.0)

    here.hears(other)
    known = here.stalls.elsewhere(101.0)
    later = here.stalls.elsewhere(110.0)

    assert known == [Stillness(idle=20.0)]
    assert later == [BUSY]


def test_machines_on_which_something_happens_say_nothing() -> None:
    other = Machine(1)
    other.stalls.tell(Stillness(idle=3.0), LIMIT, 100.0)

    assert other.sent == []


def test_stacks_are_told_in_lines_of_the_program_of_who_hears_them() -> None:
    here, other = Machine(0), Machine(1)
    text = 'Thread 0x1 (most recent call first):\n  File "/machine1/train.py", line 3 in <module>\n'
    numbers = {"0": Collective(name="all_reduce", number=7, over=False, members=(0, 1), on_device=True)}
    other.stalls.tell_stacks([RankAnswer(rank=1, text=text, collectives=numbers)])
    here.stalls.ask()

    here.hears(other)
    other.hears(here)

    (answer,) = here.stalls.answers()
    assert (answer.rank, answer.collectives) == (1, numbers)
    assert answer.threads[0].calls[0].file == "/machine0/train.py"
    assert here.stalls.all_answered(99.0)
    assert not here.stalls.all_answered(101.0)
    assert [other.stalls.was_asked(), other.stalls.was_asked()] == [True, False]


def test_machines_that_share_a_directory_do_not_tell_stacks() -> None:
    other = Machine(1, shared=True)
    other.stalls.tell_stacks([RankAnswer(rank=1)])
    other.stalls.ask()

    assert other.sent == []
    assert other.stalls.all_answered(1e9)


def test_what_fits_into_no_message_is_left_out_at_the_begin() -> None:
    other = Machine(1)
    other.stalls.tell_stacks([RankAnswer(rank=1, text="é" * 100_000 + "the main thread")])

    (message,) = other.sent
    assert len(json.dumps(message)) < 65_000
    assert str(message["text"]).endswith("the main thread")
