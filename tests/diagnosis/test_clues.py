"""What a program tells of its layers, its pictures and its columns."""

from __future__ import annotations

from pathlib import Path

import pytest

from nbdist.diagnosis import diagnose
from tests.diagnosis.clue_cells import IN_TRAINER, cause_of
from tests.fakes.directories import WrittenRun
from tests.fakes.runs import CREATED, STARTED, a_spec, errored, exited


@pytest.mark.parametrize(
    ("cell", "names", "signature"),
    [
        pytest.param("trainer.train()", "'eval_runtime', 'epoch'", "no-labels-evaluated"),
        pytest.param("trainer.train()", "'eval_loss', 'eval_runtime', 'epoch'", "name-not-listed"),
        pytest.param("trainer.train()", "'eval_acc', 'eval_runtime', 'epoch'", "name-not-listed"),
        pytest.param(
            "class Own(Trainer):\n    def prediction_step(self, *args): ...\nOwn().train()",
            "'eval_runtime', 'epoch'",
            "name-not-listed",
            id="evaluates itself",
        ),
    ],
)
def test_an_evaluation_without_labels_is_told_of_the_metric_that_it_lacks(
    tmp_path: Path, cell: str, names: str, signature: str
) -> None:
    written = WrittenRun(tmp_path / "home", cell=cell).happened(*STARTED)
    message = (
        "\"The `metric_for_best_model` training argument is set to 'eval_f1', which is not found in the"
        f' evaluation metrics. The available evaluation metrics are: [{names}]."'
    )
    frames = [(a_spec().program, len(cell.splitlines()), "<module>", ""), IN_TRAINER]
    written.raised(1, "KeyError", message, frames=frames, time=CREATED + 5)
    failure = diagnose(written.happened(errored(1), exited(1, 1)).run, written.directory)

    assert failure is not None
    assert failure.hint is not None
    assert failure.hint.signature == signature


def test_layers_that_got_no_gradient_are_named(tmp_path: Path) -> None:
    said = "Expected to have finished reduction in the prior iteration before starting a new one."

    cause = cause_of(tmp_path, "RuntimeError", said, 6, ("without gradient", "aux.box, aux.mask"))

    assert cause == "no gradient came for aux.box, aux.mask: not used in the loss, so DDP still waits for it"


@pytest.mark.parametrize(
    ("opened", "said"),
    [
        pytest.param("Image.open(path)", "a picture with four channels", id="as it is"),
        pytest.param('Image.open(path).convert("RGB")', "two tensors of different lengths", id="converted"),
    ],
)
def test_a_picture_with_four_channels_is_told(tmp_path: Path, opened: str, said: str) -> None:
    message = "The size of tensor a (4) must match the size of tensor b (3) at non-singleton dimension 0"
    cell = f"from PIL import Image\nimage = {opened}\nx = (to_tensor(image) - MEAN) / STD\n"

    assert cause_of(tmp_path, "RuntimeError", message, 3, cell=cell).startswith(said)
