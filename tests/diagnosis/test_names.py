"""What a program tells of a key, a column or a name that was missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from nbdist.diagnosis import diagnose
from tests.diagnosis.clue_cells import CELL, IN_TRAINER, PACKAGES, READS, cause_of
from tests.fakes.directories import WrittenRun
from tests.fakes.runs import CREATED, STARTED, a_spec, errored, exited


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


def test_a_column_that_is_missing_is_told_with_the_nearest(tmp_path: Path) -> None:
    written = WrittenRun(tmp_path / "home", cell=CELL).happened(*STARTED)
    frames = [(a_spec().program, 6, "<module>", "")]
    written.raised(1, "KeyError", "'label'", frames=frames, near=" label", time=CREATED + 5)

    failure = diagnose(written.happened(errored(1), exited(1, 1)).run, written.directory)

    assert failure is not None
    assert failure.hint is not None
    assert failure.hint.cause.en.startswith("the table has no 'label', but ' label'")


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        pytest.param("'0', '1'", "CLASSES has no 1 (a number), but '1' (a text): the keys of a", id="a text"),
        pytest.param("'10', '11'", "CLASSES has no 1: it has '10', '11'", id="other texts"),
        pytest.param("0, 2", "CLASSES has no 1: it has 0, 2", id="other numbers"),
    ],
)
def test_a_number_that_a_dict_does_not_have_is_told(tmp_path: Path, keys: str, said: str) -> None:
    cause = cause_of(tmp_path, "KeyError", "1", 6, ("CLASSES", f"dict of 2 ({keys})"), ("name", "1"))

    assert cause.startswith(said)


def test_a_key_is_missing_in_what_was_asked_for_it(tmp_path: Path) -> None:
    cell = CELL.replace("CLASSES[name]", "CLASSES[name['kind']]")
    values = ("name", "dict of 2 ('path', 'kind')"), ("CLASSES", "dict of 2 ('bicycle', 'train')")

    cause = cause_of(tmp_path, "KeyError", "'horse'", 6, *values, cell=cell)

    assert cause.startswith("CLASSES has no 'horse': it has 'bicycle', 'train'")


SETTINGS = """\
optimizer = AdamW(net, lr=config["lr"], betas=config["betas"])
rate = config["lr"] * steps
"""


@pytest.mark.parametrize(
    ("line", "inner", "texts", "said"),
    [
        pytest.param(
            1, "if not 0.0 <= lr:", ("lr",), "config['lr'] is a text, and a number is wanted", id="one"
        ),
        pytest.param(
            1,
            "if not 0.0 <= betas[0] < 1.0:",
            ("betas",),
            "config['betas'] is a text, and several numbers are wanted",
            id="several",
        ),
        pytest.param(
            1, "if not 0.0 <= weight_decay:", ("lr",), "a number meets a text: YAML", id="another setting"
        ),
        pytest.param(2, "", ("lr",), "config['lr'] is a text, and a number is wanted", id="in the program"),
        pytest.param(2, "", ("lr", "betas"), "a number meets a text: YAML", id="which of two"),
    ],
)
def test_a_setting_that_is_a_text_is_told_by_its_name(
    tmp_path: Path, line: int, inner: str, texts: tuple[str, ...], said: str
) -> None:
    written = WrittenRun(tmp_path / "home", cell=SETTINGS).happened(*STARTED)
    program = a_spec().program
    frames = [(program, line, "<module>", "")]
    frames += (
        [("/v/lib/python3.11/site-packages/torch/optim/adam.py", 62, "__init__", inner)] if inner else []
    )
    operands = [(program, line, f"config['{name}']", "str of 4 characters") for name in texts]
    message = "'<=' not supported between instances of 'float' and 'str'"
    written.raised(1, "TypeError", message, frames=frames, operands=operands, time=CREATED + 5)

    failure = diagnose(written.happened(errored(1), exited(1, 1)).run, written.directory)

    assert failure is not None
    assert failure.hint is not None
    assert failure.hint.cause.en.startswith(said)


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
        pytest.param("import pandas\nprices[191]", "KeyError", "191", "", id="a dict beside pandas"),
        pytest.param(
            "table['label']  # through /pandas/core/frame.py",
            "KeyError",
            "'label'",
            "the table has no column 'label'",
            id="a column",
        ),
        pytest.param(
            "table.loc['label']  # through /pandas/core/indexing.py and /pandas/core/frame.py",
            "KeyError",
            "'label'",
            "",
            id="a row",
        ),
        pytest.param(
            "DistributedSampler(lines)\nraised in /torch/utils/data/distributed.py",
            "TypeError",
            "object of type 'Lines' has no len()",
            "a sampler asks the dataset for its length, and Lines has no __len__",
            id="a sampler of a stream",
        ),
        pytest.param(
            "len(loader)\nraised in /torch/utils/data/dataloader.py",
            "TypeError",
            "object of type 'Lines' has no len()",
            "len() of a DataLoader needs the length of its dataset, and Lines has no __len__",
            id="the length of a stream",
        ),
        pytest.param(
            "model.fit(data)  # through /paddle/hapi/callbacks.py",
            "TypeError",
            "ReduceOnPlateau.step() missing 1 required positional argument: 'metrics'",
            "Model.fit() calls the scheduler's step() itself",
            id="a scheduler in fit",
        ),
        pytest.param(
            "Forecast.load_from_checkpoint(path)  # through lightning/pytorch/core/saving.py",
            "TypeError",
            "Forecast.__init__() missing 2 required positional arguments: 'history' and 'horizon'",
            "the checkpoint does not have the arguments of the module: 'history' and 'horizon'",
            id="a checkpoint",
        ),
        pytest.param(
            "bert(tokens)  # through /transformers/models/bert/modeling_bert.py",
            "RuntimeError",
            "The expanded size of the tensor (175) must match the existing size (128) at non-singleton "
            "dimension 1.  Target sizes: [8, 175].  Tensor sizes: [1, 128]",
            "a text has 175 tokens, and the model has 128 positions",
            id="tokens",
        ),
        pytest.param(
            "sys.exit(main())",
            "SystemExit",
            "/models/best.pt",
            "sys.exit() was given a text",
            id="a path that main returned",
        ),
        pytest.param("sys.exit('no data')", "SystemExit", "no data", "", id="a reason"),
        pytest.param(
            "model = paddle.Model(net)",
            "TypeError",
            "CrossEntropyLoss.forward() takes 3 positional arguments but 4 were given",
            "the network's outputs and a sample's fields after the input all go to the loss",
            id="fields",
        ),
        pytest.param(
            "model = paddle.Model(net)  # through /paddle/hapi/model.py",
            "TypeError",
            "CrossEntropyLoss.forward() missing 1 required positional argument: 'label'",
            "paddle.Model gave all that the dataset gives to the network's forward()",
            id="labels to the network",
        ),
        pytest.param(
            "Adam(lr).minimize(cost)  # through /paddle/base/executor.py",
            "RuntimeError",
            "PreconditionNotMetError: Tensor holds no memory. Call Tensor::mutable_data firstly.",
            "a variable that exe.run() needs has no value",
            id="startup before minimize",
        ),
        pytest.param(
            "model = FSDP(model)  # through /torch/distributed/fsdp/_optim_utils.py",
            "KeyError",
            "Parameter containing:\ntensor([[-0.0009]], requires_grad=True)",
            "the optimizer has a parameter that the sharded model has not",
            id="an optimizer before FSDP",
        ),
        pytest.param(
            "FullStateDictConfig(offload_to_cpu=True)  # /torch/distributed/fsdp/_state_dict_utils.py",
            "RuntimeError",
            "setStorage: sizes [8192], strides [1], storage offset 0, and itemsize 4 requiring a storage size"
            " of 32768 are out of bounds for storage of size 0",
            "offload_to_cpu=True of a model that is on the CPU",
            id="offload from the CPU",
        ),
        pytest.param(
            "model = FSDP(model); model.module.head(x)",
            "RuntimeError",
            "setStorage: sizes [8192], strides [1], storage offset 0, and itemsize 4 requiring a storage size"
            " of 32768 are out of bounds for storage of size 0",
            "a weight is used while FSDP has freed it",
            id="a layer of its own",
        ),
    ],
)
def test_some_errors_are_known_in_some_programs_alone(
    tmp_path: Path, program: str, kind: str, message: str, said: str
) -> None:
    cause = cause_of(tmp_path, kind, message, 1, cell=program)

    assert cause.startswith(said)
    assert bool(cause) is bool(said)


@pytest.mark.parametrize(
    ("message", "near", "said"),
    [
        pytest.param(
            "'Tensor' object has no attribute 'retain_grad'",
            "retain_grads",
            "there is no retain_grad, and there is retain_grads",
            id="an attribute",
        ),
        pytest.param(
            "module 'torch' has no attribute 'zeroes'", "zeros", "there is no zeroes", id="of a module"
        ),
        pytest.param("name 'lables' is not defined", "labels", "there is no lables, and", id="a name"),
        pytest.param("name 'device' is not defined", "", None, id="nothing like it"),
    ],
)
def test_a_name_that_is_nearly_another_one_is_told_with_that(
    tmp_path: Path, message: str, near: str, said: str | None
) -> None:
    written = WrittenRun(tmp_path / "home", cell=READS).happened(*STARTED)
    frames = [(a_spec().program, 5, "<module>", "")]
    written.raised(1, "AttributeError", message, frames=frames, near=near)

    failure = diagnose(written.happened(errored(1), exited(1, 1)).run, written.directory)

    assert failure is not None
    assert (failure.hint is not None) is (said is not None)
    assert said is None or (failure.hint is not None and failure.hint.cause.en.startswith(said))


@pytest.mark.parametrize(
    ("cell", "signature"),
    [
        pytest.param("labels = 1\nprint(lables)\n", "name-misspelt", id="once"),
        pytest.param("labels = 1\nprint(lables, lables)\n", "name-misspelt", id="twice in a line"),
        pytest.param("labels = 1\nprint(lables)\nprint(lables)\n", "name-never-set", id="in two lines"),
    ],
)
def test_a_slip_is_made_once(tmp_path: Path, cell: str, signature: str) -> None:
    written = WrittenRun(tmp_path / "home", cell=cell).happened(*STARTED)
    frames = [(a_spec().program, 2, "<module>", "")]
    written.raised(1, "NameError", "name 'lables' is not defined", frames=frames, near="labels")

    failure = diagnose(written.happened(errored(1), exited(1, 1)).run, written.directory)

    assert failure is not None
    assert failure.hint is not None
    assert failure.hint.signature == signature


def test_a_label_that_pandas_does_not_find_may_be_a_position(tmp_path: Path) -> None:
    written = WrittenRun(tmp_path / "home", cell="row = prices.loc[191]").happened(*STARTED)
    pandas = "/v/lib/python3.11/site-packages/pandas/core"
    frames = [
        (a_spec().program, 1, "<module>", ""),
        (f"{pandas}/indexing.py", 1191, "__getitem__", ""),
        (f"{pandas}/indexes/base.py", 3641, "get_loc", "raise KeyError(key)"),
    ]
    written.raised(1, "KeyError", "191", frames=frames)

    failure = diagnose(written.happened(errored(1), exited(1, 1)).run, written.directory)

    assert failure is not None
    assert failure.hint is not None
    assert failure.hint.signature == "row-by-label"


COLLATOR = """\
def collate(examples):
    return [one["query"] for one in examples]
