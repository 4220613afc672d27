"""What holds a rank that others wait for: loaders, threads, files, stores, ports."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from nbdist.diagnosis.hangs.deadlocks import all_joining
from nbdist.diagnosis.places import Sources, place_of
from nbdist.store.reports import Call
from tests.diagnosis.hang_cells import (
    COUNTS,
    a_program,
    a_side,
    at,
    built_in,
    more,
    reason,
    sources,
    the_value,
    within,
)
from tests.fakes.runs import a_spec

__all__ = ["more", "sources"]


def test_a_loop_that_counts_to_its_end_is_slow(tmp_path: Path) -> None:
    text = "while n < most:\n    ids.append(model(ids))\n    n += 1\nbarrier()\n"
    held, others = a_side((0,), "model", 2, waits=False), a_side((1,), "barrier", 4)

    assert reason(a_program(tmp_path / "counts", text), held, others).signature == "hang-busy"
    text = text.replace("n < most", "ids[-1] != end")
    assert reason(a_program(tmp_path / "asks", text), held, others).signature == "hang-stays-true"


def test_a_loop_that_comes_to_no_yield_has_no_data(tmp_path: Path) -> None:
    text = (
        "def batches():\n    while True:\n        for one in mine:\n            yield load(one)\nbarrier()\n"
    )
    sources = a_program(tmp_path, text)
    within = a_side((1,), "load", 3, waits=False)

    hint = reason(sources, within, a_side((0,), "barrier", 5))

    assert hint.signature == "hang-yields-nothing"
    assert "lines 2 to 4,  while True: , hold rank 1, which comes to no yield (line 4)" in hint.cause.en
    at_the_yield = a_side((1,), "load", 4, waits=False)
    assert reason(sources, at_the_yield, a_side((0,), "barrier", 5)).signature == "hang-goes-round"


def test_a_rank_that_waits_for_the_network_is_told_by_it(sources: Sources) -> None:
    held = a_side((0,), "requests.get", 7, waits=False)
    held = replace(held, place=replace(held.place, on_network=True))

    hint = reason(sources, held, a_side((1,), "all_gather", 22))

    assert hint.signature == "hang-network"
    assert "requests.get holds rank 0" in hint.cause.en


@pytest.mark.parametrize(
    ("error", "name"), [("StopIteration", "hang-iterator-ended"), ("KeyError: 'x'", "hang-exception")]
)
def test_the_end_of_the_data_is_no_error_to_mend(error: str, name: str, sources: Sources) -> None:
    handles = replace(a_side((1,), "barrier", 20), handled=error)

    found = reason(sources, handles, a_side((0,), "backward", 14))

    assert found.signature == name
    assert error in found.cause.en


def test_a_thread_that_died_comes_before_what_waits_for_it(sources: Sources) -> None:
    held = a_side((1,), "queue.get", 22, waits=False)

    hint = reason(sources, held, a_side((0,), "barrier", 20), raised={1: "KeyError: 'x'"})

    assert hint.signature == "hang-thread"
    assert "KeyError: 'x'" in hint.cause.en


def test_the_thread_of_a_loader_is_not_one_that_the_program_could_ask(sources: Sources) -> None:
    held = a_side((1,), "DataLoader", 22, waits=False)
    held = replace(held, place=replace(held.place, loads=True))
    waiting = a_side((0,), "backward", 14)

    unknown = reason(sources, held, waiting, raised={1: "KeyError: 'x'"})
    known = reason(sources, held, waiting, raised={1: "MemoryError: "})

    assert unknown.signature == known.signature == "hang-thread-of-loader"
    assert "num_workers=1 in place of 0" in unknown.fix.en
    assert "num_workers=1 in place of 0" not in known.fix.en


@pytest.mark.parametrize("given", ["batch_sampler", "sampler"])
def test_what_killed_the_thread_of_a_loader_is_told_by_the_program(tmp_path: Path, given: str) -> None:
    held = a_side((1,), "DataLoader", 2, waits=False)
    loader = Call(file="/v/paddle/io/dataloader/dataloader_iter.py", line=307, function="__next__")
    held = replace(held, place=replace(held.place, loads=True), calls=(*held.way, loader))
    cell = f"loader = DataLoader(data, {given}=sampler)\nfor x in loader:\n    barrier()\n"

    hint = reason(
        a_program(tmp_path, cell),
        held,
        a_side((0,), "barrier", 3),
        raised={1: "TypeError: 'int' object is not iterable"},
    )

    assert hint.signature == "hang-thread-of-loader"
    assert ("; batch_sampler= of the DataLoader got a sampler" in hint.cause.en) is (given == "batch_sampler")
    assert hint.fix.en.startswith("batch_sampler=paddle.io.BatchSampler(") is (given == "batch_sampler")


LABELS = """\
mapping = json.load(file)
label = data.mapping[category]
for x in loader:
    barrier()
