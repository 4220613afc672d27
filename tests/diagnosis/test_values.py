"""What the values in the failing line tell."""

from __future__ import annotations

from pathlib import Path

import pytest

from nbdist.diagnosis import diagnose
from tests.diagnosis.clue_cells import OF_LOADER, PACKAGES, READS, cause_of
from tests.fakes.directories import Frame, WrittenRun
from tests.fakes.runs import CREATED, STARTED, a_spec, errored, exited

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


TRAINS = """\
def check(loss):
    value = float(loss)
    raise FloatingPointError

def train(before=float("inf")):
    for x, y in loader:
        out = model(x)
        loss = criterion(out, y)
        for part in losses.values(): print(part)
        check(loss)
train()
"""


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        pytest.param(
            ("loss", "out", "x"),
            "the data of rank 1 are not finite before the model gets them: x is Tensor (2,) float32, 50% nan",
            id="the data",
        ),
        pytest.param(
            ("loss", "out"),
            "out is the first variable that is not finite on rank 1: Tensor (2,) float32, 50% nan, from",
            id="the model's output",
        ),
        pytest.param((), "a value became nan or infinite", id="none that is known"),
        pytest.param(("before",), "a value became nan or infinite", id="infinite on purpose"),
        pytest.param(("part",), "part is the first variable that is not finite", id="a loop over results"),
    ],
)
def test_the_first_variable_that_is_nan_is_told(tmp_path: Path, bad: tuple[str, ...], said: str) -> None:
    written = WrittenRun(tmp_path / "home", cell=TRAINS).happened(*STARTED)
    program = a_spec().program
    frames = [(program, 11, "<module>", ""), (program, 10, "train", ""), (program, 3, "check", "")]
    values = [(program, 10, name, "Tensor (2,) float32, 50% nan") for name in bad]
    written.raised(1, "FloatingPointError", "loss is nan at step 0", frames=frames, values=values)
    written.happened(errored(1), exited(1, 1))

    failure = diagnose(written.run, written.directory)

    assert failure is not None
    assert failure.hint is not None
    assert failure.hint.cause.en.startswith(said)


@pytest.mark.parametrize(
    ("what", "said"),
    [
        pytest.param("10% nan", "the data of rank 1 are not finite before the model gets them", id="nan"),
        pytest.param("", "BCELoss takes probabilities from 0 to 1", id="no sigmoid"),
    ],
)
def test_probabilities_that_are_nan_are_told_with_what_was_so_first(
    tmp_path: Path, what: str, said: str
) -> None:
    written = WrittenRun(tmp_path / "home", cell=TRAINS).happened(*STARTED)
    program = a_spec().program
    frames = [(program, 11, "<module>", ""), (program, 8, "train", "")]
    shown = f"Tensor (2,) float32, {what}".rstrip(", ")
    values = [(program, 8, name, shown) for name in ("x", "out") if what]
    operands = [(program, 8, "out", shown), (program, 8, "y", "Tensor (2,) float32")]
    message = "all elements of input should be between 0 and 1"
    written.raised(1, "RuntimeError", message, frames=frames, values=values, operands=operands)
    written.happened(errored(1), exited(1, 1))

    failure = diagnose(written.run, written.directory)

    assert failure is not None
    assert failure.hint is not None
    assert failure.hint.cause.en.startswith(said)


@pytest.mark.parametrize(
    ("line", "kind", "message", "values", "said"),
    [
        pytest.param(
            3,
            "AttributeError",
            "'NoneType' object has no attribute 'shape'",
            [("image", "None")],
            "image is None: line 1  image = cv2.imread(folder + name)",
            id="None",
        ),
        pytest.param(
            4,
            "ZeroDivisionError",
            "division by zero",
            [("total", "9"), ("steps", "0")],
            "steps is 0: line 2  steps = len(dataset) // batch_size",
            id="0",
        ),
        pytest.param(
            3,
            "AttributeError",
            "'NoneType' object has no attribute 'shape'",
            [("image", "None"), ("side", "None")],
            "",
            id="which of two",
        ),
        pytest.param(4, "ValueError", "too many", [("image", "None")], "", id="another error"),
        pytest.param(
            5,
            "TypeError",
            "expected str, bytes or os.PathLike object, not NoneType",
            [("image", "None")],
            "image is None: line 1  image = cv2.imread(folder + name)",
            id="of an error that is known",
        ),
    ],
)
def test_a_value_that_is_none_or_0_is_told_by_the_line_that_set_it(
    tmp_path: Path, line: int, kind: str, message: str, values: list[tuple[str, str]], said: str
) -> None:
    assert cause_of(tmp_path, kind, message, line, *values, cell=READS) == said