Trainer(data_collator=collate, args=TrainingArguments("out")).train()
"""


STARTS = (a_spec().program, 3, "<module>", "")


COLLATES = (f"{PACKAGES}/torch/utils/data/_utils/fetch.py", 57, "fetch", "return self.collate_fn(data)")


FETCHES = (COLLATES[0], 54, "fetch", "data = [self.dataset[idx] for idx in possibly_batched_index]")


@pytest.mark.parametrize(
    ("cell", "through", "told"),
    [
        pytest.param(COLLATOR, (IN_TRAINER, COLLATES), True, id="a collator"),
        pytest.param(COLLATOR, (COLLATES,), False, id="without Trainer"),
        pytest.param(COLLATOR, (IN_TRAINER, FETCHES), False, id="a dataset"),
        pytest.param(
            COLLATOR.replace('"out"', '"out", remove_unused_columns=False'),
            (IN_TRAINER, COLLATES),
            False,
            id="kept",
        ),
    ],
)
def test_a_column_that_the_trainer_drops_is_told(
    tmp_path: Path, cell: str, through: tuple[tuple[str, int, str, str], ...], told: bool
) -> None:
    written = WrittenRun(tmp_path / "home", cell=cell).happened(*STARTED)
    at = (a_spec().program, 2, "collate", "")
    written.raised(1, "KeyError", "'query'", frames=[STARTS, *through, at], time=CREATED + 5)
    failure = diagnose(written.happened(errored(1), exited(1, 1)).run, written.directory)

    assert failure is not None
    assert (failure.hint is not None and failure.hint.signature == "columns-dropped") is told


LOSS = """\
class Weighted(Trainer):
    def compute_loss(self, model, inputs, **kwargs):
        weight = inputs.pop("weight")
        labels = inputs.pop("labels")
