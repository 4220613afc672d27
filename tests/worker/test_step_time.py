"""A step's time is divided by the calls that it makes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nbdist.tables import read_table
from nbdist.worker.step_time import StepRecord, StepTimer

PROGRAMS = read_table(__file__, "steps")["program"]


class Named:
    """An iterator or optimizer of the program."""


class Script:
    """A program's calls, with a clock of milliseconds that goes on from step to step."""

    def __init__(self) -> None:
        self.timer = StepTimer(0)
        self.objects = {name: Named() for name in ("", "other", "second")}
        self.now = 0

    def does(self, events: str) -> None:
        """Report a step's calls, whose times are from the end of the step before."""
        start, end = self.now, ""
        for line in events.strip().splitlines():
            begun, end, what, *more = line.split()
            who, _, kind = what.rpartition("-")
            times = [start + int(float(moment) * 1e6) for moment in (begun, end, *more[1:])]
            self.event(kind, self.objects[who], times, more, start)
        self.now = start + int(float(end) * 1e6)

    def event(self, kind: str, who: object, times: list[int], more: list[str], start: int) -> None:
        timer, (begun, end) = self.timer, times[:2]
        if kind in ("fetch", "end"):
            timer.fetched(who, begun, end, int(more[0]) if more else None)
        elif kind == "call":
            timer.called(begun)
            timer.pending = timer.pending or {0: (0, 4)}
        elif kind == "wait":
            timer.waited(begun, end)
        elif kind == "backward":
            timer.begins_back(begun)
            if len(times) > 2:
                timer.waited(*times[2:])
            timer.computed = start + int(float(more[0]) * 1e6) if more and more[0] != "-" else 0
            timer.went_back(end)
        if kind in ("optimizer", "enter"):
            timer.enters(who, begun)
        if kind in ("optimizer", "leave"):
            timer.leaves(end)


def record_of(script: Script, path: Path) -> dict[str, Any]:
    StepRecord(str(path), script.timer, lambda: {"framework": "torch"}).write(1.0)
    record: dict[str, Any] = json.loads(path.read_text())
    return record


@pytest.mark.parametrize("program", PROGRAMS, ids=[program["name"] for program in PROGRAMS])
def test_each_call_has_its_part(tmp_path: Path, program: dict[str, Any]) -> None:
    script = Script()
    for _ in range(2):
        script.does("0 1 backward\n1 900 optimizer")

    for _ in range(3):
        script.does(program["events"])

    total = record_of(script, tmp_path / "steps.json")["total"]
    assert {part: 1000 * seconds / 3 for part, seconds in total["parts"].items()} == pytest.approx(
        program["parts"]
    )
    assert (total["steps"], total["samples"]) == (3, 3 * program["samples"])
    assert sum(total["parts"].values()) == pytest.approx(total["seconds"])


def test_nothing_is_recorded_before_the_third_step(tmp_path: Path) -> None:
    script, path = Script(), tmp_path / "steps.json"
    script.does("0 1 backward\n1 2 optimizer")
    script.does("0 1 backward\n1 2 optimizer")

    StepRecord(str(path), script.timer, dict).write(1.0)

    assert not path.exists()


def test_the_recent_steps_are_those_of_the_last_seconds(tmp_path: Path) -> None:
    script, path = Script(), tmp_path / "steps.json"
    records = StepRecord(str(path), script.timer, dict)
    for second in range(40):
        wait = "1 5 wait\n" if second >= 25 else ""
        script.does(f"0 1 backward\n{wait}5 10 optimizer")
        records.write(float(second))

    record = json.loads(path.read_text())

    assert record["recent"]["steps"] == 10
    assert record["recent"]["parts"]["wait"] == pytest.approx(0.04)
    assert record["total"]["steps"] == 38


def test_another_training_begins_anew(tmp_path: Path) -> None:
    script = Script()
    for _ in range(10):
        script.does("0 1 backward\n1 2 optimizer")

    for _ in range(30):
        script.does("0 1 backward\n1 5 second-optimizer")

    total = record_of(script, tmp_path / "steps.json")["total"]
    assert 0 < total["steps"] < 30
    assert total["parts"]["optimizer"] == pytest.approx(0.004 * total["steps"])


def test_the_time_before_a_cell_of_a_session_is_no_part_of_a_step(tmp_path: Path) -> None:
    script = Script()
    for _ in range(3):
        script.does("0 1 backward\n1 2 optimizer")

    script.now += 5_000_000_000
    script.timer.pause(script.now)
    script.does("0 1 backward\n1 2 optimizer")

    assert record_of(script, tmp_path / "steps.json")["total"]["seconds"] == pytest.approx(0.004)


def test_an_iterator_at_the_address_of_the_trained_one_is_another() -> None:
    timer, iterator = StepTimer(0), object()
    timer.opened(iterator, 0, 1)
    timer.fetched(iterator, 1, 2, 4)
    timer.begins_back(3)
    timer.went_back(4)
    assert timer.trained is iterator

    timer.opened(iterator, 5, 6)

    assert timer.trained == 0