COUNTS = """\
loss, count, seen, part = 0.0, 0, 0, 0
for batch in batches(rows, 32):
    loss += step(batch)
    count += len(batch)
    rate = part / count
print(part, loss / count)
mean = loss / seen
"""


SET_LATER = """\
class Rows:
    def __init__(self):
        self.rows = None
    def load(self):
        self.rows = read()
    def __len__(self):
        return len(self.rows)
"""


def test_what_is_none_at_first_is_told_with_what_sets_it_later(tmp_path: Path) -> None:
    said = "object of type 'NoneType' has no len()"

    cause = cause_of(tmp_path, "TypeError", said, 7, ("self.rows", "None"), cell=SET_LATER)

    assert cause.startswith("self.rows is None, as line 3 sets it: line 5, which sets it anew, did not run")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        pytest.param(
            6,
            "count is still 0 on rank 1: the loop of line 2  for batch in batches(rows, 32):  added nothing",
            id="a loop that is over",
        ),
        pytest.param(5, "count is 0: line 1  loss, count, seen, part = (0.0, 0, 0, 0)", id="within the loop"),
        pytest.param(7, "seen is 0: line 1  loss, count, seen, part = (0.0, 0, 0, 0)", id="no loop"),
    ],
)
def test_a_count_of_nothing_is_told_with_the_loop_that_counts(tmp_path: Path, line: int, said: str) -> None:
    zeros = [("part", "0"), ("loss", "0.0"), ("seen" if line == 7 else "count", "0")]

    cause = cause_of(tmp_path, "ZeroDivisionError", "float division by zero", line, *zeros, cell=COUNTS)

    assert cause.startswith(said)


READS_PADDLE = """\
import paddle
def pad(batch):
    return GIVES
loader = paddle.io.DataLoader(data, collate_fn=pad)
count = 0
for batch in loader:
    count += 1
print(loss / count)
"""


@pytest.mark.parametrize(
    ("gives", "said"),
    [
        pytest.param("[one + [0] for one in batch]", "the loop of line 6 had no round", id="lists"),
        pytest.param("np.array(batch)", "count is still 0 on rank 1", id="an array"),
    ],
)
def test_paddle_s_loader_ends_without_a_word_where_it_gets_lists(
    tmp_path: Path, gives: str, said: str
) -> None:
    cell = READS_PADDLE.replace("GIVES", gives)

    cause = cause_of(tmp_path, "ZeroDivisionError", "division by zero", 8, ("count", "0"), cell=cell)

    assert cause.startswith(said)


MEASURES = """\
def evaluate(model):
    if rank != 0:
        return
    return {"accuracy": 0.5}

def prepared(rows):
    rows.sort()

metrics = evaluate(model)
rows = prepared(rows)
print(metrics.items(), rows.items())
"""


@pytest.mark.parametrize(
    ("name", "said"),
    [
        pytest.param(
            "metrics",
            "evaluate(), called in line 9, gives nothing back at line 3, under line 2  if rank != 0:",
        ),
        pytest.param("rows", "prepared(), called in line 10, has no return (line 6)"),
    ],
)
def test_none_of_a_function_is_told_with_where_that_gives_nothing_back(
    tmp_path: Path, name: str, said: str
) -> None:
    message = "'NoneType' object has no attribute 'items'"

    cause = cause_of(tmp_path, "AttributeError", message, 11, (name, "None"), cell=MEASURES)

    assert cause == f"{name} is None: {said}"


