from __future__ import annotations

import threading
from collections.abc import Sequence

from nbdist.feed.machine import GpuState, Holder, Machine
from nbdist.options import OPTIONS
from nbdist.options.ranks_line import option_list
from nbdist.text import messages

GPU = GpuState(
    index=0,
    name="NVIDIA H200",
    memory=1_000,
    memory_total=140_000,
    utilisation=93.0,
    temperature=61.0,
    holders=(Holder(pid=4001, memory=900, name="python", run_id=None),),
)


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_pages_that_ask_at_once_share_a_look() -> None:
    looks = []
    clock = Clock()

    def gpus() -> Sequence[GpuState]:
        looks.append(clock.now)
        return [GPU]

    machine = Machine(gpus=gpus, clock=clock)
    states = [machine.look() for _ in range(5)]
    clock.now += 5
    later = machine.look()

    assert looks == [100.0, 105.0]
    assert all(state is states[0] for state in states)
    assert states[0].to_dict()["gpus"][0]["holders"][0]["pid"] == 4001
    assert later.cores > 0
    assert later.memory_total is not None
    assert later.memory is not None


def test_a_driver_that_hangs_holds_up_nobody() -> None:
    answered = threading.Event()
    calls = []
    clock = Clock()

    def gpus() -> Sequence[GpuState]:
        calls.append(1)
        answered.wait(20)
        return [GPU]

    machine = Machine(gpus=gpus, clock=clock, patience=0.01)
    first = machine.look()
    clock.now += 5
    second = machine.look()
    answered.set()

    assert first.gpus == second.gpus == ()
    assert len(calls) == 1


def test_every_option_is_explained_in_both_languages() -> None:
    assert {option.field for option in OPTIONS} | {"idle"} == messages("options").keys()
    assert all({"en", "zh"} == option["help"].keys() for option in option_list())
    assert next(option["flags"][0] for option in option_list()) == "-n"
    magics = {option["flags"][-1]: option["magics"] for option in option_list()}
    assert magics["--push"] == ["distributed", "ranks"]
    assert magics["--detach"] == ["distributed"]
    assert magics["--idle"] == ["ranks"]
