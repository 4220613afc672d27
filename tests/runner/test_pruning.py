"""Old runs make room for new ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from nbdist.errors import UsageMistake
from nbdist.model import RunState, encode_event
from nbdist.runner import keeping, prune
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


def test_nothing_is_removed_below_the_limits(store: RunStore) -> None:
    for day in (1, 2, 3):
        write_run(store, day)

    assert prune(store, keeping({})) is None
    assert kept(store) == ["03", "02", "01"]


def test_the_oldest_go_first_and_it_is_said(store: RunStore) -> None:
    for day in (1, 2, 3, 4):
        write_run(store, day)

    pruned = prune(store, keeping({"NBDIST_KEEP_RUNS": "2"}))

    assert kept(store) == ["04", "03"]
    assert str(pruned).startswith("removed 2 old runs (0 MB): the latest 2 runs and 20 GB are kept")


def test_runs_go_by_size_too(store: RunStore) -> None:
    for day in (1, 2, 3):
        write_run(store, day, size=400_000)

    pruned = prune(store, keeping({"NBDIST_KEEP_GB": "0.001"}))

    assert kept(store) == ["03", "02"]
    assert pruned is not None
    assert pruned.size > 400_000


def test_a_run_that_goes_on_is_never_removed(store: RunStore) -> None:
    write_run(store, 1, ended=False)
    write_run(store, 2)
    write_run(store, 3)

    prune(store, keeping({"NBDIST_KEEP_RUNS": "1"}))

    assert kept(store) == ["03", "01"]


def test_a_limit_that_is_no_number_is_a_mistake() -> None:
    with pytest.raises(UsageMistake, match="NBDIST_KEEP_RUNS=many: write a number above 0"):
        keeping({"NBDIST_KEEP_RUNS": "many"})