CALLS = """\
class Net(nn.Layer):
    def forward(self, x):
        out = self.fc(x)

net = paddle.DataParallel(Net())
net = net.train() if train else net
pred = net(x)
loss = F.binary_cross_entropy(pred, y)
"""


OTHER = CALLS.replace("net = net.train() if train else net", "net = build(net, args)")


ANOTHER = CALLS.replace("net = net.train() if train else net", "net = resnet18()")


@pytest.mark.parametrize(
    ("cell", "within", "said"),
    [
        pytest.param(
            CALLS,
            "/lib/site-packages/paddle/nn/functional/loss.py",
            "pred is None: forward(), called in line 7, has no return (line 2)",
            id="a forward",
        ),
        pytest.param(
            OTHER,
            "/lib/site-packages/paddle/nn/functional/loss.py",
            "pred is None: forward(), called in line 7, has no return (line 2)",
            id="of a wrapper",
        ),
        pytest.param(
            ANOTHER,
            "/lib/site-packages/paddle/nn/functional/loss.py",
            "pred is None: line 7  pred = net(x)",
            id="of one class or another",
        ),
        pytest.param(
            CALLS,
            "/lib/site-packages/paddlenlp/losses.py",
            "None is given where a tensor belongs: mostly a forward() without return, or labels that the"
            " batch does not have",
            id="within another library",
        ),
    ],
)
def test_none_that_a_layer_was_given_is_told_with_the_forward_that_gave_it(
    tmp_path: Path, cell: str, within: str, said: str
) -> None:
    message = "(InvalidArgument) bce_loss(): argument 'input' (position 0) must be Tensor, but got None"
    written = WrittenRun(tmp_path / "home", cell=cell).happened(*STARTED)
    program = a_spec().program
    frames = [(program, 8, "<module>", ""), (within, 683, "binary_cross_entropy", "")]
    frames.append(("/lib/site-packages/paddle/nn/functional/loss.py", 700, "check", ""))
    operands = [(program, 8, "pred", "None"), (program, 8, "y", "Tensor (8, 1) float32")]
    written.raised(1, "ValueError", message, frames=frames, operands=operands, time=CREATED + 5)
    written.happened(errored(1), exited(1, 1))

    failure = diagnose(written.run, written.directory)

    assert failure is not None
    assert failure.hint is not None
    assert failure.hint.cause.en == said


SNAPSHOTS = """\
import glob
def newest(folder):
    found = sorted(glob.glob(folder + "/*.pt"))
    return found[-1]
rows = []
last = rows[0] + counts[0]
rows.pop()
"""


@pytest.mark.parametrize(
    ("line", "function", "name", "message", "said"),
    [
        pytest.param(
            4,
            "newest",
            "found",
            "list index out of range",
            "found is empty, so no file was found: line 3  found = sorted(glob.glob(folder + '/*.pt'))",
            id="no file",
        ),
        pytest.param(
            6,
            "<module>",
            "rows",
            "list index out of range",
            "rows is empty, so it has no place to ask for: line 5  rows = []",
            id="nothing was put in",
        ),
        pytest.param(
            7, "<module>", "rows", "pop from empty list", "rows is empty, so it has no place to", id="taken"
        ),
        pytest.param(
            6, "<module>", "other", "list index out of range", "a place is asked of a list", id="another one"
        ),
    ],
)
def test_a_list_that_is_empty_is_told_with_what_set_it(
    tmp_path: Path, line: int, function: str, name: str, message: str, said: str
) -> None:
    written = WrittenRun(tmp_path / "home", cell=SNAPSHOTS).happened(*STARTED)
    program = a_spec().program
    frames, operands = [(program, line, function, "")], [(program, line, name, "list of 0")]
    written.raised(1, "IndexError", message, frames=frames, operands=operands, time=CREATED + 5)
    failure = diagnose(written.happened(errored(1), exited(1, 1)).run, written.directory)

    assert failure is not None
    assert failure.hint is not None
    assert failure.hint.cause.en.startswith(said)


