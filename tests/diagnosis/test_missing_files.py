"""What a program tells of a file that was missing, or that another rank made."""

from __future__ import annotations

from pathlib import Path

import pytest

from nbdist.diagnosis import diagnose
from nbdist.store.reports import RankAnswer, TakenStacks, write_stacks
from tests.diagnosis.clue_cells import OF_LOADER, cause_of
from tests.fakes.directories import WrittenRun
from tests.fakes.runs import CREATED, STARTED, a_spec, errored, exited


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


LOGS = """\
stamp = datetime.now().strftime("%H-%M-%S")
folder = f"/b/{stamp}"
if rank == 0:
    makedirs(folder)
open(folder + f"/log{rank}.txt", "w")
"""


@pytest.mark.parametrize(
    ("there", "told"),
    [
        pytest.param(["10-11-11/"], True, id="that of rank 0"),
        pytest.param(["other/"], False, id="another name"),
    ],
)
def test_a_folder_by_the_clock_is_told_where_that_of_rank_0_is_there(
    tmp_path: Path, there: list[str], told: bool
) -> None:
    path = "/b/10-11-12/log1.txt"
    written = WrittenRun(tmp_path / "home", cell=LOGS).happened(*STARTED)
    message = f"[Errno 2] No such file or directory: '{path}'"
    frames = [(a_spec().program, 5, "<module>", "")]
    written.raised(1, "FileNotFoundError", message, frames=frames, folders=[[path, "/b", there, 1]])
    failure = diagnose(written.happened(errored(1), exited(1, 1)).run, written.directory)

    assert failure is not None
    assert failure.hint is not None
    assert (failure.hint.signature == "file-of-own-name") is told


OF_EACH = """\
folder = f"/b/part_{dist.get_rank()}"
path = folder + "/best.pt"
if rank == 0:
    save(model, path)
load(path)
"""


@pytest.mark.parametrize(
    ("cell", "path", "said"),
    [
        pytest.param(
            OF_EACH.replace("folder = f", "path = f").replace('}"\npath = folder + "/best', "}/best"),
            "/b/part_1/best.pt",
            "each rank has a path of its own (line 1  path = ",
            id="of each rank",
        ),
        pytest.param(OF_EACH, "/b/part/best.pt", "/b/part/best.pt was not there yet", id="one for all"),
    ],
)
def test_a_path_that_the_rank_is_in_is_not_what_rank_0_writes(
    tmp_path: Path, cell: str, path: str, said: str
) -> None:
    value = ("path", f"str of {len(path)} characters")
    message = f"[Errno 2] No such file or directory: '{path}'"
    line = len(cell.splitlines())

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


STEMS = """\
if {0}:
    {1}
prepare()
{2}
"""
NO_PARAMETERS = "Failed to load parameters, please check path. (out/final)"


@pytest.mark.parametrize(
    ("test", "saves", "loads", "said"),
    [
        pytest.param(
            "rank == 0",
            "model.save('out/final')",
            "model.load('out/final')",
            "out/final was not there yet: rank 0 makes it (line 2)",
            id="rank 0 saves it",
        ),
        pytest.param(
            "rank == 0",
            "paddle.save(weights, 'out/final')",
            "model.load(path='out/final')",
            "out/final was not there yet: rank 0 makes it (line 2)",
            id="by its name",
        ),
        pytest.param("verbose", "model.save('out/final')", "model.load('out/final')", "", id="all save it"),
        pytest.param("rank == 0", "model.save('out/best')", "model.load('out/final')", "", id="another"),
        pytest.param("rank == 0", "model.save('out/final')", "model.load(path)", "", id="a name"),
    ],
)
def test_a_path_without_its_ending_is_that_of_the_failing_line(
    tmp_path: Path, test: str, saves: str, loads: str, said: str
) -> None:
    cell = STEMS.format(test, saves, loads)

    cause = cause_of(tmp_path, "ValueError", NO_PARAMETERS, 4, cell=cell)

    assert cause.startswith(said or "model.load(path) found no parameters: it reads path + '.pdparams'")


NO_MODEL = (
    "The ``path`` (out/wave) to load model not exists. Please make sure that *.pdmodel(json) exists or don't "
    "using ``skip_forward=True`` to jit.save."
)
NONE_THERE = "paddle.jit.load() looks for out/wave.json"


@pytest.mark.parametrize(
    ("test", "saves", "said"),
    [
        pytest.param(
            "rank == 0", "paddle.jit.save(net, path)", "out/wave was not there yet: rank 0", id="it"
        ),
        pytest.param(
            "rank == 0",
            "static.save_inference_model(path, feed, fetch, exe)",
            "out/wave was not there yet: rank 0 makes it (line 2)",
            id="for inference",
        ),
        pytest.param("verbose", "paddle.jit.save(net, path)", NONE_THERE, id="all save it"),
        pytest.param("rank == 0", "paddle.jit.save(net, other)", NONE_THERE, id="another"),
        pytest.param(
            "rank == 0", "paddle.save(net.state_dict(), path + '.pdparams')", NONE_THERE, id="weights alone"
        ),
    ],
)
def test_a_model_that_rank_0_saves_later_is_told_by_the_line(
    tmp_path: Path, test: str, saves: str, said: str
) -> None:
    cell = f"if {test}:\n    {saves}\ndist.barrier\nnet = paddle.jit.load(path)\n"

    cause = cause_of(tmp_path, "ValueError", NO_MODEL, 4, ("path", "str of 8 characters"), cell=cell)

    assert cause.startswith(said)