"""


@pytest.mark.parametrize(
    ("program", "error", "told"),
    [
        pytest.param(LABELS, "KeyError: 2 (line 2)", True, id="a number"),
        pytest.param(LABELS, "KeyError: 'cat' (line 2)", False, id="a text"),
        pytest.param(LABELS.replace("json", "pickle"), "KeyError: 2 (line 2)", False, id="not from JSON"),
        pytest.param(LABELS.replace("data.m", "data.other_m"), "KeyError: 2 (line 2)", False, id="another"),
    ],
)
def test_a_number_that_is_looked_up_in_what_was_json_is_a_text_there(
    tmp_path: Path, program: str, error: str, told: bool
) -> None:
    held = a_side((1,), "DataLoader", 3, waits=False)
    held = replace(held, place=replace(held.place, loads=True))

    hint = reason(a_program(tmp_path, program), held, a_side((0,), "barrier", 4), raised={1: error})

    assert hint.fix.en.startswith("the keys of JSON are texts: data.mapping = {int(key)") is told


@pytest.mark.parametrize(
    ("given", "name"),
    [
        pytest.param("port", "hang-polls-file-past", id="of something else"),
        pytest.param("path", "hang-thread", id="of the file"),
    ],
)
def test_a_thread_that_died_is_told_where_it_knows_of_the_file_that_is_looked_for(
    given: str, name: str, tmp_path: Path
) -> None:
    text = f"""\
import os
def work({given}):
    report({given})
while not os.path.exists(path):
    time.sleep(1)
barrier()
"""
    held = a_side((1,), "time.sleep", 5, waits=False)
    raised = {1: "ConnectionRefusedError: refused (line 3)"}

    found = reason(a_program(tmp_path, text), held, a_side((0,), "barrier", 6), raised=raised)

    assert found.signature == name


PORTS = """\
port = find_free_port()
os.environ["MASTER_PORT"] = str(port)
init_process_group("gloo")
"""


@pytest.mark.parametrize(
    ("program", "line"),
    [
        pytest.param(PORTS, 1, id="a name"),
        pytest.param(PORTS.replace("str(port)", "str(random.randint(20000, 30000))"), 2, id="at once"),
        pytest.param(PORTS.replace("find_free_port()", "29501"), None, id="one for all"),
        pytest.param(PORTS.replace("MASTER_PORT", "DASHBOARD_PORT"), None, id="another port"),
    ],
)
def test_ranks_that_choose_their_ports_by_themselves_look_at_different_places(
    tmp_path: Path, program: str, line: int | None
) -> None:
    hint = all_joining([a_side((0, 1), "init_process_group", 3)], 2, a_program(tmp_path, program))

    assert hint is not None
    assert hint.signature == ("hang-joining" if line is None else "hang-port-by-rank")
    assert line is None or f"(line {line}: " in hint.cause.en


def test_what_is_freed_while_a_line_calls_is_not_what_it_calls(tmp_path: Path) -> None:
    calls = [
        Call(file="/v/lib/python3.11/site-packages/numpy/lib/_npyio_impl.py", line=200, function="__del__"),
        Call(file=a_spec().program, line=1, function="<module>"),
    ]

    assert place_of(calls, a_program(tmp_path, "shard = np.load(path)\n")).what == "np.load"


CACHED = """\
def index(root):
    if exists(root):
        with open(root) as file:
            return load(file)
    barrier()
    return index(root)