@pytest.mark.parametrize(
    ("what", "signature"),
    [
        pytest.param("Tensor (8,) int64, -1 to -1", "target-negative-all"),
        pytest.param("Tensor (8,) int64, -1 to 2", "target-negative"),
        pytest.param("Tensor (8,) float32", "target-negative"),
    ],
)
def test_labels_of_a_batch_that_are_all_one_negative_number_were_not_set(
    tmp_path: Path, what: str, signature: str
) -> None:
    written = WrittenRun(tmp_path / "home", cell="loss = loss_fn(model(x), y)").happened(*STARTED)
    program = a_spec().program
    frames, operands = [(program, 1, "<module>", "")], [(program, 1, "y", what)]
    message = "Target -1 is out of bounds."
    written.raised(1, "IndexError", message, frames=frames, operands=operands, time=CREATED + 5)
    failure = diagnose(written.happened(errored(1), exited(1, 1)).run, written.directory)

    assert failure is not None
    assert failure.hint is not None
    assert failure.hint.signature == signature


@pytest.mark.parametrize(
    ("name", "got", "signature"),
    [
        pytest.param("model.transformer.wpe", "Tensor (1, 80) int64, 0 to 79", "ids-past-positions"),
        pytest.param("net.embed_positions", "Tensor (2, 1) int64, 64 to 64", "ids-past-positions"),
        pytest.param("net.token_type_embeddings", "Tensor (2, 9) int64, 0 to 64", "ids-past-types"),
        pytest.param("net.x_position_embeddings", "Tensor (2, 9) int64, 0 to 900", "ids-past-vocabulary"),
        pytest.param("model.transformer.wte", "Tensor (2, 9) int64, 3 to 64", "ids-past-vocabulary"),
        pytest.param("model.transformer.wte", "Tensor (2, 9) int64, -100 to 5", "ids-negative"),
        pytest.param("model.transformer.wte", "Tensor (2, 9) int64", "index-out-of-range", id="not known"),
        pytest.param("a" * 80, "Tensor (2, 9) int64, 3 to 64", "index-out-of-range", id="a name that is cut"),
    ],
)
def test_an_id_that_an_embedding_does_not_have_is_told_by_its_layer(
    tmp_path: Path, name: str, got: str, signature: str
) -> None:
    written = WrittenRun(tmp_path / "home", cell="loss = model(ids)").happened(*STARTED)
    program = a_spec().program
    what = f"Embedding with weight (64, 32) float32, got {got}"
    frames = [(program, 1, "<module>", ""), (f"{PACKAGES}/torch/nn/functional.py", 2615, "embedding", "")]
    operands = [(program, 1, name, what)]
    written.raised(
        1, "IndexError", "index out of range in self", frames=frames, operands=operands, time=CREATED + 5
    )
    failure = diagnose(written.happened(errored(1), exited(1, 1)).run, written.directory)

    assert failure is not None
    assert failure.hint is not None
    assert failure.hint.signature == signature


@pytest.mark.parametrize(
    ("name", "signature"),
    [
        pytest.param("model.module.decoder", "decoder-without-input"),
        pytest.param("model.module.encoder", "no-input-ids"),
        pytest.param("model", "no-input-ids"),
    ],
)
def test_a_model_that_got_no_ids_is_told_by_its_part(tmp_path: Path, name: str, signature: str) -> None:
    written = WrittenRun(tmp_path / "home", cell="loss = model(input_ids=ids).loss").happened(*STARTED)
    program = a_spec().program
    message = "You must specify exactly one of input_ids or inputs_embeds"
    frames, operands = [(program, 1, "<module>", "")], [(program, 1, name, "T5Stack")]
    written.raised(1, "ValueError", message, frames=frames, operands=operands, time=CREATED + 5)
    failure = diagnose(written.happened(errored(1), exited(1, 1)).run, written.directory)

    assert failure is not None
    assert failure.hint is not None
    assert failure.hint.signature == signature