Weighted(args=TrainingArguments("out")).train()
"""


TAKEN = LOSS.replace("labels = inputs.pop", "weight = weight * inputs.pop").replace("labels", "weight")


@pytest.mark.parametrize(
    ("cell", "line", "key", "told"),
    [
        pytest.param(LOSS, 3, "weight", True, id="a column of its own"),
        pytest.param(LOSS, 4, "labels", False, id="labels are kept"),
        pytest.param(TAKEN, 4, "weight", False, id="taken out before"),
        pytest.param(LOSS.replace("inputs.pop", "WEIGHTS.pop"), 3, "weight", False, id="not of the batch"),
    ],
)
def test_a_column_that_the_trainer_drops_is_told_of_a_loss(
    tmp_path: Path, cell: str, line: int, key: str, told: bool
) -> None:
    written = WrittenRun(tmp_path / "home", cell=cell).happened(*STARTED)
    program = a_spec().program
    calls = (IN_TRAINER[0], 2090, "training_step", "loss = self.compute_loss(model, inputs)")
    frames = [(program, 5, "<module>", ""), calls, (program, line, "compute_loss", "")]
    written.raised(1, "KeyError", f"'{key}'", frames=frames, time=CREATED + 5)
    failure = diagnose(written.happened(errored(1), exited(1, 1)).run, written.directory)

    assert failure is not None
    assert (failure.hint is not None and failure.hint.signature == "columns-dropped") is told


TRAINER = "/v/site-packages/transformers/trainer.py"


@pytest.mark.parametrize(
    ("argument", "file", "said"),
    [
        pytest.param("label=None", TRAINER, "the Trainer's default collator gives a field", id="renamed"),
        pytest.param("target", TRAINER, "Net.forward() takes no labels=", id="another name"),
        pytest.param("label", "/v/site-packages/loop.py", "Net.forward() takes no labels=", id="no Trainer"),
    ],
)
def test_a_label_that_the_trainer_renames_is_told(
    tmp_path: Path, argument: str, file: str, said: str
) -> None:
    cell = (
        f"class Net(nn.Module):\n    def forward(self, image, {argument}):\n        pass\ntrainer.train()\n"
    )
    written = WrittenRun(tmp_path / "home", cell=cell).happened(*STARTED)
    frames = [(a_spec().program, 4, "<module>", ""), (file, 1, "compute_loss", "")]
    message = "Net.forward() got an unexpected keyword argument 'labels'"
    written.raised(1, "TypeError", message, frames=frames, operands=[], time=CREATED + 5)
    written.happened(errored(1), exited(1, 1))

    failure = diagnose(written.run, written.directory)

    assert failure is not None
    assert failure.hint is not None
    assert failure.hint.cause.en.startswith(said)


@pytest.mark.parametrize(
    ("function", "said"),
    [
        pytest.param("validate", "this table has other columns than the one trained with", id="a test"),
        pytest.param("train", "two matrices do not fit", id="training"),
    ],
)
def test_columns_of_dummies_that_differ_are_told(tmp_path: Path, function: str, said: str) -> None:
    cell = f"frame = pd.get_dummies(table)\ndef {function}(model):\n    model(x)\n{function}(model)\n"
    written = WrittenRun(tmp_path / "home", cell=cell).happened(*STARTED)
    frames = [(a_spec().program, 4, "<module>", ""), (a_spec().program, 3, function, "")]
    message = "mat1 and mat2 shapes cannot be multiplied (16x47 and 67x64)"
    written.raised(1, "RuntimeError", message, frames=frames, operands=[], time=CREATED + 5)
    written.happened(errored(1), exited(1, 1))

    failure = diagnose(written.run, written.directory)

    assert failure is not None
    assert failure.hint is not None
    assert failure.hint.cause.en.startswith(said)


@pytest.mark.parametrize(
    ("made", "line", "said"),
    [
        pytest.param(
            "read_csv(path).dropna()",
            "table.loc[name]",
            "table has no row 'p_57' in its index; line 1 leaves rows out:  table = read_csv(path).dropna()",
            id="rows were left out",
        ),
        pytest.param(
            "read_csv(path)", "table.loc[name]", "table has no row 'p_57' in its index", id="as read"
        ),
        pytest.param("read_csv(path)", "table.loc[rows, name]", "", id="it may be a column"),
        pytest.param("read_csv(path)", "table[name]", "", id="a column"),
    ],
)
def test_a_row_that_a_table_has_not_is_told_with_what_leaves_rows_out(
    tmp_path: Path, made: str, line: str, said: str
) -> None:
    written = WrittenRun(tmp_path / "home", cell=f"table = {made}\n{line}\n").happened(*STARTED)
    program = a_spec().program
    frames = [(program, 2, "<module>", ""), (f"{PACKAGES}/pandas/core/indexes/base.py", 3823, "get_loc", "")]
    operands = [(program, 2, "table", "DataFrame")]
    written.raised(1, "KeyError", "'p_57'", frames=frames, operands=operands, time=CREATED + 5)
    failure = diagnose(written.happened(errored(1), exited(1, 1)).run, written.directory)

    assert failure is not None
    told = failure.hint.cause.en if failure.hint is not None else ""
    assert told == said if said else "has no row" not in told