rows = index(root)
all_reduce(rows)
"""


def test_a_return_within_a_file_that_is_opened_may_have_parted_them(tmp_path: Path) -> None:
    waiting = at((0,), "barrier", (8, "<module>"), (5, "index"))
    tried = CACHED.replace("        with open(root) as file:\n", "        try:\n").replace(
        "load(file)\n", "load(root)\n        except ValueError:\n            print('damaged')\n"
    )
    later = at((0,), "barrier", (10, "<module>"), (7, "index"))

    hint = reason(a_program(tmp_path / "opened", CACHED), waiting, at((1,), "all_reduce", (9, "<module>")))
    also = reason(a_program(tmp_path / "tried", tried), later, at((1,), "all_reduce", (11, "<module>")))

    assert hint.signature == also.signature == "hang-return"
    assert "it may have returned at  if exists(root):  (line 2)" in hint.cause.en


@pytest.mark.parametrize(
    ("what", "file", "name"),
    [
        ("pool.map", "pool.py", "hang-pool"),
        ("asyncio.run", "runners.py", "hang-await"),
        ("batches.get", "queue.py", "hang-inside"),
    ],
)
def test_what_holds_a_rank_is_told_by_the_module_it_is_in(
    tmp_path: Path, what: str, file: str, name: str
) -> None:
    held = within(a_side((1,), what, 1, waits=False), file)

    hint = reason(a_program(tmp_path, "values = get()\nbarrier()\n"), held, a_side((0,), "barrier", 2))

    assert hint.signature == name
    assert f"{what} holds rank 1" in hint.cause.en


STORES = """\
def publish(store, epoch):
    store.set(f"epoch-{epoch:03}", path)

def fetch(store, epoch):
    key = f"epoch-{epoch}"
    return store.get(key)

fetch(store, 0)
all_reduce(loss)
"""


def test_a_key_of_the_store_is_told_as_it_is_asked_for_and_set(tmp_path: Path) -> None:
    waits = built_in(at((1,), "store.get", (8, "<module>"), (6, "fetch"), waits=False))

    hint = reason(a_program(tmp_path, STORES), waits, a_side((0,), "all_reduce", 9))

    assert "line 6 asks for  f'epoch-{epoch}' , line 2 sets  f'epoch-{epoch:03}' " in hint.cause.en


def test_of_a_loop_that_counts_itself_and_one_over_data_the_latter_was_left(tmp_path: Path) -> None:
    sides = [a_side((0,), "backward", 10), a_side((1,), "barrier", 12)]

    found = reason(a_program(tmp_path, COUNTS), *sides)

    assert found.signature == "hang-loop"
    assert "rank 1 left the loop of line 9" in found.cause.en


@pytest.mark.parametrize(
    ("function", "name"),
    [
        pytest.param("__getitem__", "hang-loader-in-thread", id="it reads"),
        pytest.param("write_logs", "hang-loader", id="it does not"),
    ],
)
def test_a_thread_that_reads_a_dataset_is_told_by_its_line(
    sources: Sources, function: str, name: str
) -> None:
    way = tuple(Call(file=a_spec().program, line=37, function=each) for each in (function, "crop"))
    waits = at((1,), "DataLoader", (6, "<module>"), waits=False)
    waits = replace(waits, place=replace(waits.place, loads=True), beside=(way,))

    assert reason(sources, waits, a_side((0,), "backward", 14)).signature == name


ENDLESS = """\
def forever(loader):
    while True:
        for batch in loader:
            yield batch