HOOKED = """\
import torch
class Stats:
    def make(self, name):
        def hook(module, inputs, output):
            return {given}
        return hook
    def record(self, name, output):
        std = output.std().item()
        self.values.append(std)
        return std
    def note(self, name, output):
        self.values.append(output)
for name, layer in model.named_modules():
    layer.register_forward_hook({hook})
model(x)
"""


@pytest.mark.parametrize(
    ("given", "hook", "line"),
    [
        pytest.param("self.record(name, output)", "stats.make(name)", 5, id="what a method gives"),
        pytest.param("output.mean().item()", "stats.make(name)", 5, id="a number"),
        pytest.param("None", "lambda m, i, o: [o]", 14, id="a lambda"),
        pytest.param("self.note(name, output)", "stats.make(name)", None, id="a method that gives nothing"),
        pytest.param("output * 2", "stats.make(name)", None, id="another tensor"),
        pytest.param("self.values.append(output)", "stats.make(name)", None, id="nothing"),
        pytest.param("None", "lambda m, i, o: kept.append(o)", None, id="a lambda that keeps"),
    ],
)
def test_what_a_hook_gives_back_is_told_where_a_layer_gave_no_tensor(
    tmp_path: Path, given: str, hook: str, line: int | None
) -> None:
    written = WrittenRun(tmp_path / "home", cell=HOOKED.replace("{given}", given).replace("{hook}", hook))
    written.happened(*STARTED)
    frames = [(a_spec().program, 15, "<module>", ""), ("/v/torch/nn/modules/module.py", 1, "_call_impl", "")]
    message = "relu(): argument 'input' (position 1) must be Tensor, not float"
    written.raised(1, "TypeError", message, frames=frames, time=CREATED + 5)

    failure = diagnose(written.happened(errored(1), exited(1, 1)).run, written.directory)

    assert failure is not None
    assert failure.hint is not None
    assert failure.hint.signature == ("number-for-tensor" if line is None else "hook-gives-back")
    assert line is None or f"line {line}, " in failure.hint.cause.en


WEIGHTED = """\
class Rows(Dataset):
    def __len__(self):
        return len(self.df)
    def __getitem__(self, idx):
        return self.df.iloc[idx]
sampler = WeightedRandomSampler(weights, 100)
for batch in DataLoader(Rows(part), sampler=sampler):
    step(batch)
"""


@pytest.mark.parametrize(
    ("cell", "through", "said"),
    [
        pytest.param(WEIGHTED, OF_LOADER, "len() of the dataset is len(self.df) (line 3), so", id="weights"),
        pytest.param(WEIGHTED, "", "iloc was asked for a row", id="asked for by the program"),
        pytest.param(WEIGHTED.replace("len(self.df)", "self.n"), OF_LOADER, "iloc was", id="another length"),
        pytest.param(WEIGHTED.replace("iloc[idx]", "iloc[idx + 1]"), OF_LOADER, "iloc was", id="the next"),
        pytest.param(WEIGHTED.replace("WeightedRandomS", "s"), OF_LOADER, "iloc was", id="no sampler"),
    ],
)
def test_an_index_that_a_sampler_has_drawn_elsewhere_is_told(
    tmp_path: Path, cell: str, through: str, said: str
) -> None:
    written = WrittenRun(tmp_path / "home", cell=cell).happened(*STARTED)
    program = a_spec().program
    frames = [(program, 7, "<module>", "")] + ([(through, 54, "fetch", "")] if through else [])
    frames += [(program, 5, "__getitem__", "")]
    written.raised(1, "IndexError", "single positional indexer is out-of-bounds", frames=frames)

    failure = diagnose(written.happened(errored(1), exited(1, 1)).run, written.directory)

    assert failure is not None
    assert failure.hint is not None
    assert failure.hint.cause.en.startswith(said)


TENSORS = WEIGHTED.replace("self.df.iloc[idx]", "self.df[idx]")
BEYOND = "index 94 is out of bounds for dimension 0 with size 64"


