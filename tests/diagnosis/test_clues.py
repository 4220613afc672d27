"""What a program tells of a key or a file that was missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from nbdist.diagnosis import diagnose
from tests.fakes.directories import WrittenRun
from tests.fakes.runs import CREATED, STARTED, a_spec, errored, exited

CELL = """\
import paddle
CLASSES = {"bicycle": 0, "train": 1}
if rank == 0:
    paddle.save(weights, best)
state = load(best)
row = CLASSES[name]
"""


def cause_of(
    tmp_path: Path, kind: str, message: str, line: int, *values: tuple[str, str], cell: str = CELL
) -> str:
    written = WrittenRun(tmp_path / "home", cell=cell).happened(*STARTED)
    program = a_spec().program
    frames, operands = [(program, line, "<module>", "")], [(program, line, *one) for one in values]
    written.raised(1, kind, message, frames=frames, operands=operands, time=CREATED + 5)
    written.happened(errored(1), exited(1, 1))
    failure = diagnose(written.run, written.directory)
    assert failure is not None
    return failure.hint.cause.en if failure.hint is not None else ""


@pytest.mark.parametrize(
    ("key", "said"),
    [
        pytest.param(
            "bycicle", "there is no 'bycicle', and the program has 'bicycle' (line 2)", id="swapped"
        ),
        pytest.param(
            "Bicycle", "there is no 'Bicycle', and the program has 'bicycle' (line 2)", id="capital"
        ),
        pytest.param("bicyle", "there is no 'bicyle', and the program has 'bicycle' (line 2)", id="one less"),
        pytest.param("bicycles", "CLASSES has no 'bicycles': it has 'bicycle', 'train'", id="a plural"),
        pytest.param("brain", "CLASSES has no 'brain': it has 'bicycle', 'train'", id="another word"),
    ],
)
def test_a_key_that_is_missing_is_told_with_what_there_is(tmp_path: Path, key: str, said: str) -> None:
    keys = ("CLASSES", "dict of 2 ('bicycle', 'train')")

    assert cause_of(tmp_path, "KeyError", f"'{key}'", 6, keys).startswith(said)


@pytest.mark.parametrize(
    ("length", "said"),
    [
        pytest.param(7, "/b/best was not there yet: rank 0 makes it (line 4)", id="what rank 0 saves"),
        pytest.param(9, "there is no /b/best: it was not made", id="another file"),
    ],
)
def test_a_file_that_rank_0_saves_later_is_told_by_the_line(tmp_path: Path, length: int, said: str) -> None:
    message = "[Errno 2] No such file or directory: '/b/best'"

    cause = cause_of(tmp_path, "FileNotFoundError", message, 5, ("best", f"str of {length} characters"))

    assert cause.startswith(said)


DATASET = """\
class Photos(Dataset):
    def __getitem__(self, index):
        if self.is_cut(index):
            return None
        return self.load(index)

for photos in DataLoader(Photos()):
    step(photos)
"""


@pytest.mark.parametrize(
    ("collate", "message"),
    [
        pytest.param(
            "torch/utils/data/_utils/collate.py", "object of type 'NoneType' has no len()", id="torch"
        ),
        pytest.param("paddle/io/dataloader/collate.py", "got <class 'NoneType'>", id="paddle"),
    ],
)
def test_a_sample_that_is_none_is_told_with_the_line_that_gave_it(
    tmp_path: Path, collate: str, message: str
) -> None:
    written = WrittenRun(tmp_path / "home", cell=DATASET).happened(*STARTED)
    frames = [
        (a_spec().program, 7, "<module>", ""),
        (f"/v/lib/python3.11/site-packages/{collate}", 207, "default_collate", ""),
    ]
    written.raised(1, "TypeError", message, frames=frames, time=CREATED + 5)
    written.happened(errored(1), exited(1, 1))

    failure = diagnose(written.run, written.directory)

    assert failure is not None
    assert failure.hint is not None
    assert failure.hint.cause.en.endswith("no batch can be made of that: it returns None at line 4")


SAVES = """\
def keep(text, path):
    with open(path + "/labels.txt", "w") as file:
        file.write(text)

if rank == 0:
    keep(labels, folder)