batches = forever(loader)
backward(next(batches))
"""


TORCH_LOADER = "/site-packages/torch/utils/data"


@pytest.mark.parametrize(
    ("file", "function", "name"),
    [
        pytest.param("dataloader.py", "__iter__", "hang-no-batches", id="it begins anew"),
        pytest.param("_utils/fetch.py", "fetch", "hang-yields-nothing", id="it reads a sample"),
        pytest.param("dataloader.py", "_try_get_data", "hang-loader", id="it waits for a worker"),
    ],
)
def test_a_loader_that_is_asked_for_ever_gives_nothing(
    tmp_path: Path, file: str, function: str, name: str
) -> None:
    asks = at((1,), "DataLoader", (7, "<module>"), (3, "forever"), waits=False)
    inside = Call(file=f"{TORCH_LOADER}/{file}", line=9, function=function)
    asks = replace(asks, place=replace(asks.place, loads=True), calls=(*asks.way, inside))

    hint = reason(a_program(tmp_path, ENDLESS), asks, a_side((0,), "backward", 7))

    assert hint.signature == name
    if name == "hang-no-batches":
        assert "rank 1 gets no batch from the loader of line 3, and  while True:  (line 2)" in hint.cause.en


@pytest.mark.parametrize("test", ["arrived != parties", "os.path.exists(lock)"])
def test_a_loop_that_asks_is_told_with_the_numbers_that_it_compares(test: str, tmp_path: Path) -> None:
    loop = a_side((0,), "time.sleep", 2, waits=False)
    values = (the_value(1, "arrived", "4"), the_value(1, "folder", "str of 6 characters"))

    hint = reason(a_program(tmp_path, f"while {test}:\n    time.sleep(1)\n"), replace(loop, values=values))

    assert hint.signature == "hang-polls"
    assert hint.cause.en.endswith("does not change (now arrived = 4)")


POLLS = """\
folder = f"run_{datetime.now():%H-%M-%S}"

def wait_for(name):
    while not (folder / name).exists():
        time.sleep(0.2)

wait_for("vocabulary.json")
"""


def test_a_loop_that_looks_for_a_file_is_told_with_what_makes_its_name_differ(tmp_path: Path) -> None:
    way = ((7, "<module>"), (5, "wait_for"))

    named = reason(a_program(tmp_path, POLLS), at((1,), "time.sleep", *way, waits=False))
    plain = reason(
        a_program(tmp_path / "b", f"\n{POLLS[POLLS.index('def') - 1 :]}"),
        at((1,), "time.sleep", *way, waits=False),
    )

    assert named.signature == plain.signature == "hang-polls-file"
    assert named.cause.en.endswith(
        "(line 1 makes names that differ by rank:  folder = f'run_{datetime.now():%H-%M-%S}')"
    )
    assert plain.cause.en.endswith("or under another name")


@pytest.mark.parametrize(
    ("test", "name"),
    [
        pytest.param("os.path.exists(path)", "hang-branch-file", id="a file"),
        pytest.param("not (folder / name).exists()", "hang-branch-file", id="a path that is put together"),
        pytest.param("not os.path.isdir(os.path.join(folder, name))", "hang-branch-file", id="no folder"),
        pytest.param("best and os.path.exists(path)", "hang-branch", id="more than a file"),
        pytest.param("loss > best", "hang-branch", id="no file"),
    ],
)
def test_an_if_that_asks_whether_a_file_is_there_is_told_so(tmp_path: Path, test: str, name: str) -> None:
    text = f"folder = tempfile.mkdtemp()\nif {test}:\n    broadcast()\nall_reduce()\n"

    hint = reason(a_program(tmp_path, text), a_side((0,), "broadcast", 3), a_side((1,), "all_reduce", 4))

    assert hint.signature == name
    if name == "hang-branch-file":
        assert hint.cause.en.endswith(
            "for one side alone (line 1 makes names that differ by rank:  folder = tempfile.mkdtemp())"
        )


SAVES = """\
def prepare(rank):
    path = os.path.join(os.getcwd().replace(" ", "_"), f"features_v{version}.npy")
    if rank == 0:
        np.savez(path, x=x)
        return x
    while not os.path.exists(path):
        time.sleep(0.5)

