"""Checkpoints: finished or not there, whatever the ranks that write them do."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

import nbdist
from nbdist.worker.checkpoints import Checkpoint, finished


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the directory of a run's checkpoints, set in the environment."""
    run = tmp_path / "run"
    run.mkdir()
    environment = {
        "NBDIST_CHECKPOINTS": str(tmp_path / "checkpoints/net-k2m1"),
        "NBDIST_RUN_ID": "20261123-120000-net-k2m1",
        "NBDIST_RUN_DIR": str(run),
        "TORCHELASTIC_RESTART_COUNT": "0",
    }
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    for name in ("RANK", "WORLD_SIZE", "GROUP_WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "checkpoints/net-k2m1"


def save(step: int, text: str = "x", **how: object) -> None:
    with nbdist.checkpoint(step, **how) as path:  # type: ignore[arg-type]
        (path / "model.pt").write_text(text)


def test_a_block_that_is_left_has_made_a_private_checkpoint_and_asking_makes_nothing(place: Path) -> None:
    assert nbdist.latest_checkpoint() is None
    assert not place.exists()

    save(100, "weights")

    latest = nbdist.latest_checkpoint()
    assert latest == place / "step-00000100"
    assert (latest / "model.pt").read_text() == "weights"
    assert [entry.name for entry in place.iterdir()] == ["step-00000100"]
    assert place.stat().st_mode & 0o077 == 0


def test_the_latest_is_the_one_that_was_finished_last_whatever_its_step(place: Path) -> None:
    save(300)
    save(50)  # the program has gone back

    assert nbdist.latest_checkpoint() == place / "step-00000050"


def test_an_exception_in_the_block_leaves_the_one_before(place: Path) -> None:
    save(100)

    def interrupted() -> None:
        with nbdist.checkpoint(200) as path:
            (path / "model.pt").write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()

    assert nbdist.latest_checkpoint() == place / "step-00000100"
    assert [entry.name for entry in place.iterdir()] == ["step-00000100"]


def test_a_step_that_was_saved_before_is_replaced_whole_and_not_by_what_a_rank_leaves_empty(
    place: Path,
) -> None:
    with nbdist.checkpoint(100) as path:
        (path / "old.pt").write_text("old")

    save(100, "new")
    with nbdist.checkpoint(100):
        pass  # if rank == 0: save

    (only,) = place.iterdir()
    assert [(file.name, file.read_text()) for file in only.iterdir()] == [("model.pt", "new")]


def test_only_so_many_are_kept_and_of_the_programs_own_all(place: Path) -> None:
    nbdist.checkpoint_dir()
    (place / "best.pt").write_text("best")

    for step in range(5):
        save(step, keep=2)

    assert sorted(entry.name for entry in place.iterdir()) == ["best.pt", "step-00000003", "step-00000004"]


def test_what_a_program_renames_into_place_counts_and_what_it_still_writes_does_not(place: Path) -> None:
    save(100)
    draft = nbdist.checkpoint_dir() / "last.pt.tmp"
    draft.write_text("later")
    (place / "tmp-checkpoint-500").mkdir()
    assert nbdist.latest_checkpoint() == place / "step-00000100"
    after = time.time_ns() + 10**9
    os.utime(draft, ns=(after, after))

    draft.rename(place / "last.pt")

    assert nbdist.latest_checkpoint() == place / "last.pt"


def test_checkpoints_of_the_same_moment_are_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    for name in ("epoch-9.pt", "epoch-10.pt"):
        (tmp_path / name).write_text("")
        os.utime(tmp_path / name, (1, 1))

    assert [os.path.basename(path) for path in finished(str(tmp_path))] == ["epoch-10.pt", "epoch-9.pt"]


def enter_as(rank: int, monkeypatch: pytest.MonkeyPatch, step: int) -> Checkpoint:
    """Return the checkpoint that one of three ranks, each a process of its own, writes its part of."""
    monkeypatch.setenv("RANK", str(rank))
    monkeypatch.setenv("WORLD_SIZE", "3")
    monkeypatch.setattr("nbdist.worker.checkpoints._sharded", step // 100 - 1)
    return nbdist.checkpoint(step, sharded=True)


def test_a_sharded_one_is_finished_by_the_rank_that_leaves_last(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for rank in (2, 0, 1):
        assert nbdist.latest_checkpoint() is None
        with enter_as(rank, monkeypatch, 100) as path:
            (path / f"shard-{rank}").write_text(str(rank))

    (only,) = place.iterdir()
    assert nbdist.latest_checkpoint() == only
    assert sorted(file.name for file in only.iterdir()) == ["shard-0", "shard-1", "shard-2"]


def test_of_ranks_that_see_all_parts_at_once_one_finishes_the_checkpoint(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ranks = []
    for rank in range(3):
        ranks.append(enter_as(rank, monkeypatch, 100))
        ranks[rank].__enter__()

    assert [checkpoint._claim() for checkpoint in ranks] == [True, False, False]

    # by its name there is nothing left that a rank could take for a draft with all parts
    (draft,) = place.iterdir()
    assert draft.name.endswith(".whole")
    assert nbdist.latest_checkpoint() is None


def test_a_sharded_one_that_misses_a_part_is_never_the_latest_and_goes_with_the_next_attempt(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for rank in range(3):
        with enter_as(rank, monkeypatch, 100):
            pass
    for rank in (0, 1):
        with enter_as(rank, monkeypatch, 200) as path:
            (path / f"shard-{rank}").write_text("")
    # rank 2 was killed
    assert nbdist.latest_checkpoint() == place / "step-00000100"
    assert len(list(place.iterdir())) == 2

    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")
    monkeypatch.setattr("nbdist.worker.checkpoints._cleaned", set())
    assert nbdist.attempt() == 2
    with enter_as(2, monkeypatch, 200):
        drafts = [entry.name.split(".")[1] for entry in place.iterdir() if entry.name[0] == "."]
        assert drafts == ["step-00000200"]

    # its mark is the only one there: those of the attempt before do not count
    assert nbdist.latest_checkpoint() == place / "step-00000100"


def test_machines_that_were_started_by_hand_are_told_what_to_write(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GROUP_WORLD_SIZE", "2")
    with pytest.raises(RuntimeError, match="--on slurm"):
        enter_as(0, monkeypatch, 100).__enter__()
    assert place.exists()
    monkeypatch.setenv("NBDIST_CHECKPOINTS", "")

    with pytest.raises(RuntimeError, match="--checkpoints /shared/name"):
        nbdist.checkpoint_dir()


def test_outside_a_run_the_program_has_a_directory_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("NBDIST_CHECKPOINTS", "NBDIST_RUN_ID", "NBDIST_RUN_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)

    save(1)

    assert nbdist.attempt() == 1
    assert nbdist.checkpoint_dir().parent == tmp_path / "checkpoints"
    assert nbdist.latest_checkpoint() == nbdist.checkpoint_dir() / "step-00000001"


@pytest.mark.parametrize(
    ("step", "keep", "error"),
    [
        pytest.param(-1, None, ValueError, id="a step below 0"),
        pytest.param(1.5, None, TypeError, id="no whole number"),
        pytest.param(1, 0, ValueError, id="none kept"),
    ],
)
def test_what_is_no_step_is_refused(step: object, keep: object, error: type[Exception]) -> None:
    with pytest.raises(error):
        nbdist.checkpoint(step, keep=keep)  # type: ignore[arg-type]