read(folder)
"""


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        pytest.param(SAVES, "/b/labels.txt was not there yet: rank 0 makes it (line 2)", id="written"),
        pytest.param(SAVES.replace(', "w"', ""), "there is no /b/labels.txt", id="read"),
        pytest.param(SAVES.replace("if rank == 0", "if verbose"), "there is no /b/labels.txt", id="by all"),
    ],
)
def test_a_file_is_rank_0_s_where_it_calls_what_writes_it(tmp_path: Path, cell: str, said: str) -> None:
    message = "[Errno 2] No such file or directory: '/b/labels.txt'"

    assert cause_of(tmp_path, "FileNotFoundError", message, 7, cell=cell).startswith(said)


@pytest.mark.parametrize(
    ("message", "said"),
    [
        pytest.param(
            "`ModelCheckpoint(monitor='val/snr')` could not find the monitored key in the returned metrics:"
            " ['train/loss', 'snr', 'epoch']. HINT: …",
            "'val/snr' is asked for, and there are only: train/loss, snr, epoch, of which 'snr' is the near",
            id="the last word",
        ),
        pytest.param(
            "`metric_for_best_model` is set to 'eval_f1', which is not found in the evaluation metrics. The"
            " available ones are: ['eval_loss', 'eval_macro_f1'].",
            "'eval_f1' is asked for, and there are only: eval_loss, eval_macro_f1, of which 'eval_macro_f1'",
            id="like letters",
        ),
        pytest.param(
            "unknown mode 'q', must be one of ('train', 'test')",
            "'q' is asked for, and there are only: train, test",
            id="nothing like it",
        ),
        pytest.param("shapes do not fit: ['a', 'b']", "", id="a list of something else"),
    ],
)
def test_a_name_that_an_error_lists_no_more_is_told_with_the_nearest(
    tmp_path: Path, message: str, said: str
) -> None:
    assert cause_of(tmp_path, "ConfigurationException", message, 5).startswith(said)


@pytest.mark.parametrize(
    ("shapes", "said"),
    [
        pytest.param(
            ("(3000000,)", "(3000000, 1)"),
            "32.7 TiB are asked for:  guess , a column, and  target , a row, are matched each with each",
            id="a row and a column",
        ),
        pytest.param(("(3000000,)", "(3000000,)"), "an array of 32.7 TiB is asked for", id="two rows"),
    ],
)
def test_memory_for_a_column_against_a_row_is_told_by_their_names(
    tmp_path: Path, shapes: tuple[str, str], said: str
) -> None:
    message = "Unable to allocate 32.7 TiB for an array with shape (3000000, 3000000) and data type float32"
    row, column = (f"ndarray {shape} float32" for shape in shapes)

    cause = cause_of(tmp_path, "MemoryError", message, 5, ("target", row), ("guess", column))

    assert cause.startswith(said)


@pytest.mark.parametrize(
    ("program", "kind", "message", "said"),
    [
        pytest.param(
            "import pandas as pd", "KeyError", "191", "a Series is looked up by its label", id="pandas"
        ),
        pytest.param("prices[191]", "KeyError", "191", "", id="a dict"),
        pytest.param(
            "Forecast.load_from_checkpoint(path)",
            "TypeError",
            "Forecast.__init__() missing 2 required positional arguments: 'history' and 'horizon'",
            "the checkpoint does not have the arguments of the module: 'history' and 'horizon'",
            id="a checkpoint",
        ),
        pytest.param(
            "from transformers import BertModel",
            "RuntimeError",
            "The expanded size of the tensor (175) must match the existing size (128) at dimension 1",
            "a text has 175 tokens, and the model has 128 positions",
            id="tokens",
        ),
        pytest.param(
            "model = paddle.Model(net)",
            "TypeError",
            "CrossEntropyLoss.forward() takes 3 positional arguments but 4 were given",
            "what follows the input in a sample is given to the loss as labels",
            id="fields",
        ),
    ],
)
def test_some_errors_are_known_in_some_programs_alone(
    tmp_path: Path, program: str, kind: str, message: str, said: str
) -> None:
    cause = cause_of(tmp_path, kind, message, 1, cell=program)

    assert cause.startswith(said)
    assert bool(cause) is bool(said)
