"""Old runs make room for new ones."""

from __future__ import annotations

import fcntl
import itertools
import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from nbdist.errors import UsageMistake
from nbdist.launch import local
from nbdist.model import RunState, encode_event
from nbdist.runner import Pruned, Pruner, prune
from nbdist.runner.pruning import KEEP_GB, keeping, start_process
from nbdist.store import RunStore
from nbdist.store.marks import Marks, write_marks
from tests.fakes import runs
from tests.programs import until

PRUNING_PROCESS = (sys.executable, str(local.ENTRY), "runner.pruning")


def write_run(store: RunStore, day: int, *, hour: int = 12, ended: bool = True, size: int = 0) -> str:
    """A run of this day of November; its log has ``size`` bytes."""
    spec = runs.a_spec(run_id=f"202611{day:02}-{hour:02}0000-lenet-aaaa")
    directory = store.create(spec, "pass")
    directory.rank(0).log.write_bytes(b"x" * size)
    events = [runs.supervisor_started()]
    if ended:
        events.append(runs.run_ended(RunState.FINISHED, ""))
    directory.journal.write_text("".join(encode_event(event) + "\n" for event in events))
    return spec.run_id


@pytest.fixture
def store(tmp_path: Path) -> RunStore:
    return RunStore(tmp_path / "home")


def kept(store: RunStore) -> list[str]:
    return [directory.run_id[6:8] for directory in store.directories()]


def pruned(store: RunStore, **environ: str) -> Pruned | None:
    pruner = Pruner(pause=lambda _: None)
    pruner.begin(store, keeping(environ))
    return pruner.removed(wait=20)


def test_the_oldest_go_first_and_it_is_said_once(store: RunStore) -> None:
    for day in (1, 2, 3, 4):
        write_run(store, day)
    pruner = Pruner(pause=lambda _: None)

    pruner.begin(store, keeping({"NBDIST_KEEP_RUNS": "2"}))
    removed = pruner.removed(wait=20)

    assert kept(store) == ["04", "03"]
    assert str(removed).startswith("removed 2 old runs (0 MB): the latest 2 runs and 20 GB are kept")
    assert list(store.removed.iterdir()) == []
    assert pruner.removed() is None
    assert pruned(store) is None


def test_a_pinned_run_stays(store: RunStore) -> None:
    old, _, _ = (write_run(store, day) for day in (1, 2, 3))
    write_marks(store.find(old), Marks(pinned=True))

    pruned(store, NBDIST_KEEP_RUNS="1")

    assert kept(store) == ["03", "01"]


def test_runs_go_by_size_too(store: RunStore) -> None:
    for day in (1, 2, 3):
        write_run(store, day, size=400_000)

    removed = pruned(store, NBDIST_KEEP_GB="0.001")

    assert kept(store) == ["03", "02"]
    assert removed.size > 400_000


def test_in_the_time_that_there_is_some_go_and_the_next_time_the_others(store: RunStore) -> None:
    for day in range(1, 10):
        write_run(store, day)
    limits = keeping({"NBDIST_KEEP_RUNS": "1"})
    clock = itertools.count()

    first = list(prune(store, limits, over=lambda: next(clock) > 4))

    assert 0 < len(first) < 8
    list(prune(store, limits))
    assert kept(store) == ["09"]


def test_what_there_was_no_time_for_is_left_to_a_process(store: RunStore) -> None:
    for day in range(1, 5):
        write_run(store, day)
    limits, taken = keeping({"NBDIST_KEEP_RUNS": "2"}), []
    pruner = Pruner(hand_over=lambda *what: taken.append(what))

    pruner.begin(store, limits, most=0.0)
    gone = pruner.removed(wait=20)

    assert taken == [(store, limits)]
    assert str(gone).startswith("removed 0 old runs (0 MB), more follow: the latest 2 runs")
    # where nothing is left none is started
    pruner.begin(store, keeping({}), most=0.0)
    assert pruner.removed(wait=20) is None
    assert len(taken) == 1


def write_many(store: RunStore, count: int) -> None:
    """Runs of one hour each; that of the first hour goes on."""
    for number in range(count):
        write_run(store, 1 + number // 24, hour=number % 24, ended=number > 0)


def test_a_process_removes_all_that_is_too_much_but_what_goes_on(store: RunStore) -> None:
    write_many(store, 40)
    names = [directory.run_id for directory in store.directories()]

    start_process(store, (10, KEEP_GB))

    until(lambda: len(list(store.runs.iterdir())) == 11, 120)
    assert [directory.run_id for directory in store.directories()] == [*names[:10], names[-1]]


def test_the_process_stands_back_for_all_others(store: RunStore) -> None:
    write_many(store, 1)
    os.mkfifo(store.pruning)  # it waits there for a reader
    with subprocess.Popen([*PRUNING_PROCESS, str(store.home), "1", "20.0"]) as running:
        process = psutil.Process(running.pid)

        until(lambda: process.ionice().ioclass == psutil.IOPRIO_CLASS_IDLE, 120)

        assert process.nice() == 19
        with store.pruning.open("rb"):
            assert running.wait(120) == 0


def test_a_second_process_leaves_the_work_to_the_first(store: RunStore) -> None:
    write_many(store, 3)
    with store.pruning.open("w") as first:
        fcntl.flock(first, fcntl.LOCK_EX)

        subprocess.run([*PRUNING_PROCESS, str(store.home), "1", "20.0"], check=True)

    assert len(store.directories()) == 3


def test_a_run_has_left_the_list_before_its_files_are_deleted(store: RunStore) -> None:
    write_run(store, 1)
    write_run(store, 2)

    removing = prune(store, keeping({"NBDIST_KEEP_RUNS": "1"}))
    next(removing)

    assert kept(store) == ["02"]
    (moved,) = store.removed.iterdir()
    assert (moved / "spec.json").exists()


def test_what_a_process_has_left_that_ended_meanwhile_is_deleted_by_the_next(store: RunStore) -> None:
    write_run(store, 1)
    write_run(store, 2)
    removing = prune(store, keeping({"NBDIST_KEEP_RUNS": "1"}))
    next(removing)
    removing.close()

    list(prune(store, keeping({})))

    assert list(store.removed.iterdir()) == []


def test_a_run_that_has_ended_is_measured_once(store: RunStore) -> None:
    write_run(store, 1, size=400_000)
    write_run(store, 2, size=400_000)
    pruned(store)
    # grows, which a run that has ended does not
    store.directories()[0].rank(0).log.write_bytes(b"x" * 4_000_000)

    assert pruned(store, NBDIST_KEEP_GB="0.001") is None


@pytest.mark.parametrize("damage", ["", "[]", "{", '{"a": "b"}'])
def test_sizes_that_cannot_be_read_are_measured_again(store: RunStore, damage: str) -> None:
    write_run(store, 1, size=900_000)
    write_run(store, 2, size=900_000)
    store.sizes.write_text(damage)

    pruned(store, NBDIST_KEEP_GB="0.001")

    assert kept(store) == ["02"]


def test_a_limit_that_is_no_number_is_a_mistake() -> None:
    with pytest.raises(UsageMistake, match="NBDIST_KEEP_RUNS=many: write a number above 0"):
        keeping({"NBDIST_KEEP_RUNS": "many"})
