"""What a program tells of a key or a file that was missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from nbdist.diagnosis import diagnose
from nbdist.store.reports import RankAnswer, TakenStacks, write_stacks
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
    ("length", "said"),
    [
        pytest.param(7, "/b/best was not there yet: rank 0 makes it (line 4)", id="what rank 0 saves"),
        pytest.param(9, "there is no /b/best: not made, by another name", id="another file"),
    ],
)
def test_a_file_that_rank_0_saves_later_is_told_by_the_line(tmp_path: Path, length: int, said: str) -> None:
    message = "[Errno 2] No such file or directory: '/b/best'"

    cause = cause_of(tmp_path, "FileNotFoundError", message, 5, ("best", f"str of {length} characters"))

    assert cause.startswith(said)


@pytest.mark.parametrize(
    ("made", "said"),
    [
        pytest.param("best.npz", "adds .npz to a name that does not end so", id="there"),
        pytest.param("other.npz", "there is no ", id="not there"),
    ],
)
def test_a_file_that_numpy_has_named_otherwise_is_told_by_its_ending(
    tmp_path: Path, made: str, said: str
) -> None:
    (tmp_path / made).touch()
    message = f"[Errno 2] No such file or directory: '{tmp_path}/best'"

    cause = cause_of(tmp_path, "FileNotFoundError", message, 2, cell="np.savez(path, x=x)\nnp.load(path)\n")

    assert said in cause
    assert ("np.savez (line 1)" in cause) is (made == "best.npz")


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


BY_THE_CLOCK = """\
folder = "/b/" + now.strftime("%H-%M-%S")
path = folder + "/best.pt"
if rank == 0:
    save(model, path)
barrier()
load(path)
"""
BY_A_MOMENT = """\
now = dt.datetime.now()
took = f"{now - begun}"; path = f"/b/{now:%H-%M-%S}/best.pt"
if rank == 0:
    save(model, path)
barrier()
load(path)
"""
OF_RANK_0 = """\
names = [None]
if rank == 0:
    names[0] = now.strftime("/b/%H-%M-%S")
broadcast_object_list(names)
load(names[0] + "/best.pt")
"""
MADE_BY_ALL = """\
name = f"/b/{datetime.now():%H-%M-%S}"
names = [name]
broadcast_object_list(names, src=0)
path = names[0] + "/best.pt"
if rank == 0:
    save(model, path)
load(path)
"""


@pytest.mark.parametrize(
    ("cell", "line", "said"),
    [
        pytest.param(BY_THE_CLOCK, 6, "each rank makes this name by itself (line 1  folder = ", id="each"),
        pytest.param(BY_A_MOMENT, 6, "each rank makes this name by itself (line 2  path = ", id="a moment"),
        pytest.param(BY_A_MOMENT.replace("{now:", "{begun:"), 6, "/b/10-11-12/best.pt was not", id="given"),
        pytest.param(OF_RANK_0, 5, "there is no /b/10-11-12/best.pt: not made", id="one, for all"),
        pytest.param(MADE_BY_ALL, 7, "/b/10-11-12/best.pt was not there yet", id="that of rank 0"),
    ],
)
def test_a_name_by_the_clock_is_another_one_on_each_rank(
    tmp_path: Path, cell: str, line: int, said: str
) -> None:
    path = "/b/10-11-12/best.pt"
    value = ("path", f"str of {len(path)} characters")
    message = f"[Errno 2] No such file or directory: '{path}'"

    assert cause_of(tmp_path, "FileNotFoundError", message, line, value, cell=cell).startswith(said)


IN_A_WITH = """\
with tempfile.TemporaryDirectory(prefix="clips_") as folder:
    unpack(archive, folder)
    load(folder + "/a.pt")
load(folder + "/a.pt")
"""


@pytest.mark.parametrize(
    ("cell", "line", "said"),
    [
        pytest.param(
            IN_A_WITH, 4, "/tmp/clips_i0vpqg46/a.pt was in the folder of line 1  with temp", id="left"
        ),
        pytest.param(IN_A_WITH, 3, "there is no /tmp/clips_i0vpqg46/a.pt; line 1 removes", id="within"),
        pytest.param(
            IN_A_WITH.replace("clips_", "x"), 4, "there is no /tmp/clips_i0vpqg46/a.pt; line 1", id="another"
        ),
    ],
)
def test_a_file_of_a_temporary_folder_is_gone_with_it(
    tmp_path: Path, cell: str, line: int, said: str
) -> None:
    message = "[Errno 2] No such file or directory: '/tmp/clips_i0vpqg46/a.pt'"

    assert cause_of(tmp_path, "FileNotFoundError", message, line, cell=cell).startswith(said)


WRITES = """\
import json
if rank == 0:
    with open(path, "w") as file:
        words = count(texts)
        json.dump(words, file)
