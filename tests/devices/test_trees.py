"""CPU and memory of the trees below ranks, look by look."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nbdist.devices.usage import ProcessTrees, TreeUse
from nbdist.model import ProcessId
from tests.fakes.process_table import FakeProc

MB = 1 << 20
RANK, WORKER, GRANDCHILD, OTHER, STRANGER = 40, 41, 42, 50, 60


class Machine:
    """A process table with one rank, and the trees that are looked at. Reading PSS takes a millisecond."""

    def __init__(self, path: Path) -> None:
        self.now = 0.0
        self.effort = 0.0
        self.proc = FakeProc(path)
        self.proc.start(RANK, parent=1, session=RANK, resident=100 * MB)
        self.trees = ProcessTrees(proc=path, clock=lambda: self.now, effort=self._spend)
        self.trees.add(0, ProcessId(pid=RANK, start_time=100, boot_id=""))

    def _spend(self) -> float:
        self.effort += 0.001
        return self.effort

    def look(self) -> TreeUse:
        self.now += 2.0
        return self.trees.look()[0]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path / "proc")


def test_a_single_process_uses_what_it_uses(machine: Machine) -> None:
    machine.proc.start(RANK, parent=1, session=RANK, cpu=1.5, resident=100 * MB, pss=10 * MB)

    assert machine.look() == TreeUse(cpu=1.5, memory=100 * MB, pids=frozenset({RANK}))


@pytest.mark.parametrize("name", ["python", "a b) S 1 (c", ")"], ids=["plain", "parentheses", "one of them"])
def test_descendants_belong_to_the_tree_whatever_they_are_called(machine: Machine, name: str) -> None:
    machine.proc.start(WORKER, parent=RANK, session=RANK, cpu=1.0, name=name)
    machine.proc.start(GRANDCHILD, parent=WORKER, session=GRANDCHILD, cpu=2.0, name=name)
    machine.proc.start(STRANGER, parent=1, session=1, cpu=50.0, name=name)

    use = machine.look()

    assert (use.cpu, use.pids) == (3.0, frozenset({RANK, WORKER, GRANDCHILD}))


def test_a_process_made_by_a_known_one_is_found_later(machine: Machine) -> None:
    machine.proc.start(WORKER, parent=RANK, session=WORKER)
    machine.look()
    machine.proc.start(GRANDCHILD, parent=WORKER, session=GRANDCHILD, cpu=2.0)

    assert machine.look().pids == frozenset({RANK, WORKER, GRANDCHILD})


def test_an_orphan_stays_in_its_tree(machine: Machine) -> None:
    machine.proc.start(WORKER, parent=RANK, session=WORKER)
    machine.look()
    machine.proc.start(WORKER, parent=1, session=WORKER, cpu=2.0)

    use = machine.look()

    assert (use.cpu, use.pids) == (2.0, frozenset({RANK, WORKER}))


def test_an_orphan_that_was_never_seen_with_its_parent_is_found_by_its_session(machine: Machine) -> None:
    machine.proc.start(WORKER, parent=1, session=RANK)

    assert machine.look().pids == frozenset({RANK, WORKER})


@pytest.mark.parametrize(
    ("parent", "waited", "total"),
    [(RANK, 4.0, 5.0), (1, 0.0, 4.0)],
    ids=["the rank waited for it", "nobody of the tree did"],
)
def test_time_of_a_child_that_has_ended_counts_once(
    machine: Machine, parent: int, waited: float, total: float
) -> None:
    machine.proc.start(WORKER, parent=parent, session=RANK, cpu=3.0)
    assert machine.look().cpu == 3.0
    machine.proc.end(WORKER)
    machine.proc.start(RANK, parent=1, session=RANK, cpu=1.0, waited=waited)

    assert machine.look().cpu == total


def test_a_child_that_came_and_went_between_two_looks_is_counted(machine: Machine) -> None:
    machine.look()
    machine.proc.start(RANK, parent=1, session=RANK, waited=7.0)

    assert machine.look().cpu == 7.0


@pytest.mark.parametrize(
    "changes",
    [{"state": "Z"}, {"state": "X"}, {"session": 1, "start_time": 101, "cpu": 9.0}],
    ids=["a zombie", "dead", "another process with its pid"],
)
def test_a_rank_that_has_ended_uses_nothing(machine: Machine, changes: dict[str, Any]) -> None:
    machine.proc.start(RANK, parent=1, **{"session": RANK} | changes)

    assert machine.trees.look() == {}


def test_two_ranks_are_told_apart(machine: Machine) -> None:
    machine.proc.start(OTHER, parent=1, session=OTHER)
    machine.trees.add(1, ProcessId(pid=OTHER, start_time=100, boot_id=""))
    machine.proc.start(OTHER, parent=1, session=OTHER, cpu=5.0)
    machine.proc.start(WORKER, parent=RANK, session=RANK, cpu=1.0)

    assert {rank: use.cpu for rank, use in machine.trees.look().items()} == {0: 1.0, 1: 5.0}

    machine.trees.remove(0)
    assert set(machine.trees.look()) == {1}


def test_what_a_process_had_used_before_its_tree_was_added_does_not_count(machine: Machine) -> None:
    machine.proc.start(OTHER, parent=1, session=OTHER, cpu=5.0, waited=1.0)
    machine.trees.add(1, ProcessId(pid=OTHER, start_time=100, boot_id=""))
    machine.proc.start(OTHER, parent=1, session=OTHER, cpu=5.5, waited=1.0)

    assert machine.trees.look()[1].cpu == 0.5


def test_pages_that_processes_share_count_once(machine: Machine) -> None:
    machine.proc.start(RANK, parent=1, session=RANK, resident=100 * MB, pss=60 * MB)
    machine.proc.start(WORKER, parent=RANK, session=RANK, resident=100 * MB, pss=60 * MB)
    assert machine.look().memory == pytest.approx(120 * MB)

    # until the shares are read again, what was found holds in proportion
    machine.proc.start(RANK, parent=1, session=RANK, resident=300 * MB, pss=300 * MB)
    machine.now += 0.5
    assert machine.trees.look()[0].memory == pytest.approx(400 * MB * 0.6)

    assert machine.look().memory == pytest.approx(360 * MB)


@pytest.mark.parametrize(
    ("resident", "pss"),
    [pytest.param(5000 * MB, 1 * MB, id="too large to walk"), pytest.param(50 * MB, None, id="refused")],
)
def test_where_shares_are_not_read_resident_memory_counts(
    machine: Machine, resident: int, pss: int | None
) -> None:
    for pid in (RANK, WORKER):
        machine.proc.start(pid, parent=min(RANK, pid - 1), session=RANK, resident=resident, pss=pss)

    assert machine.look().memory == 2 * resident


def test_trees_take_turns_and_are_alike_until_then(machine: Machine) -> None:
    machine.proc.start(OTHER, parent=1, session=OTHER, resident=100 * MB, pss=40 * MB)
    machine.proc.start(OTHER + 1, parent=OTHER, session=OTHER, resident=100 * MB, pss=40 * MB)
    machine.proc.start(RANK, parent=1, session=RANK, resident=100 * MB, pss=50 * MB)
    machine.proc.start(WORKER, parent=RANK, session=RANK, resident=100 * MB, pss=50 * MB)
    machine.trees.add(1, ProcessId(pid=OTHER, start_time=100, boot_id=""))

    looks = []
    for _ in range(3):
        machine.now += 2.0
        looks.append({rank: use.memory // MB for rank, use in machine.trees.look().items()})

    assert looks == [{0: 100, 1: 100}, {0: 100, 1: 80}, {0: 100, 1: 80}]


def test_a_machine_without_a_process_table_tells_nothing(tmp_path: Path) -> None:
    trees = ProcessTrees(proc=tmp_path / "none")
    trees.add(0, ProcessId(pid=RANK, start_time=100, boot_id=""))

    assert trees.look() == {}