@pytest.mark.parametrize(
    ("read", "said"),
    [
        pytest.param("self.df[idx]", "len() of the dataset is len(self.df) (line 3), so", id="counted"),
        pytest.param("self.df[idx], self.y[idx]", "index 94 of dimension 0 was asked for", id="labels, too"),
    ],
)
def test_an_index_beyond_a_tensor_is_the_sampler_s_where_the_dataset_counts_that(
    tmp_path: Path, read: str, said: str
) -> None:
    cell = TENSORS.replace("self.df[idx]", read)
    frames = [(a_spec().program, 7, "<module>", ""), (OF_LOADER, 54, "fetch", "")]

    cause = beyond(tmp_path, cell, BEYOND, *frames, (a_spec().program, 5, "__getitem__", ""))

    assert cause.startswith(said)


def beyond(folder: Path, cell: str, message: str, *frames: Frame, **more: object) -> str:
    written = WrittenRun(folder / "home", cell=cell).happened(*STARTED)
    written.raised(1, "IndexError", message, frames=frames, time=CREATED + 5, **more)
    failure = diagnose(written.happened(errored(1), exited(1, 1)).run, written.directory)
    assert failure is not None
    assert failure.hint is not None
    return failure.hint.cause.en


FETCHED = """\
sampler = {0}
loader = DataLoader({1}, batch_size=16, sampler=sampler)
for x in loader:
    step(x)
"""
OF_DATASET = f"{PACKAGES}/torch/utils/data/dataset.py"
IN_TENSORS = (OF_DATASET, 206, "__getitem__", "return tuple(tensor[index] for tensor in self.tensors)")
IN_SUBSET = (OF_DATASET, 443, "__getitems__", "return [self.dataset[self.indices[idx]] for idx in indices]")
ASKED = ((OF_DATASET, 443, "self.indices", "list of 64"), (OF_DATASET, 443, "idx", "94"))
INNER = ((OF_DATASET, 443, "self.indices", "list of 64"), (OF_DATASET, 443, "idx", "3"))
TOLD = "the loader in line 2 reads part, and its sampler draws from data (line 1)"


@pytest.mark.parametrize(
    ("sampler", "message", "within", "inside", "said"),
    [
        pytest.param("DistributedSampler(data)", BEYOND, (), (), TOLD, id="an array"),
        pytest.param("DistributedSampler(dataset=data)", BEYOND, (), (), TOLD, id="by its name"),
        pytest.param("DistributedSampler(data)", BEYOND, (IN_TENSORS,), (), TOLD, id="a TensorDataset"),
        pytest.param("DistributedSampler(data)", "list index out of range", (), (), TOLD, id="a list"),
        pytest.param(
            "DistributedSampler(data)",
            "list index out of range",
            (IN_SUBSET,),
            ASKED,
            TOLD,
            id="a part of a dataset",
        ),
        pytest.param(
            "DistributedSampler(data)",
            "list index out of range",
            (IN_SUBSET,),
            INNER,
            "an index is asked for that the Subset",
            id="an index of that part",
        ),
        pytest.param(
            "DistributedSampler(data)",
            BEYOND,
            (IN_SUBSET, IN_TENSORS),
            (),
            "index 94 of dimension 0 was asked for",
            id="one dataset asks another",
        ),
        pytest.param(
            "DistributedSampler(part)", BEYOND, (), (), "index 94 of dimension 0 was asked for", id="the same"
        ),
        pytest.param("make(data)", BEYOND, (), (), "index 94 of dimension 0 was asked for", id="unknown"),
    ],
)
def test_an_index_that_a_loader_asks_an_array_for_is_told_by_its_sampler(
    tmp_path: Path,
    sampler: str,
    message: str,
    within: tuple[Frame, ...],
    inside: tuple[Frame, ...],
    said: str,
) -> None:
    frames = [(a_spec().program, 3, "<module>", ""), (OF_LOADER, 54, "fetch", ""), *within]

    cause = beyond(tmp_path, FETCHED.format(sampler, "part"), message, *frames, inside=inside)

    assert cause.startswith(said)