prepare(rank)
"""


@pytest.mark.parametrize(
    ("text", "name"),
    [
        pytest.param(SAVES, "hang-polls-longer", id="another ending"),
        pytest.param(SAVES.replace(".npy", ""), "hang-polls-file", id="an ending not known"),
        pytest.param(SAVES.replace(".npy", ".npz"), "hang-polls-file", id="the same ending"),
        pytest.param(SAVES.replace("savez(path", "savez(other"), "hang-polls-file", id="another file"),
        pytest.param(SAVES.replace("np.savez", "torch.save"), "hang-polls-file", id="not by numpy"),
        pytest.param(
            SAVES.replace("return x", "os.replace(path + '.npz', path)"), "hang-polls-file", id="moved then"
        ),
        pytest.param(
            "def save(path):\n    np.savez(path, x)\n\n" + SAVES.replace("np.savez(path, x=x)", "save(raw)"),
            "hang-polls-file",
            id="of another function",
        ),
    ],
)
def test_a_loop_that_looks_for_what_numpy_names_otherwise_is_told_so(
    text: str, name: str, tmp_path: Path
) -> None:
    shift = text.index("def prepare") and 3
    way = ((9 + shift, "<module>"), (7 + shift, "prepare"))

    assert reason(a_program(tmp_path, text), at((1,), "time.sleep", *way, waits=False)).signature == name


def test_a_child_that_is_held_is_told_by_its_line(sources: Sources) -> None:
    child = (Call(file=a_spec().program, line=4, function="validate"),)
    side = a_side((0,), "results.get", 22, waits=False)

    assert "is held by gather at line 4" in reason(sources, replace(side, workers=(child,))).cause.en
    assert reason(sources, side).signature == "hang-inside"


def test_a_condition_that_holds_on_all_ranks_has_not_parted_them(tmp_path: Path) -> None:
    text = "if rank >= 0:\n    for batch in loader:\n        all_reduce(loss)\nbarrier()\n"
    sides = [a_side((0,), "all_reduce", 3), a_side((1,), "barrier", 4)]

    known = [replace(side, values=(the_value(1, "rank", str(side.ranks[0])),)) for side in sides]
    assert reason(a_program(tmp_path / "asks", text), *known).signature == "hang-loop"
    text = text.replace("rank >= 0", "distributed").replace("if", "distributed = rank >= 0\nif", 1)
    sides = [
        replace(side, values=(the_value(2, "distributed", "True"),), way=moved(side.way, 1)) for side in sides
    ]
    assert reason(a_program(tmp_path / "named", text), *sides).signature == "hang-loop"


def moved(way: tuple[Call, ...], lines: int) -> tuple[Call, ...]:
    return tuple(replace(call, line=call.line + lines) for call in way)


@pytest.mark.parametrize("call", ["pending.result", "saver.join"])
def test_a_thread_that_waits_for_other_ranks_is_told_with_its_line(call: str, tmp_path: Path) -> None:
    text = f"def save(shard):\n    dist.all_gather(shards, shard)\n{call}()\nbarrier()\n"
    thread = (Call(file=a_spec().program, line=2, function="save"),)
    held = replace(a_side((1,), call, 3, waits=False), beside=(thread,))

    found = reason(a_program(tmp_path, text), held, a_side((0,), "barrier", 4))

    assert found.signature == "hang-thread-waits"
    assert f"{call} holds rank 1: a thread of it waits in dist.all_gather at line 2" in found.cause.en


@pytest.mark.parametrize(
    ("runs", "child", "named"),
    [
        pytest.param("run(['python', 'score.py'])", "init_process_group('gloo')", True, id="it joins ranks"),
        pytest.param("run('python score.py', shell=True)", "Accelerator()", True, id="in a line of a shell"),
        pytest.param("run(['python', 'score.py'], env=clean)", "init_process_group()", False, id="env="),
        pytest.param("run(['python', 'score.py'])", "input()", False, id="it joins none"),
    ],
)
def test_a_program_that_joins_ranks_with_the_environment_of_a_rank_waits_for_them(
    runs: str, child: str, named: bool, tmp_path: Path
) -> None:
    module = tmp_path / "evaluate.py"
    module.write_text(f"def score():\n    {runs}\n")
    (tmp_path / "score.py").write_text(f"{child}\n")
    sources = a_program(tmp_path, "evaluate.score()\nbroadcast(value)\n")
    held = within(a_side((1,), "run", 1, waits=False), "subprocess.py")
    held = replace(held, way=(*held.way, Call(file=str(module), line=2, function="score")))

    found = reason(sources, held, a_side((0,), "broadcast", 2))

    assert found.signature == ("hang-program-of-ranks" if named else "hang-program")
    if named:
        assert "score.py, which it started, joins a process group" in found.cause.en
