"""Old runs make room for new ones."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from nbdist.errors import UsageMistake
from nbdist.model import RunState, encode_event
from nbdist.runner import Pruned, Pruner, prune
from nbdist.runner.pruning import keeping
from nbdist.store import RunStore
from tests.fakes import runs


def write_run(store: RunStore, day: int, *, ended: bool = True, size: int = 0) -> str:
    """A run of this day of November; its log has ``size`` bytes."""
    spec = runs.a_spec(run_id=f"202611{day:02}-120000-lenet-aaaa")
    directory = store.create(spec, "pass")
    directory.rank(0).log.write_bytes(b"x" * size)
    events = [runs.supervisor_started()]
    if ended:
        events.append(runs.run_ended(RunState.SUCCEEDED, ""))
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


def test_nothing_is_removed_below_the_limits(store: RunStore) -> None:
    for day in (1, 2, 3):
        write_run(store, day)

    assert pruned(store) is None
    assert kept(store) == ["03", "02", "01"]


def test_the_oldest_go_first_and_it_is_said(store: RunStore) -> None:
    for day in (1, 2, 3, 4):
        write_run(store, day)

    said = pruned(store, NBDIST_KEEP_RUNS="2")

    assert kept(store) == ["04", "03"]
    assert str(said).startswith("removed 2 old runs (0 MB): the latest 2 runs and 20 GB are kept")
    assert list(store.removed.iterdir()) == []


def test_what_was_said_is_not_said_again(store: RunStore) -> None:
    write_run(store, 1)
    write_run(store, 2)
    pruner = Pruner()
    pruner.begin(store, keeping({"NBDIST_KEEP_RUNS": "1"}))
    assert pruner.removed(wait=20) is not None

    assert pruner.removed() is None


def test_runs_go_by_size_too(store: RunStore) -> None:
    for day in (1, 2, 3):
        write_run(store, day, size=400_000)

    said = pruned(store, NBDIST_KEEP_GB="0.001")

    assert kept(store) == ["03", "02"]
    assert said is not None
    assert said.size > 400_000


def test_a_run_that_goes_on_is_never_removed(store: RunStore) -> None:
    write_run(store, 1, ended=False)
    write_run(store, 2)
    write_run(store, 3)

    pruned(store, NBDIST_KEEP_RUNS="1")

    assert kept(store) == ["03", "01"]


def test_in_the_time_that_there_is_some_go_and_the_next_time_the_others(store: RunStore) -> None:
    for day in range(1, 10):
        write_run(store, day)
    limits = keeping({"NBDIST_KEEP_RUNS": "1"})
    clock = itertools.count()

    first = list(prune(store, limits, over=lambda: next(clock) > 4))

    assert 0 < len(first) < 8
    list(prune(store, limits))
    assert kept(store) == ["09"]


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
