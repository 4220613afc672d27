"""Ranks that read their data themselves, without worker processes, and come to no batch."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from nbdist.diagnosis.hangs.deadlocks import why
from nbdist.diagnosis.places import CodeLocation, Sources
from nbdist.diagnosis.sides import Side
from nbdist.diagnosis.signatures import Hint
from nbdist.store.reports import Call, Operand
from tests.fakes.directories import WrittenRun
from tests.fakes.runs import a_spec

TORCH, PADDLE = "/site-packages/torch/utils/data", "/site-packages/paddle/io/dataloader"
LOOPS = """\
def fit(loader):
    while step < most:
        for x in loader:
            backward(x)
            step += 1
class Forever:
    def next(self):
        while True:
            try:
                return next(self.it)
            except StopIteration:
                self.it = iter(self.loader)
fit(DataLoader(data, batch_size=4))
backward(batches.next())
barrier()
"""


def a_reason(folder: Path, text: str, *sides: Side) -> Hint:
    written = WrittenRun(folder / "home", cell=text)
    found = why(sides, Sources.of(written.run, written.directory), {})
    assert found is not None
    return found


def a_reader(line: int, function: str, inside: Call) -> Side:
    way = (
        Call(file=a_spec().program, line=13, function="<module>"),
        Call(file=a_spec().program, line=line, function=function),
    )
    place = CodeLocation(line=line, what="DataLoader", loads=True)
    return Side(ranks=(1,), way=way, place=place, calls=(*way, inside))


def waits(line: int, function: str = "<module>", what: str = "backward") -> Side:
    way = (Call(file=a_spec().program, line=line, function=function),)
    return Side(ranks=(0,), way=way, place=CodeLocation(line=line, what=what, waits=True))


@pytest.mark.parametrize(
    ("line", "function", "inside", "name"),
    [
        pytest.param(3, "fit", (TORCH, "sampler.py", "__iter__"), "hang-no-batches", id="torch, a sampler"),
        pytest.param(3, "fit", (TORCH, "_utils/fetch.py", "fetch"), "hang-reads", id="torch, a sample"),
        pytest.param(3, "fit", (PADDLE, "dataloader_iter.py", "__init__"), "hang-no-batches", id="paddle"),
        pytest.param(3, "fit", (PADDLE, "dataloader_iter.py", "_init_workers"), "hang-loader", id="workers"),
        pytest.param(
            12, "next", (PADDLE, "dataloader_iter.py", "__init__"), "hang-no-batches", id="begins anew"
        ),
        pytest.param(10, "next", (PADDLE, "dataloader_iter.py", "__next__"), "hang-goes-round", id="asks"),
    ],
)
def test_a_loop_that_asks_a_loader_again_gets_no_batch(
    tmp_path: Path, line: int, function: str, inside: tuple[str, str, str], name: str
) -> None:
    folder, file, called = inside
    reader = a_reader(line, function, Call(file=f"{folder}/{file}", line=1, function=called))

    others = waits(4, "fit") if function == "fit" else waits(14)
    found = a_reason(tmp_path, LOOPS, reader, others)

    assert found.signature == name


def test_a_loader_that_has_ended_and_begins_once_more_has_raised_no_error(tmp_path: Path) -> None:
    inside = Call(file=f"{PADDLE}/dataloader_iter.py", line=1, function="__init__")
    reader = replace(a_reader(12, "next", inside), handled="StopIteration")

    assert a_reason(tmp_path, LOOPS, reader, waits(14)).signature == "hang-no-batches"


def test_workers_of_paddle_are_known_by_what_the_program_says(tmp_path: Path) -> None:
    reader = a_reader(3, "fit", Call(file=f"{PADDLE}/dataloader_iter.py", line=1, function="__next__"))
    reader = replace(reader, calls=(*reader.way, replace(reader.calls[-1], function="__init__")))
    text = LOOPS.replace("batch_size=4", "num_workers=2")

    assert a_reason(tmp_path / "two", text, reader, waits(4, "fit")).signature == "hang-loader"
    text = text.replace("=2", "=0")
    assert a_reason(tmp_path / "none", text, reader, waits(4, "fit")).signature == "hang-no-batches"


def test_a_thread_of_paddle_that_computes_reads_a_sample(tmp_path: Path) -> None:
    inside = Call(file=f"{PADDLE}/dataloader_iter.py", line=1, function="__init__")
    reader = a_reader(3, "fit", inside)
    crops = (Call(file=a_spec().program, line=1, function="crop"),)

    beside = replace(reader, beside=(crops,))
    assert a_reason(tmp_path / "beside", LOOPS, beside, waits(4, "fit")).signature == "hang-reads"
    asks = replace(reader, calls=(*reader.way, replace(inside, function="__next__")))
    assert a_reason(tmp_path / "asks", LOOPS, asks, waits(4, "fit")).signature == "hang-reads"


def test_a_loop_that_the_clock_ends_is_not_said_to_stay_in_it(tmp_path: Path) -> None:
    text = "while time.time() < end:\n    n = n + count(doc)\nbarrier()\n"
    way = (Call(file=a_spec().program, line=2, function="<module>"),)
    busy = Side(ranks=(1,), way=way, place=CodeLocation(line=2, what="count"))

    assert a_reason(tmp_path, text, busy, waits(3, what="barrier")).signature == "hang-goes-round"


@pytest.mark.parametrize(
    ("test", "name"),
    [
        pytest.param("not os.path.exists(path)", "hang-polls-file-past", id="one that is not there"),
        pytest.param("not (exists(a) and exists(b))", "hang-polls-file-past", id="two"),
        pytest.param("not (exists(a) and getsize(a) > 0)", "hang-polls", id="one that may be there"),
    ],
)
def test_a_file_that_is_there_may_lack_what_else_is_asked_for(tmp_path: Path, test: str, name: str) -> None:
    way = (Call(file=a_spec().program, line=2, function="<module>"),)
    polls = Side(ranks=(1,), way=way, place=CodeLocation(line=2, what="time.sleep"))

    text = f"while {test}:\n    time.sleep(1)\nbarrier()\n"

    assert a_reason(tmp_path, text, polls, waits(3, what="barrier")).signature == name


@pytest.mark.parametrize(
    ("pipes", "name"),
    [
        pytest.param("stdout=PIPE", "hang-pipe", id="its output"),
        pytest.param("stdin=PIPE, stdout=subprocess.PIPE", "hang-pipes", id="its input, too"),
        pytest.param("stdin=PIPE", "hang-program", id="its input alone"),
    ],
)
def test_a_program_may_wait_for_input_from_a_pipe(tmp_path: Path, pipes: str, name: str) -> None:
    way = (Call(file=a_spec().program, line=2, function="<module>"),)
    place = CodeLocation(line=2, what="p.wait", within="subprocess.py")
    text = f"p = subprocess.Popen(command, {pipes})\np.wait()\nbarrier()\n"

    held = Side(ranks=(1,), way=way, place=place)

    assert a_reason(tmp_path, text, held, waits(3, what="barrier")).signature == name


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        pytest.param("PrefixStore", "hang-store", id="a store"),
        pytest.param("Queue", "hang-inside", id="a queue"),
    ],
)
def test_a_store_is_known_by_its_kind(tmp_path: Path, kind: str, name: str) -> None:
    way = (Call(file=a_spec().program, line=1, function="<module>"),)
    place = CodeLocation(line=1, what="mine.get", built_in=True)
    values = (Operand(file=a_spec().program, line=1, name="mine", what=kind),)
    held = Side(ranks=(1,), way=way, place=place, values=values)

    found = a_reason(tmp_path, "mine.get('id')\nbarrier()\n", held, waits(2, what="barrier"))

    assert found.signature == name


FILES = """\
def rows(files):
    at = 0
    while True:
        while at < len(files):
            yield read(files[at])
            at += 1
