"""Two ranks that wait in NCCL on a GPU: the sentence about each recorded run.

Recorded on one H200 (torch 2.11, NCCL 2.28), which the two ranks shared (``tests/gpu/test_nccl.py``).
"""

from __future__ import annotations

from pathlib import Path

import pytest

from nbdist.diagnosis.stack_text import sentence
from nbdist.diagnosis.stacks import last_stacks
from nbdist.runner import RunHandle
from tests.diagnosis.recordings import laid_out

RECORDED = Path(__file__).parent / "recorded_nccl"

CAUSES = {
    "barrier_of_one": ("left-alone", "rank 0 alone entered  if rank == 0:  (line 50) and called barrier"),
    "batch_norm_of_one": ("left-alone", "if rank == 0:  (line 63) and called SyncBatchNorm"),
    "full_parameters_of_one": ("hang-rank-branch", "rank 0 alone entered  if rank == 0:  (line 31)"),
    "gathers_at_the_end_on_one": ("left-alone", "if self.trainer.is_global_zero:  (line 25)"),
    "gathers_on_the_main_process": ("left-alone", "if accelerator.is_main_process:  (line 40)"),
    "group_of_one": (
        "hang-group-left-out",
        "if rank == 0:  (line 16) keeps ranks from the new_group() of line 17",
    ),
    "groups_in_turn": ("hang-crossed", "rank 0 entered one process group and rank 1 another"),
    "leaves_out_a_nan": ("uneven-steps", "see line 37  if torch.isnan(loss):"),
    "metric_of_one": ("left-alone", "if rank == 0:  (line 56) and called barrier in metrics.compute"),
    "other_keys": ("uneven-steps", "see line 34  for name in sorted(values):"),
    "skips_what_has_no_room": ("uneven-steps", "line 47  except torch.cuda.OutOfMemoryError:"),
    "stops_by_its_own_loss": ("uneven-steps", "see line 58  if stopper.update(val_loss):"),
    "stops_by_its_own_loss_before_a_barrier": ("hang-loop-left", "at line 62  if stopper.step(val_loss):"),
}


@pytest.mark.parametrize("name", CAUSES)
def test_ranks_that_wait_in_nccl_are_explained(name: str, tmp_path: Path) -> None:
    handle = RunHandle(laid_out(name, tmp_path / "home" / "runs", RECORDED))

    report = last_stacks(handle.run, handle.directory)

    assert report.hint is not None, sentence(report)
    signature, cause = CAUSES[name]
    assert cause in report.hint.cause.en
    assert report.hint.signature == signature


def test_ranks_that_have_ended_are_named(tmp_path: Path) -> None:
    handle = RunHandle(laid_out("leaves_out_a_nan", tmp_path / "home" / "runs", RECORDED))

    report = last_stacks(handle.run, handle.directory)

    assert report is not None
    text = (
        "rank 0 waits in all_reduce #15 in torch.cuda.synchronize at line 46 of n05.py; rank 1 has finished"
    )
    assert sentence(report) == text


def test_every_recording_is_read() -> None:
    assert {path.stem for path in RECORDED.glob("*.json")} == set(CAUSES)