words = json.load(open(path))
"""


@pytest.mark.parametrize(
    ("line", "cell", "said"),
    [
        pytest.param(
            4, WRITES, "rank 0 was then writing a file (line 3), most likely that which", id="opened"
        ),
        pytest.param(
            5, WRITES, "rank 0 was then writing a file (line 5), most likely that", id="in the call"
        ),
        pytest.param(6, WRITES, "no JSON at its start", id="past it"),
        pytest.param(4, WRITES.replace(', "w"', ""), "no JSON at its start", id="opened to read"),
        pytest.param(
            4, WRITES.replace("json.dump(", "torch.save("), "no JSON at its start", id="a checkpoint"
        ),
        pytest.param(4, WRITES.replace("json.dump(words, file)", "train(file)"), "no JSON at", id="a log"),
    ],
)
def test_a_file_is_read_too_early_where_another_rank_was_writing(
    tmp_path: Path, line: int, cell: str, said: str
) -> None:
    written = WrittenRun(tmp_path / "home", cell=cell).happened(*STARTED)
    program = a_spec().program
    message = "Expecting value: line 1 column 1 (char 0)"
    written.raised(
        1, "json.decoder.JSONDecodeError", message, frames=[(program, 6, "<module>", "")], time=CREATED + 5
    )
    text = f'Current thread 0x1 (most recent call first):\n  File "{program}", line {line} in <module>\n'
    answers = (RankAnswer(rank=0, text=text), RankAnswer(rank=1, problem="ended"))
    write_stacks(written.directory, TakenStacks(time=CREATED + 5, attempt=1, ranks=answers))
    written.happened(errored(1), exited(1, 1))

    failure = diagnose(written.run, written.directory)

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


SHARDS = """\
def write(self):
    if self.writes:
        np.savez(os.path.join(folder, "shard.npz"), x=x)
    self.names.remove("shard")

def clear(self):
    shutil.rmtree(folder)

read(folder)
"""


def test_a_file_that_was_to_be_written_is_told_by_its_folder(tmp_path: Path) -> None:
    message = "[Errno 2] No such file or directory: '/b/shard.npz'"

    cause = cause_of(tmp_path, "FileNotFoundError", message, 3, cell=SHARDS)

    assert cause == "/b/shard.npz was to be written, and its folder is not there"


def test_a_file_that_is_missing_is_told_with_the_lines_that_make_and_remove_it(tmp_path: Path) -> None:
    message = "[Errno 2] No such file or directory: '/b/shard.npz'"

    cause = cause_of(tmp_path, "FileNotFoundError", message, 9, cell=SHARDS)

    assert cause == (
        "there is no /b/shard.npz; line 3 makes it, under line 2  if self.writes:;"
        " line 7 removes or moves files:  shutil.rmtree(folder)"
    )


REMOVED = """\
import os, shutil
os.remove("/b/x.npz")
shutil.rmtree("/b")
shutil.copytree("/b", "/c")
open("/b/x.npz")
"""

SHUTIL = "/usr/lib/python3.11/shutil.py"


@pytest.mark.parametrize(
    ("line", "within", "path", "said"),
    [
        pytest.param(2, (), "/b/x.npz", "/b/x.npz was to be removed, and is not there", id="a file"),
        pytest.param(3, ("rmtree", "_rmtree_safe_fd"), "part", "part was to be removed", id="a part"),
        pytest.param(4, ("copytree",), "/b", "there is no /b", id="copied"),
        pytest.param(5, (), "/b/x.npz", "there is no /b/x.npz", id="opened"),
    ],
)
def test_what_is_removed_and_is_not_there_is_told_so(
    tmp_path: Path, line: int, within: tuple[str, ...], path: str, said: str
) -> None:
    written = WrittenRun(tmp_path / "home", cell=REMOVED).happened(*STARTED)
    frames = [(a_spec().program, line, "<module>", ""), *((SHUTIL, 600, name, "") for name in within)]
    message = f"[Errno 2] No such file or directory: '{path}'"
    written.raised(1, "FileNotFoundError", message, frames=frames, time=CREATED + 5)
    written.happened(errored(1), exited(1, 1))
    failure = diagnose(written.run, written.directory)

    assert failure is not None
    assert failure.hint is not None
    assert failure.hint.cause.en.startswith(said)


SAVED = """\
import os
rank = {rank}
def save(best):
    if best and rank == 0:
        torch.save(model.state_dict(), "/b/best.pt")
save(True)
torch.load("/b/best.pt")
"""


@pytest.mark.parametrize(
    ("rank", "said"),
    [
        pytest.param(
            "os.environ['RANK']",
            "there is no /b/best.pt: line 5 makes it, and no rank comes there: in line 4  if best",
            id="a text",
        ),
        pytest.param(
            "int(os.environ['RANK'])",
            "/b/best.pt was not there yet: rank 0 makes it (line 5)",
            id="a number",
        ),
    ],
)
def test_a_file_that_no_rank_makes_is_told_by_the_text(tmp_path: Path, rank: str, said: str) -> None:
    message = "[Errno 2] No such file or directory: '/b/best.pt'"

    cause = cause_of(tmp_path, "FileNotFoundError", message, 7, cell=SAVED.replace("{rank}", rank))

    assert cause.startswith(said)


READ_ONCE = """\
import os
if rank == 0:
    {before}
    torch.save(model.state_dict(), "/b/best.pt")