backward(next(batches))
"""


@pytest.mark.parametrize(
    ("text", "line", "had", "name"),
    [
        pytest.param(FILES, 4, ("2", "list of 2"), "hang-spent", id="behind the last"),
        pytest.param(FILES, 3, ("2", "list of 2"), "hang-spent", id="in the outer head"),
        pytest.param(FILES, 3, ("", ""), "hang-spent", id="not known"),
        pytest.param(FILES, 4, ("", ""), "hang-yields-nothing", id="not known, in the inner head"),
        pytest.param(FILES, 4, ("1", "list of 2"), "hang-yields-nothing", id="before the last"),
        pytest.param(
            FILES.replace("        while at", "        at = 0\n        while at"),
            3,
            ("", ""),
            "hang-yields-nothing",
            id="set back",
        ),
        pytest.param(
            FILES.replace("len(files)", "end").replace(
                "        while at", "        end = more()\n        while at"
            ),
            3,
            ("", ""),
            "hang-yields-nothing",
            id="to another end",
        ),
    ],
)
def test_a_count_that_nothing_sets_back_ends_the_inner_loop_for_ever(
    tmp_path: Path, text: str, line: int, had: tuple[str, str], name: str
) -> None:
    file, inner = a_spec().program, 4
    way = (
        Call(file=file, line=text.count("\n"), function="<module>"),
        Call(file=file, line=line, function="rows"),
    )
    values = tuple(
        Operand(file=file, line=inner, name=one, what=what)
        for one, what in zip(("at", "files"), had, strict=True)
        if what
    )
    turns = Side(ranks=(1,), way=way, place=CodeLocation(line=line), values=values)

    found = a_reason(tmp_path, text, turns, waits(text.count("\n")))

    assert found.signature == name


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        pytest.param("SoftFileLock", "hang-soft-lock", id="a file that is there"),
        pytest.param("FileLock", "hang-lock-of-file", id="a lock of the system"),
    ],
)
def test_a_lock_of_filelock_is_named(tmp_path: Path, kind: str, name: str) -> None:
    way = (Call(file=a_spec().program, line=1, function="<module>"),)
    inside = Call(file="/site-packages/filelock/_core/_acquire.py", line=9, function="__enter__")
    place = CodeLocation(line=1, what="__enter__", within="_acquire.py")
    held = Side(ranks=(1,), way=way, place=place, calls=(*way, inside))

    found = a_reason(tmp_path, f"with {kind}(path):\n    read()\nbarrier()\n", held, waits(3, what="barrier"))

    assert found.signature == name
    assert "rank 1 at line 1" in found.cause.en
