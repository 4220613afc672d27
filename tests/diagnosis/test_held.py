"""What holds a rank that others wait for: loaders, threads, files, stores, ports."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from nbdist.diagnosis.hangs.deadlocks import all_joining
from nbdist.programs.sources import Sources, place_of
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
    assert reason(a_program(tmp_path / "asks", text), held, others).signature == "hang-goes-round"


def test_a_rank_that_waits_for_the_network_is_told_by_it(sources: Sources) -> None:
    held = a_side((0,), "requests.get", 7, waits=False)
    held = replace(held, place=replace(held.place, on_network=True))

    hint = reason(sources, held, a_side((1,), "all_gather", 22))

    assert hint.signature == "hang-network"
    assert hint.cause.en.startswith("rank 0 at line 7: requests.get waits for the other side")


def test_a_thread_that_died_comes_before_what_waits_for_it(sources: Sources) -> None:
    held = a_side((1,), "queue.get", 22, waits=False)

    hint = reason(sources, held, a_side((0,), "barrier", 20), raised={1: "KeyError: 'x'"})

    assert hint.signature == "hang-thread"
    assert "KeyError: 'x'" in hint.cause.en


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
        ("pool.map", "pool.py", "hang-inside"),
        ("process.wait", "subprocess.py", "hang-join"),
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
    assert hint.cause.en.startswith("rank 1 at line 1: ")
    assert what in hint.cause.en


@pytest.mark.parametrize(("loads", "name"), [(True, "hang-loader"), (False, "hang-inside")])
def test_a_worker_that_is_held_is_told_by_its_line(sources: Sources, loads: bool, name: str) -> None:
    worker = (Call(file=a_spec().program, line=4, function="validate"),)
    held = replace(a_side((0,), "results.get", 22, waits=False), workers=(worker,))
    held = replace(held, place=replace(held.place, loads=loads))

    hint = reason(sources, held, a_side((1,), "backward", 14))

    assert hint.signature == name
    assert hint.cause.en.startswith("rank 0 at line 22: ")
    assert hint.cause.en.endswith(", its other threads or workers at line 4")


def test_ranks_that_all_go_round_a_loop_are_told_with_it(sources: Sources) -> None:
    hint = reason(sources, a_side((0, 1), "sleep", 16, waits=False))

    assert (
        hint.cause.en
        == "ranks 0, 1 at line 16: the loop of line 15,  while not exists('model.lock'): , has not ended"
    )


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


@pytest.mark.parametrize(
    ("key", "own"),
    [
        pytest.param('f"model-{os.getpid()}"', True, id="of the pid"),
        pytest.param('f"model-{begun}"', True, id="of the time, by a name"),
        pytest.param('f"model-{epoch}"', False, id="alike on all"),
    ],
)
def test_a_key_that_each_rank_makes_by_itself_is_told_with_its_line(
    key: str, own: bool, tmp_path: Path
) -> None:
    text = f"begun = time.time()\nkey = {key}\nstore.get(key)\nall_reduce(loss)\n"
    waits = built_in(a_side((1,), "store.get", 3, waits=False))

    hint = reason(a_program(tmp_path, text), waits, a_side((0,), "all_reduce", 4))

    assert hint.signature == "hang-store"
    assert ("(line 2 makes names that differ by rank:  key = " in hint.cause.en) is own


@pytest.mark.parametrize(("kind", "name"), [("PrefixStore", "hang-store"), ("dict", "hang-busy")])
def test_a_store_is_known_by_its_kind(kind: str, name: str, tmp_path: Path) -> None:
    waits = built_in(a_side((1,), "shared.multi_get", 1, waits=False))
    waits = replace(waits, values=(the_value(1, "shared", kind),))

    hint = reason(
        a_program(tmp_path, "shared.multi_get(keys)\nbarrier()\n"), waits, a_side((0,), "barrier", 2)
    )

    assert hint.signature == name


def test_of_a_loop_that_counts_itself_and_one_over_data_the_latter_was_left(tmp_path: Path) -> None:
    sides = [a_side((0,), "backward", 10), a_side((1,), "barrier", 12)]

    found = reason(a_program(tmp_path, COUNTS), *sides)

    assert found.signature == "hang-loop"
    assert "rank 1 left the loop of line 9" in found.cause.en


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