barrier()
torch.load("/b/best.pt")
if rank == 0:
    {after}
"""


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        pytest.param("pass", 'os.remove("/b/best.pt")', "and removes it (line 8)", id="removed"),
        pytest.param('os.remove("/b/best.pt")', "pass", "did not wait", id="removed before"),
        pytest.param("pass", 'os.replace("/b/best.tmp", "/b/best.pt")', "did not wait", id="replaced"),
        pytest.param("pass", 'os.remove("/b/last.pt")', "did not wait", id="another"),
    ],
)
def test_a_file_that_the_rank_which_makes_it_removes_is_told_so(
    tmp_path: Path, before: str, after: str, said: str
) -> None:
    message = "[Errno 2] No such file or directory: '/b/best.pt'"
    program = READ_ONCE.replace("{before}", before).replace("{after}", after)

    assert said in cause_of(tmp_path, "FileNotFoundError", message, 6, cell=program)


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


READS = """\
image = cv2.imread(folder + name)
steps = len(dataset) // batch_size
side = image.shape
epochs = total / steps
parsed(image)
"""


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


COLLATOR = """\
def collate(examples):
    return [one["query"] for one in examples]
Trainer(data_collator=collate, args=TrainingArguments("out")).train()
"""
PACKAGES = "/v/lib/python3.11/site-packages"
STARTS = (a_spec().program, 3, "<module>", "")
IN_TRAINER = (f"{PACKAGES}/transformers/trainer.py", 1800, "train", "for step, inputs in enumerate(epoch):")
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
OF_LOADER = "/v/lib/python3.11/site-packages/torch/utils/data/_utils/fetch.py"


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


ZIPPED = """\
class Rows(Dataset):
    def __getitem__(self, idx):
        return self.rows[idx]
"""
OF_WORKER = "/v/lib/python3.11/site-packages/torch/utils/data/_utils/worker.py"


@pytest.mark.parametrize(
    ("cell", "through", "said"),
    [
        pytest.param(ZIPPED, OF_WORKER, "workers read one zip (.npz) that was opened before", id="before"),
        pytest.param(
            ZIPPED, OF_LOADER, "a part of a zip (.npz, .pt) or gz file does not fit", id="no worker"
        ),
        pytest.param(
            ZIPPED.replace("self.rows[", "np.load(path)["), OF_WORKER, "a part of a zip", id="in the worker"
        ),
    ],
)
def test_workers_that_read_what_was_opened_before_them_are_told(
    tmp_path: Path, cell: str, through: str, said: str
) -> None:
    written = WrittenRun(tmp_path / "home", cell=cell).happened(*STARTED)
    frames = [(through, 54, "fetch", ""), (a_spec().program, 3, "__getitem__", "")]
    written.raised(1, "zipfile.BadZipFile", "Bad CRC-32 for file 'a.npy'", frames=frames)

    failure = diagnose(written.happened(errored(1), exited(1, 1)).run, written.directory)

    assert failure is not None
    assert failure.hint is not None
    assert failure.hint.cause.en.startswith(said)


def test_a_database_is_held_by_a_rank_that_waits_for_this_one(tmp_path: Path) -> None:
    written = WrittenRun(tmp_path / "home", cell="db.execute(insert)\nbarrier()\n").happened(*STARTED)
    program = a_spec().program
    written.raised(1, "sqlite3.OperationalError", "database is locked", frames=[(program, 1, "<module>", "")])
    library = "/v/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py"
    text = "Current thread 0x1 (most recent call first):\n"
    text += f'  File "{library}", line 5 in barrier\n  File "{program}", line 2 in <module>\n'
    answers = (RankAnswer(rank=0, text=text), RankAnswer(rank=1, problem="ended"))
    write_stacks(written.directory, TakenStacks(time=CREATED + 9, attempt=1, ranks=answers))

    failure = diagnose(written.happened(errored(1), exited(1, 1)).run, written.directory)

    assert failure is not None
    assert failure.hint is not None
    assert failure.hint.cause.en.startswith("most likely the lock is that of rank 0, in barrier (line 2)")


MAPPED = """\
if rank == 0:
    keys = np.memmap(folder + "/keys", dtype=np.float16, mode="w+", shape=(n, d))
keys = np.memmap(folder + "/keys", dtype="float32", mode="r", shape=(n, d))
"""


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        pytest.param(
            MAPPED, "the file was written with dtype=np.float16 (line 2) and is mapped as", id="larger"
        ),
        pytest.param(MAPPED.replace("float32", "float16"), "np.memmap was asked for more", id="the same"),
        pytest.param(MAPPED.replace('"r", shape=(n', '"r", shape=(m'), "np.memmap was", id="another shape"),
        pytest.param(MAPPED.replace('/keys", dtype="', '/v", dtype="'), "np.memmap was", id="another file"),
    ],
)
def test_a_file_that_is_mapped_with_a_larger_dtype_is_told(tmp_path: Path, cell: str, said: str) -> None:
    assert cause_of(tmp_path, "ValueError", "mmap length is greater than file size", 3, cell=cell).startswith(
        said
    )


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
