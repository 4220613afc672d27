"""Why ranks that wait never meet, from their lines in a program."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from nbdist.diagnosis.hangs.alone import entered_alone, ways_past
from nbdist.diagnosis.hangs.deadlocks import (
    all_joining,
    concerned,
    crossed,
    fewest,
    first_of,
    no_member,
    ungrouped,
    unlike,
    why,
)
from nbdist.diagnosis.hangs.entries import alone_in_loop
from nbdist.diagnosis.places import CodeLocation, Sources, place_of
from nbdist.diagnosis.sides import Side
from nbdist.diagnosis.signatures import Hint
from nbdist.diagnosis.statements import head
from nbdist.store.reports import Call, Collective, Issued, Operand, RankAnswer
from nbdist.text import Both, both
from tests.fakes.directories import WrittenRun
from tests.fakes.runs import a_spec

LINES = """\
def validate(rank):
    if rank != 0:
        return
    gather(scores)

for step in range(9):
    loss = train(step)
    if loss > 9:
        continue
    if main:
        validate(rank)
    if boxes:
        all_reduce(boxes)
    backward(loss)
while not exists("model.lock"):
    sleep(1)
if dist.get_rank() == 0:
    save(model)
else:
    barrier()
main = rank == 0
all_gather(scores)
for step in range(3):
    try:
        backward(step)
    except RuntimeError:
        print("left out")
barrier()
def save_best(rank):
    if rank == 0:
        barrier()
for step in range(3):
    backward(step)
    if step == 1:
        save_best(rank)
for file in files:
    sleep(1)
    parts.append(read(file))
for attempt in range(99):
    if exists("model.lock"):
        break
    sleep(1)
if trainer.is_global_zero:
    all_gather(losses)
barrier()
"""
NESTED = """\
def epoch():
    for batch in loader:
        backward(batch)
    return 0

for _ in range(3):
    epoch()
barrier()
"""
MORE = """\
class Meter:
    def log(self, value):
        with self.lock:
            self.flush()
    def flush(self):
        with self.lock:
            self.rows.clear()
    def write(self):
        with self.lock:
            self.file.write(1)

def train(loader):
    for batch in loader:
        try:
            backward(batch)
        except RuntimeError:
            continue

def share(rank, hard):
    if not hard:
        return None
    all_reduce(hard)

def make_groups(rank):
    if rank > 1:
        return None
    return new_group([0, 1])

train(loader)
share(rank, hard)
barrier()
if rank < 2:
    if lucky:
        all_reduce(pair)
if rank == 0:
    broadcast(model)
else:
    broadcast(model)
with cache_lock():
    barrier()
with cache_lock():
    read()
broadcast(step, src=rank)
for step in range(3):
    gather(step)
    if step == skipped:
        continue
    all_reduce(step)
"""


@pytest.fixture
def sources(tmp_path: Path) -> Sources:
    return a_program(tmp_path, LINES)


@pytest.fixture
def more(tmp_path: Path) -> Sources:
    return a_program(tmp_path, MORE)


def a_program(folder: Path, text: str) -> Sources:
    written = WrittenRun(folder / "home", cell=text)
    return Sources.of(written.run, written.directory)


def at(ranks: tuple[int, ...], what: str, *way: tuple[int, str], waits: bool = True) -> Side:
    """Ranks that are in a call, by the lines and functions that lead there."""
    calls = tuple(Call(file=a_spec().program, line=line, function=function) for line, function in way)
    return Side(ranks=ranks, way=calls, place=CodeLocation(line=way[-1][0], what=what, waits=waits))


def a_side(ranks: tuple[int, ...], what: str, *lines: int, waits: bool = True) -> Side:
    functions = ["<module>", "validate"]
    way = tuple(
        Call(file=a_spec().program, line=line, function=functions[at]) for at, line in enumerate(lines)
    )
    return Side(ranks=ranks, way=way, place=CodeLocation(line=lines[-1], what=what, waits=waits))


def reason(sources: Sources, *sides: Side, raised: dict[int, str] | None = None) -> Hint:
    found = why(sides, sources, raised or {})
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("first", "second", "name", "said"),
    [
        pytest.param(
            ("barrier", 20),
            ("all_gather", 22),
            "hang-rank-branch",
            "rank 1 alone went into  else of if dist.get_rank() == 0:  (line 17), and called barrier there",
            id="the else of a branch for one rank",
        ),
        pytest.param(
            ("gather", 11, 4),
            ("backward", 14),
            "hang-rank-branch",
            "rank 1 alone went into  if main:  (line 10), and called gather there",
            id="a name that stands for the rank",
        ),
        pytest.param(
            ("all_reduce", 13),
            ("backward", 14),
            "hang-branch",
            "rank 1 went into  if boxes:  (line 12), and rank 0 did not",
            id="a branch that the data decides",
        ),
        pytest.param(
            ("barrier", 35, 31),
            ("backward", 33),
            "hang-rank-branch",
            "rank 1 alone went into  if rank == 0:  (line 30), and called barrier there",
            id="a branch for one rank in a function that both called",
        ),
        pytest.param(
            ("all_gather", 44),
            ("barrier", 45),
            "hang-rank-branch",
            "rank 1 alone went into  if trainer.is_global_zero:  (line 43), and called all_gather there",
            id="a trainer's word for the first rank",
        ),
        pytest.param(
            ("backward", 14),
            ("all_gather", 22),
            "hang-loop-left",
            "rank 0 left the loop of line 6, rank 1 not: fewer steps, or one left out or"
            " added at line 8  if loss > 9:, line 10  if main:, line 12  if boxes:",
            id="one has left the loop",
        ),
        pytest.param(
            ("backward", 25),
            ("barrier", 28),
            "hang-loop-caught",
            "or one cut short by  except RuntimeError:  (line 26)",
            id="one has left a step out",
        ),
    ],
)
def test_where_their_ways_parted_is_said(
    sources: Sources, first: tuple[str, int], second: tuple[str, int], name: str, said: str
) -> None:
    hint = reason(sources, a_side((1,), first[0], *first[1:]), a_side((0,), second[0], *second[1:]))

    assert hint.signature == name
    assert said in hint.cause.en


def test_a_return_that_others_took_is_named(sources: Sources) -> None:
    hint = reason(sources, a_side((0,), "gather", 11, 4), a_side((1, 2), "save", 12))

    assert hint.signature in ("hang-rank-return", "hang-rank-branch")
    assert "rank 0" in hint.cause.en


def test_a_return_before_a_collective_may_have_left_it_out_of_one_that_receives(tmp_path: Path) -> None:
    cell = "def collect(values):\n    if not values:\n        return\n    all_gather(values)\nrecv(x)\n"
    cell += "collect(values)\n"
    written = WrittenRun(tmp_path / "home", cell=cell)
    text, program = Sources.of(written.run, written.directory), a_spec().program
    way = (Call(file=program, line=6, function="<module>"), Call(file=program, line=4, function="collect"))
    collects = Side(ranks=(0,), way=way, place=CodeLocation(line=4, what="all_gather", waits=True))
    receives = Side(
        ranks=(1,),
        way=(Call(file=program, line=5, function="<module>"),),
        place=CodeLocation(line=5, what="recv", waits=True),
    )

    found = why([collects, receives], text, {})

    assert found is not None
    assert found.signature == "hang-return"
    assert "it may have returned at  if not values:  (line 2)" in found.cause.en


@pytest.mark.parametrize(
    ("calls", "name"),
    [
        pytest.param(("recv", "recv"), "hang-receive", id="both receive"),
        pytest.param(("send", "send"), "hang-send", id="both send"),
        pytest.param(("recv", "barrier"), "hang-half", id="a message that is not sent"),
        pytest.param(("send", "recv"), "hang-unmet", id="halves that do not fit"),
    ],
)
def test_messages_without_their_other_half_are_told(
    sources: Sources, calls: tuple[str, str], name: str
) -> None:
    sides = [a_side((rank,), call, 14) for rank, call in enumerate(calls)]

    assert reason(sources, *sides).signature == name


def test_ranks_that_have_begun_to_send_do_not_wait_for_one_to_begin(tmp_path: Path) -> None:
    sources = a_program(tmp_path, "request = isend(data, peer, tag=rank)\nrecv(halo, peer, tag=rank)\n")

    found = reason(sources, *(a_side((rank,), "recv", 2) for rank in (0, 1)))

    assert found.signature == "hang-unmet-begun"
    assert "each has called isend and waits in recv: their messages do not meet" in found.cause.en


PIPE = """\
def run(parts):
    with no_grad():
        send(part, 1)
    for part in parts:
        recv(grad, 1)
def run(count):
    for _ in range(count):
        recv(part, 0)
    for _ in range(count):
        send(grad, 0)
def turn(rank):
    if rank == 0:
        send(part, 1)
    else:
        recv(part, 0)
def both(count):
    send(mine, peer)
    recv(theirs, peer)
"""


def test_a_rank_that_waits_for_an_answer_is_not_to_send_first(tmp_path: Path) -> None:
    sources = a_program(tmp_path, PIPE)
    one, other = at((0,), "recv", (5, "run")), at((1,), "recv", (8, "run"))

    found = reason(sources, one, other)

    assert found.signature == "hang-received-more"
    assert "rank 0 has sent (line 3) and waits for an answer, rank 1 waits to receive" in found.cause.en
    # what the other part of the if sends, these have not
    turns = at((0,), "recv", (15, "turn"))
    assert reason(sources, turns, other).signature == "hang-receive"
    each = [at((rank,), "recv", (18, "both")) for rank in (0, 1)]
    assert reason(sources, *each).signature == "hang-unmet-begun"


def test_where_a_rank_waits_for_something_else_a_message_may_still_come(sources: Sources) -> None:
    sides = [a_side((0,), "send", 14), a_side((1,), "recv", 14), a_side((2,), "barrier", 20)]

    assert why(sides, sources, {}) is None


@pytest.mark.parametrize(
    ("what", "line", "name"),
    [
        pytest.param("queue.get", 22, "hang-inside", id="a queue"),
        pytest.param("time.sleep", 16, "hang-polls-file-past", id="a loop that looks"),
        pytest.param("time.sleep", 42, "hang-polls-file-past", id="a loop that looks some times"),
        pytest.param("time.sleep", 37, "hang-busy", id="a loop that comes to its end"),
        pytest.param("numpy.dot", 16, "hang-stays-true", id="a loop that does not end"),
        pytest.param("read", 7, "hang-busy", id="a call"),
    ],
)
def test_a_rank_that_does_not_come_is_told_by_what_it_is_in(
    sources: Sources, what: str, line: int, name: str
) -> None:
    held = a_side((1,), what, line, waits=False)

    hint = reason(sources, held, a_side((0, 2), "all_gather", 22))

    assert hint.signature == name
    assert "rank 1" in hint.cause.en


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


def test_a_rank_behind_the_branch_that_another_waits_in_never_comes_there(sources: Sources) -> None:
    hint = reason(sources, a_side((0,), "save", 18), a_side((1,), "time.sleep", 22, waits=False))

    assert hint.signature == "hang-rank-passed"
    assert "rank 0 alone went into  if dist.get_rank() == 0:  (line 17)" in hint.cause.en


HALVES = """\
if rank == 0:
    {0}(data, 1)
item = source.get()
if rank == 1:
    {1}(item, 0)
barrier()
"""


@pytest.mark.parametrize(
    "halves",
    [pytest.param(("recv", "send"), id="a message"), pytest.param(("broadcast",) * 2, id="one call")],
)
def test_a_rank_that_is_on_its_way_to_the_other_half_is_told_by_what_holds_it(
    halves: tuple[str, str], tmp_path: Path
) -> None:
    held = a_side((1,), "source.get", 3, waits=False)

    found = reason(a_program(tmp_path, HALVES.format(*halves)), a_side((0,), halves[0], 2), held)

    assert found.signature == "hang-inside"


FIRST = """\
def main_first():
    if get_rank() != 0:
        barrier()
    yield
    if {test}:
        barrier()
def load():
    with main_first():
        write(cache)
try:
    load()
except OSError:
    print("no cache")
model = DDP(net)
"""


def test_ranks_that_an_error_took_past_the_other_half_of_a_call_are_told_so(tmp_path: Path) -> None:
    waiting = at((1,), "barrier", (11, "<module>"), (8, "load"), (3, "main_first"))
    gone = at((0,), "DDP", (14, "<module>"))
    sources = a_program(tmp_path / "halves", FIRST.format(test="get_rank() == 0"))

    hint = reason(sources, waiting, gone)

    assert hint.signature == "hang-half-left"
    assert "rank 1 waits in barrier (line 3) for its other half, line 6" in hint.cause.en
    assert "line 12  except OSError:" in hint.cause.en
    # the same condition once more is no other half
    again = a_program(tmp_path / "again", FIRST.format(test="get_rank() != 0"))
    assert reason(again, waiting, gone).signature == "hang-rank-branch"


def test_a_return_between_the_halves_of_a_call_is_named(tmp_path: Path) -> None:
    text = """\
def load(rank):
    if rank > 0:
        barrier()
    if cached(data):
        return data
    if rank > 0:
        return read(data)
    if rank == 0:
        barrier()
load(rank)
all_gather(data)
"""
    waiting = at((1,), "barrier", (10, "<module>"), (3, "load"))

    hint = reason(a_program(tmp_path, text), waiting, at((0,), "all_gather", (11, "<module>")))

    assert hint.signature == "hang-half-left"
    assert hint.cause.en.endswith("most likely at line 4  if cached(data):")


def test_a_rank_before_the_branch_that_another_waits_in_may_still_come_there(sources: Sources) -> None:
    hint = reason(sources, a_side((0,), "save", 18), a_side((1,), "train", 7, waits=False))

    assert hint.signature == "hang-busy"


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


def test_where_all_ranks_join_the_group_it_waits_for_ranks_that_there_are_not(sources: Sources) -> None:
    sides = [a_side((0,), "init_process_group", 22), a_side((1,), "init_process_group", 18)]

    hint = all_joining(sides, 2, sources)

    assert hint is not None
    assert hint.cause.en.startswith("ranks 0, 1 are in init_process_group, and it waits for more")
    assert all_joining(sides, 3, sources) is None
    assert all_joining([*sides, a_side((2,), "barrier", 20)], 3, sources) is None


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


def test_a_collective_in_a_library_is_told_with_the_call_of_the_program() -> None:
    side = a_side((0,), "barrier", 20)

    assert (
        replace(side, place=replace(side.place, through="metrics.compute")).call
        == "barrier in metrics.compute"
    )


@pytest.mark.parametrize(
    ("line", "function", "through"),
    [
        pytest.param("print(float(roc.compute()))", "wrapped_func", "roc.compute", id="renamed"),
        pytest.param("print(roc.compute())", "compute", "roc.compute", id="by its name"),
        pytest.param("log(trainer.metrics)", "metrics", "metrics", id="a property"),
        pytest.param("log(roc.compute())", "wrapped_func", "wrapped_func", id="one of two"),
    ],
)
def test_a_call_that_a_decorator_has_renamed_is_told_as_it_is_written(
    tmp_path: Path, line: str, function: str, through: str
) -> None:
    site = "/v/lib/python3.11/site-packages"
    calls = [
        Call(file=f"{site}/torch/distributed/distributed_c10d.py", line=5000, function="barrier"),
        Call(file=f"{site}/torchmetrics/metric.py", line=700, function=function),
        Call(file=a_spec().program, line=1, function="<module>"),
    ]

    assert place_of(calls, a_program(tmp_path, line)).through == through


def test_what_is_freed_while_a_line_calls_is_not_what_it_calls(tmp_path: Path) -> None:
    calls = [
        Call(file="/v/lib/python3.11/site-packages/numpy/lib/_npyio_impl.py", line=200, function="__del__"),
        Call(file=a_spec().program, line=1, function="<module>"),
    ]

    assert place_of(calls, a_program(tmp_path, "shard = np.load(path)\n")).what == "np.load"


def test_a_save_in_a_distributed_checkpoint_has_its_own_name(tmp_path: Path) -> None:
    folder = "/v/lib/python3.11/site-packages/torch/distributed/checkpoint"
    calls = [
        Call(file=f"{folder}/state_dict_saver.py", line=190, function="save"),
        Call(file=f"{folder}/utils.py", line=470, function="inner_func"),
        Call(file=a_spec().program, line=1, function="<module>"),
    ]

    assert place_of(calls, a_program(tmp_path, "dcp.save(state)")).what == "save"


def test_ranks_in_one_collective_have_no_reason_to_wait(sources: Sources) -> None:
    assert why([a_side((0, 1), "all_gather", 22)], sources, {}) is None


def test_a_branch_of_the_first_rank_is_known_from_that_rank_alone(sources: Sources) -> None:
    alone = entered_alone(a_side((0,), "all_gather", 44), sources)

    assert alone is not None
    assert alone["went"] == Both(
        "went into  if trainer.is_global_zero: ", "进入了  if trainer.is_global_zero:  "
    )
    assert (alone["line"], alone["call"]) == ("43", "all_gather")


def test_a_return_of_the_other_ranks_is_known_from_the_rank_that_came_past_it(sources: Sources) -> None:
    alone = entered_alone(at((0,), "gather", (11, "<module>"), (4, "validate")), sources)

    assert alone is not None
    assert alone["went"] == both("diagnosis.went-past", test="if rank != 0:")
    assert alone["line"] == "2"


def test_what_can_leave_out_a_call_is_a_return_before_it(more: Sources) -> None:
    left = ways_past(at((1,), "all_reduce", (30, "<module>"), (22, "share")), more)

    assert [(node.lineno, head(node)) for node in left] == [(20, "if not hard:")]


def test_what_can_leave_out_a_call_is_a_way_out_of_its_loop(sources: Sources) -> None:
    left = ways_past(a_side((1,), "backward", 14), sources)

    assert [(node.lineno, head(node)) for node in left] == [(8, "if loss > 9:")]
    assert ways_past(a_side((0,), "barrier", 20), sources) == []


def test_what_can_leave_out_a_call_is_an_end_of_the_program_before_it(tmp_path: Path) -> None:
    text = "if not rows:\n    print('none')\n    sys.exit(0)\nfor row in rows:\n    all_reduce(row)\n"

    left = ways_past(a_side((0,), "all_reduce", 5), a_program(tmp_path, text))

    assert [(node.lineno, head(node)) for node in left] == [(1, "if not rows:")]


def test_of_two_loops_the_one_over_data_is_the_one_that_was_left(tmp_path: Path) -> None:
    nested = a_program(tmp_path, NESTED)

    hint = reason(
        nested, at((0,), "backward", (7, "<module>"), (3, "epoch")), at((1,), "barrier", (8, "<module>"))
    )

    assert hint.signature == "hang-loop"
    assert "rank 1 left the loop of line 2, rank 0 did not" in hint.cause.en


RETRIES = """\
def wrapper(step):
    for attempt in range(3):
        try:
            return step()
        except OSError:
            pass

def step():
    for p in model.parameters():
        all_reduce(p.grad)

for index in range(25):
    wrapper(step)
barrier()
"""
KEEPS = """\
def update(value):
    if value >= best:
        return False
    barrier()
    return True

for epoch in range(8):
    for batch in batches:
        backward(batch)
    update(validate())
"""
ON_MAIN = """\
def wrapper(save):
    if dist.get_rank() == 0:
        return save()

def save():
    barrier()

for epoch in range(6):
    loss = average(run_epoch(model, rank))
    if loss < best:
        wrapper(save)
    backward(loss)
"""


def test_a_step_that_is_tried_again_is_cut_short_by_what_catches(tmp_path: Path) -> None:
    way = ((13, "<module>"), (4, "wrapper"), (10, "step"))

    hint = reason(
        a_program(tmp_path, RETRIES), at((1,), "all_reduce", *way), at((0,), "barrier", (14, "<module>"))
    )

    assert hint.signature == "hang-loop-caught"
    assert "rank 0 left the loop of line 12, rank 1 not" in hint.cause.en
    assert "except OSError:  (line 5)" in hint.cause.en


def test_a_return_before_the_call_of_those_that_left_a_loop_may_have_parted_them(tmp_path: Path) -> None:
    hint = reason(
        a_program(tmp_path, KEEPS),
        at((0,), "barrier", (10, "<module>"), (4, "update")),
        at((1,), "backward", (9, "<module>")),
    )

    assert hint.signature == "hang-loop-left"
    assert hint.cause.en.endswith("one left out or added at line 2  if value >= best:")


SAVES_BEST = """\
def save(model):
    barrier()

for epoch in range(6):
    for batch in loader:
        backward(batch)
    for name in splits:
        accuracy = evaluate(name)
        if accuracy > best:
            save(model)
"""


def test_an_if_around_the_call_of_those_that_left_a_loop_may_have_parted_them(tmp_path: Path) -> None:
    hint = reason(
        a_program(tmp_path, SAVES_BEST),
        at((0,), "barrier", (10, "<module>"), (2, "save")),
        at((1,), "backward", (6, "<module>")),
    )

    assert hint.signature == "hang-loop-left"
    assert hint.cause.en.endswith("one left out or added at line 9  if accuracy > best:")


def test_values_that_an_if_has_changed_since_do_not_say_that_it_was_alike(tmp_path: Path) -> None:
    text = SAVES_BEST.replace("            save(model)", "            best = accuracy; save(model)")
    values = (the_value(9, "accuracy", "0.9"), the_value(9, "best", "0.9"))
    saves = replace(at((0,), "barrier", (10, "<module>"), (2, "save")), values=values)

    hint = reason(
        a_program(tmp_path, text), saves, replace(at((1,), "backward", (6, "<module>")), values=values)
    )

    assert hint.cause.en.endswith("one left out or added at line 9  if accuracy > best:")


def test_a_value_of_a_call_that_was_given_the_rank_is_none_of_the_ranks(tmp_path: Path) -> None:
    hint = reason(
        a_program(tmp_path, ON_MAIN),
        at((0,), "barrier", (11, "<module>"), (3, "wrapper"), (6, "save")),
        at((1,), "backward", (12, "<module>")),
    )

    assert hint.signature == "hang-rank-branch"
    assert "rank 0 alone went into  if dist.get_rank() == 0:  (line 2)" in hint.cause.en


def test_a_loop_without_end_is_left_by_what_ends_it(tmp_path: Path) -> None:
    budget = a_program(tmp_path, "while True:\n    backward(step())\nbarrier()\n")

    hint = reason(budget, at((0,), "backward", (2, "<module>")), at((1,), "barrier", (3, "<module>")))

    assert hint.signature == "hang-while"
    assert "all_reduce what ends the loop" in hint.fix.en


def test_those_elsewhere_than_most_are_fewest(sources: Sources) -> None:
    most = a_side((0, 2), "backward", 14)

    assert fewest([most, a_side((1,), "all_gather", 22)]) == (1,)
    assert fewest([a_side((0,), "backward", 14), a_side((1,), "all_gather", 22)]) == ()


BARRIER = at((1,), "barrier", (31, "<module>"))


def test_a_loop_in_a_function_that_one_rank_has_come_out_of_parted_them(more: Sources) -> None:
    hint = reason(more, at((0,), "backward", (29, "<module>"), (15, "train")), BARRIER)

    assert hint.signature == "hang-loop-caught"
    assert "rank 1 left the loop of line 13, rank 0 not" in hint.cause.en
    assert "except RuntimeError:  (line 16)" in hint.cause.en


def test_a_return_that_the_data_decides_may_have_parted_them(more: Sources) -> None:
    hint = reason(more, at((0,), "all_reduce", (30, "<module>"), (22, "share")), BARRIER)

    assert hint.signature == "hang-return"
    assert "it may have returned at  if not hard:  (line 20)" in hint.cause.en


MAKES = """\
def make(rank):
    if rank == 0:
        rows = load()
        return rows
    barrier()

rows = make(rank)
all_reduce(rows)
"""


def test_ranks_that_a_return_leaves_without_a_value_are_told(tmp_path: Path) -> None:
    sides = at((1,), "barrier", (7, "<module>"), (5, "make")), at((0,), "all_reduce", (8, "<module>"))

    hint = reason(a_program(tmp_path / "none", MAKES), *sides)
    also = reason(a_program(tmp_path / "all", MAKES.replace("()\n\n", "()\n    return 1\n")), *sides)

    assert hint.signature == also.signature == "hang-rank-return"
    assert hint.fix.en.startswith(also.fix.en)
    assert hint.fix.en.endswith("; and return a value on the other ranks, too, which go on with None")


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


def test_an_if_that_the_other_rank_goes_into_by_its_number_has_not_parted_them(more: Sources) -> None:
    other = replace(at((1,), "gather", (45, "<module>")), values=(the_value(32, "rank", "1"),))

    hint = reason(more, at((0,), "all_reduce", (34, "<module>")), other)

    assert hint.signature == "hang-branch"
    assert "rank 0 went into  if lucky:  (line 33)" in hint.cause.en


def the_value(line: int, name: str, what: str) -> Operand:
    return Operand(file=a_spec().program, line=line, name=name, what=what)


@pytest.mark.parametrize(
    ("mine", "theirs", "said"),
    [
        pytest.param("True", "False", ": lucky is True on rank 0, False on rank 1", id="unlike"),
        pytest.param("True", "True", None, id="alike"),
    ],
)
def test_the_values_of_a_condition_say_whether_it_parted_them(
    more: Sources, mine: str, theirs: str, said: str | None
) -> None:
    one = replace(at((0,), "all_reduce", (34, "<module>")), values=(the_value(33, "lucky", mine),))
    values = (the_value(32, "rank", "1"), the_value(33, "lucky", theirs))

    hint = reason(more, one, replace(at((1,), "gather", (45, "<module>")), values=values))

    assert hint.signature == ("hang-branch" if said else "hang-apart")
    assert (said or "") in hint.cause.en


def test_an_if_whose_other_part_calls_the_same_has_not_parted_them(more: Sources) -> None:
    hint = reason(more, at((0,), "broadcast", (36, "<module>")), at((1,), "gather", (45, "<module>")))

    assert hint.signature == "hang-apart"


def test_ranks_that_came_round_without_a_call_are_told_by_what_let_them(more: Sources) -> None:
    hint = reason(more, at((0,), "all_reduce", (48, "<module>")), at((1,), "gather", (45, "<module>")))

    assert hint.signature == "hang-round"
    assert "rank 1 came round to gather without it: see line 46  if step == skipped:" in hint.cause.en


def test_a_lock_that_the_same_thread_has_taken_is_named_with_both_lines(more: Sources) -> None:
    held = at((0,), "with self.lock", (29, "<module>"), (4, "log"), (6, "flush"), waits=False)

    hint = reason(more, held, BARRIER)

    assert hint.signature == "hang-locked-twice"
    assert "line 6 holds rank 0: the same thread has taken  self.lock  already, at line 3" in hint.cause.en


def test_a_lock_that_another_thread_has_taken_is_named_with_where_that_is(more: Sources) -> None:
    held = at((0,), "with self.lock", (29, "<module>"), (6, "flush"), waits=False)
    thread = (Call(file=a_spec().program, line=10, function="write"),)

    hint = reason(more, replace(held, beside=(thread,)), BARRIER)

    assert hint.signature == "hang-locked-by-thread"
    assert "another thread has taken  self.lock  at line 9, and keeps it at line 10" in hint.cause.en


LOCKS = """\
class Cache:
    def put(self, key):
        with self.lock:
            self.rows.add(key)
    def move(self, key, other):
        with self.lock:
            other.put(key)
    def waits(self):
        with self.lock:
            self.lock.wait()

class Writer:
    def run(self):
        with self.lock:
            self.queue.get()

cache.move(key, other)
cache.put(key)
"""


def test_what_a_thread_is_in_cannot_be_taken_by_the_one_that_waits_for_it(tmp_path: Path) -> None:
    held = at((0,), "with self.lock", (17, "<module>"), (7, "move"), (3, "put"), waits=False)
    crossing = tuple(Call(file=a_spec().program, line=line, function="") for line in (7, 3))

    found = reason(a_program(tmp_path, LOCKS), replace(held, beside=(crossing,)), BARRIER)

    assert found.signature == "hang-locked-by-thread"
    assert "another thread has taken  self.lock  at line 6, and keeps it at line 3" in found.cause.en


@pytest.mark.parametrize(
    ("line", "function"),
    [
        pytest.param(10, "waits", id="a thread that waits for a condition has given it up"),
        pytest.param(15, "run", id="another class has a lock of its own by that name"),
    ],
)
def test_a_thread_that_has_not_taken_the_lock_is_not_named(line: int, function: str, tmp_path: Path) -> None:
    held = at((0,), "with self.lock", (18, "<module>"), (3, "put"), waits=False)
    thread = (Call(file=a_spec().program, line=line, function=function),)

    found = reason(a_program(tmp_path, LOCKS), replace(held, beside=(thread,)), BARRIER)

    assert found.signature == "hang-inside"


def test_a_lock_that_a_function_left_taken_is_named_with_its_line(tmp_path: Path) -> None:
    text = """\
class Index:
    def begin(self):
        self.lock.acquire()
    def end(self):
        self.lock.release()
    def add(self):
        with self.lock:
            pass
class Cache:
    def add(self):
        with self.lock:
            pass
index.add()
"""
    sources = a_program(tmp_path, text)
    held = at((0,), "with self.lock", (13, "<module>"), (7, "add"), waits=False)
    hint = reason(sources, held, a_side((1,), "barrier", 13))

    assert hint.signature == "hang-never-released"
    assert "line 7 holds rank 0:  self.lock  was taken at line 3" in hint.cause.en
    held = at((0,), "with self.lock", (13, "<module>"), (11, "add"), waits=False)
    assert reason(sources, held, a_side((1,), "barrier", 13)).signature == "hang-inside"


def test_a_lock_in_which_another_rank_waits_is_named_by_that_rank(more: Sources) -> None:
    held = at((1,), "fcntl.flock", (41, "<module>"), (3, "cache_lock"), waits=False)

    hint = reason(more, held, at((0,), "barrier", (40, "<module>")))

    assert hint.signature == "hang-locked-by-rank"
    assert "rank 0 went into  cache_lock()  (line 39), and called barrier there" in hint.cause.en


def test_a_rank_that_ends_a_with_is_not_kept_out_of_it(tmp_path: Path) -> None:
    text = (
        "with model.join():\n    for x in shard:\n        backward(x)\n        all_reduce(total)\nbarrier()\n"
    )
    sources = a_program(tmp_path, text)
    ended = at((0,), "with model.join()", (1, "<module>"))
    library = Call(file="/v/torch/distributed/algorithms/join.py", line=265, function="__exit__")
    ended = replace(ended, calls=(*ended.way, library))

    hint = reason(sources, ended, at((1,), "all_reduce", (4, "<module>")))

    assert hint.signature == "hang-join-answers"
    assert (
        "no batch is left on rank 0: in  model.join()  (line 1) it answers what the model exchanges"
        in hint.cause.en
    )
    assert "not all_reduce, which rank 1 called in it" in hint.cause.en
    found = why([ended, at((1,), "backward", (3, "<module>"))], sources, {})
    assert found is None or found.signature not in ("hang-join-answers", "hang-locked-by-rank")


PIPELINE = """\
def first(x):
    for part in chunk(x, 8):
        send(net(part), 1)
    for part in parts:
        recv(grad, 1)
def last():
    for _ in range(8):
        recv(part, 0)
    for part in parts:
        send(grad, 0)
def swap():
    recv(part, peer)
    send(grad, peer)
if rank == 0:
    first(x)
else:
    last()
swap()
"""


def test_a_loop_that_waits_for_more_messages_than_were_sent_is_named(tmp_path: Path) -> None:
    sources = a_program(tmp_path, PIPELINE)
    sender = at((0,), "recv", (15, "<module>"), (5, "first"))
    receiver = at((1, 2), "recv", (17, "<module>"), (8, "last"))

    hint = reason(sources, sender, receiver)

    assert hint.signature == "hang-receive-rounds"
    assert hint.cause.en.startswith("the loop of line 7 holds ranks 1, 2: it waits for one more message")
    assert "than rank 0 sent, which is past its loop of line 2" in hint.cause.en
    both_receive = [at((rank,), "recv", (18, "<module>"), (12, "swap")) for rank in (0, 1)]
    assert reason(sources, *both_receive).signature == "hang-receive"


TELLS = """\
class Saver:
    def is_writer(self):
        \"\"\"Whether this rank writes.\"\"\"
        return dist.get_rank() == 0
    @property
    def writes(self):
        return self.rank == 0
    def is_due(self, step):
        return step % 3 == 0 and self.best > 0
for step in range(9):
    backward(step)
    if saver.{test}:
        gather(state)
"""


@pytest.mark.parametrize(
    ("test", "alone"),
    [
        pytest.param("is_writer()", True, id="a method that tells of the rank"),
        pytest.param("writes", True, id="a property"),
        pytest.param("is_due(step)", False, id="a method that does not"),
    ],
)
def test_a_function_that_tells_of_the_rank_is_an_if_for_some_ranks(
    tmp_path: Path, test: str, alone: bool
) -> None:
    sources = a_program(tmp_path, TELLS.replace("{test}", test))
    saver = at((0,), "gather", (13, "<module>"))

    hint = reason(sources, saver, at((1,), "backward", (11, "<module>")))

    assert (hint.signature == "hang-rank-branch") is alone
    assert (entered_alone(saver, sources) is not None) is alone


@pytest.mark.parametrize(
    ("line", "functions", "what"),
    [
        pytest.param(
            "norm = get_total_norm([p.grad for p in model.parameters()])",
            ("_no_grad_wrapper", "_get_total_norm", "_dispatch_slow_path"),
            "get_total_norm",
            id="as the line has it",
        ),
        pytest.param(
            "loss = entropy(model(x), randn(3))",
            ("_wrapped_call_impl", "forward", "_pre_forward"),
            "forward",
            id="not a library's own business",
        ),
    ],
)
def test_a_collective_within_a_library_has_a_name_that_a_program_knows(
    tmp_path: Path, line: str, functions: tuple[str, ...], what: str
) -> None:
    site = "/v/lib/python3.11/site-packages/torch"
    library = [Call(file=f"{site}/nn/m.py", line=1, function=function) for function in functions[:-1]]
    inner = Call(file=f"{site}/distributed/tensor/_dispatch.py", line=1, function=functions[-1])
    own = Call(file=a_spec().program, line=1, function="<module>")

    place = place_of([inner, *reversed(library), own], a_program(tmp_path, f"{line}\n"))

    assert place.what == what


ALONE = """\
def validate(model):
    total = model.module(x).mean()
    {call}
for step in range(9):
    backward(step)
    if {test}:
        validate(model)
    if dist.get_rank() == 0:
        print(step)
"""


@pytest.mark.parametrize(
    ("call", "test", "known"),
    [
        pytest.param("dist.all_reduce(total)", "rank == 0 and step == 3", True, id="a collective"),
        pytest.param("print(total)", "rank == 0 and step == 3", False, id="none"),
        pytest.param("plt.scatter(total.gather(0, x))", "rank == 0", False, id="others by such names"),
        pytest.param("dist.all_reduce(total, group=evaluators)", "rank < 2", False, id="in a group"),
        pytest.param("dist.all_reduce(total)", "step == 3", False, id="on all ranks"),
    ],
)
def test_what_some_ranks_alone_call_in_a_loop_is_named(
    tmp_path: Path, call: str, test: str, known: bool
) -> None:
    sources = a_program(tmp_path, ALONE.replace("{call}", call).replace("{test}", test))

    found = alone_in_loop(a_side((0, 1), "backward", 5), sources)

    if known:
        assert found is not None
        assert (found[0].lineno, found[1]) == (6, "all_reduce")
    else:
        assert found is None


def test_a_group_that_a_rank_did_not_make_is_named(more: Sources) -> None:
    hint = reason(
        more, at((0, 1), "new_group", (27, "make_groups")), at((2,), "all_reduce", (34, "<module>"))
    )

    assert hint.signature == "hang-group-left-out"
    assert "if rank > 1:  (line 25) keeps ranks from the new_group of line 27" in hint.cause.en


def test_a_root_that_is_another_on_each_rank_is_named(more: Sources) -> None:
    hint = reason(more, at((0, 1), "broadcast", (43, "<module>")))

    assert (hint.signature, "src=rank" in hint.cause.en) == ("hang-root", True)


def waiting(rank: int, group: str, begun: float, *members: int) -> RankAnswer:
    one = Collective(name="all_reduce", number=1, over=False, begun=begun, members=members)
    return RankAnswer(rank=rank, collectives={group: one})


def test_the_wait_that_began_first_concerns_the_members_of_its_group() -> None:
    sides = [a_side((0,), "all_reduce", 13), a_side((1, 2), "barrier", 20)]
    answers = [waiting(0, "1", 5.0, 0, 1), waiting(1, "0", 6.0, 0, 1, 2), waiting(2, "0", 4.0, 0, 1, 2)]

    assert [side.ranks for side in concerned(sides, answers[:2])] == [(0,), (1,)]
    assert [side.ranks for side in concerned(sides, answers)] == [(0,), (1, 2)]


def test_two_ranks_that_wait_for_each_other_in_different_groups_have_crossed() -> None:
    answers = [waiting(0, "1", 5.0, 0, 1), waiting(1, "2", 5.0, 0, 1), waiting(2, "0", 5.0, 0, 1, 2)]

    hint = crossed(answers)

    assert hint is not None
    assert "rank 0 went into one process group and rank 1 into another" in hint.cause.en
    assert crossed([waiting(0, "1", 5.0, 0, 3), *answers[1:]]) is None


AVERAGES = """\
def average(value, group):
    barrier(group=group)
    all_reduce(value)

average(loss, learners)
broadcast(weights)
"""


@pytest.mark.parametrize(
    ("members", "text", "named"),
    [
        pytest.param((0, 1), AVERAGES, True, id="their own group"),
        pytest.param((0, 2), AVERAGES, False, id="another group"),
        pytest.param((0, 1), AVERAGES.replace("(value)", "(value, group)"), False, id="given"),
        pytest.param((0, 1), AVERAGES.replace("(group=group)", "()"), False, id="named nowhere"),
    ],
)
def test_ranks_that_wait_for_all_and_have_a_group_are_told_to_name_it(
    tmp_path: Path, members: tuple[int, ...], text: str, named: bool
) -> None:
    own = Collective(name="barrier", number=1, over=True, begun=4.0, members=members)
    answers = [
        replace(one, collectives={**one.collectives, "1": own})
        for one in (waiting(rank, "0", 5.0, 0, 1, 2) for rank in (0, 1))
    ]
    sides = [at((0, 1), "all_reduce", (5, "<module>"), (3, "average")), a_side((2,), "broadcast", 6)]

    sources = a_program(tmp_path, text)
    hint = ungrouped(sides, answers, sources)

    assert (hint is not None) is named
    if hint is not None:
        assert "all_reduce at line 3 has no group=" in hint.cause.en
        assert "have  group , as line 2 says" in hint.cause.en
    # the others have made it in an earlier step
    made = Issued(number=1, name="gloo:all_reduce", given="float32 (1,)", way=sides[0].way)
    assert ungrouped(sides, answers, sources, {2: {"0": [made]}}) is None


CALLER = """\
def finish():
    barrier()
def save(norm):
    all_gather(norms, norm, group=leaders)
    finish()
save(norm)
all_reduce(grad, group=inner)
"""


@pytest.mark.parametrize(
    ("others", "text", "named"),
    [
        pytest.param((0, 1), CALLER, True, id="the group of who called it"),
        pytest.param((1, 3), CALLER, False, id="the others have such a group, too"),
        pytest.param((0, 1), CALLER.replace("leaders)", "leaders); reduce(x, group=b)"), False, id="two"),
        pytest.param((0, 1), CALLER.replace("    barrier()", "    barrier(group=g)"), False, id="given"),
    ],
)
def test_the_group_of_a_caller_is_missing_in_the_function_that_it_calls(
    tmp_path: Path, others: tuple[int, ...], text: str, named: bool
) -> None:
    own = Collective(name="all_gather", number=1, over=True, begun=4.0, members=(0, 2))
    answers = [
        replace(one, collectives={**one.collectives, "1": own})
        for one in (waiting(rank, "0", 5.0, 0, 1, 2, 3) for rank in (0, 2))
    ]
    answers += [waiting(rank, "2", 5.0, *others) for rank in (1, 3)]
    sides = [
        at((0, 2), "barrier", (6, "<module>"), (5, "save"), (2, "finish")),
        at((1, 3), "all_reduce", (7, "<module>")),
    ]

    hint = ungrouped(sides, answers, a_program(tmp_path, text))

    assert (hint is not None) is named
    if hint is not None:
        assert "barrier at line 2 has no group=" in hint.cause.en
        assert "have  leaders , as line 4 says" in hint.cause.en


@pytest.mark.parametrize(
    ("value", "others", "named"),
    [
        pytest.param("None", (1, 2), True, id="of others"),
        pytest.param("ProcessGroup", (1, 2), False, id="a group"),
        pytest.param("None", (0, 1, 2), False, id="of all"),
    ],
)
def test_a_rank_that_is_no_member_waits_for_all(
    tmp_path: Path, value: str, others: tuple[int, ...], named: bool
) -> None:
    sources = a_program(tmp_path, "barrier(group=students)\nbroadcast(logits)\n")
    alone = replace(a_side((0,), "barrier", 1), values=(the_value(1, "students", value),))
    answers = [waiting(0, "0", 5.0, 0, 1, 2), waiting(1, "1", 5.0, *others)]

    hint = no_member([alone, a_side((1, 2), "broadcast", 2)], answers[1:], sources)

    assert (hint is not None) is named
    if hint is not None:
        assert hint.cause.en.startswith("barrier at line 1 has  students , which is None on rank 0")
        assert hint.cause.en.endswith("ranks 1, 2 have a group without rank 0")


def built_in(side: Side) -> Side:
    return replace(side, place=replace(side.place, built_in=True))


def within(side: Side, file: str) -> Side:
    return replace(side, place=replace(side.place, within=file))


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


POOLED = """\
def tokenize(text):
    if len(text) > 60:
        sys.exit(1)
    return text.split()
rows = pool.map(tokenize, texts)
barrier()
"""


@pytest.mark.parametrize(
    ("program", "name"),
    [
        pytest.param(POOLED, "hang-pool-left", id="in the task"),
        pytest.param(POOLED.replace("map(tokenize", "map(str"), "hang-pool", id="in another function"),
        pytest.param(POOLED.replace("sys.exit(1)", "return []"), "hang-pool", id="no exit"),
    ],
)
def test_a_task_of_a_pool_that_ends_its_process_is_named(tmp_path: Path, program: str, name: str) -> None:
    held = within(a_side((0,), "pool.map", 5, waits=False), "pool.py")

    hint = reason(a_program(tmp_path, program), held, a_side((1,), "barrier", 6))

    assert hint.signature == name
    assert ("sys.exit(1) (line 3) in tokenize" in hint.cause.en) is (name == "hang-pool-left")


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
    ("line", "name"), [(2, "hang-store-behind"), (5, "hang-store")], ids=["behind a call", "set before"]
)
def test_a_key_that_is_set_behind_a_call_for_all_is_told_with_both_lines(
    line: int, name: str, tmp_path: Path
) -> None:
    text = "if rank == 0:\n    barrier()\n    store.set('run', run)\nrun = store.get('run')\nbarrier()\n"
    held = built_in(a_side((1,), "store.get", 4, waits=False))

    found = reason(a_program(tmp_path, text), held, a_side((0,), "barrier", line))

    assert found.signature == name


def test_a_build_that_waits_for_its_lock_file_is_told_to_delete_it(sources: Sources) -> None:
    waits = at((0,), "baton.wait", (7, "<module>"), waits=False)
    waits = within(waits, "file_baton.py")

    assert "delete the file  lock " in reason(sources, waits, a_side((1,), "barrier", 20)).fix.en


def test_a_lock_file_of_the_program_s_own_is_one_that_was_not_released(tmp_path: Path) -> None:
    waits = at((0,), "baton.wait", (3, "<module>"), waits=False)
    waits = within(waits, "file_baton.py")
    program = a_program(tmp_path, "baton = FileBaton(path)\nif not baton.try_acquire():\n    baton.wait()\n")

    assert reason(program, waits).signature == "hang-file-baton-own"


MESSAGES = "for step in range(12):\n    recv(x)\nfor batch in loader:\n    send(batch)\nbarrier()\n"


def test_a_message_that_does_not_come_is_told_with_the_loop_that_has_more_rounds(tmp_path: Path) -> None:
    sources = a_program(tmp_path, MESSAGES)

    left = reason(sources, a_side((1,), "recv", 2), a_side((0,), "barrier", 5))
    still = reason(sources, a_side((1,), "recv", 2), a_side((0,), "all_reduce", 1))

    assert left.cause.en.endswith("in the loop of line 1, which has more rounds than there are messages")
    assert still.cause.en.endswith("rank 0 called all_reduce")


ROUNDS = """\
def save(step):
    barrier()

for step in range(12):
    if step % 4 == 3:
        save(step)
    broadcast(step)
"""


def test_an_if_that_asks_for_the_round_alone_has_not_parted_them(tmp_path: Path) -> None:
    inside, ahead = at((0,), "barrier", (6, "<module>"), (2, "save")), a_side((1,), "broadcast", 7)
    sides = [
        replace(side, values=(the_value(5, "step", str(step)),)) for side, step in ((inside, 3), (ahead, 4))
    ]

    assert reason(a_program(tmp_path, ROUNDS), *sides).signature != "hang-branch"


SWALLOWS = """\
def fetch(batches):
    try:
        return next(batches)
    except Exception:
        return None

while (batch := fetch(batches)) is not None:
    backward(batch)
barrier()
"""


CAUGHT = """\
def validate(epoch):
    try:
        score(epoch)
        barrier()
    except ValueError:
        log(epoch)
def reduced(loss):
    if loss is None:
        return loss
    all_reduce(loss)
for epoch in range(9):
    for step in range(4):
        backward(step)
    if epoch % 2 == 0:
        validate(epoch)
for batch in loader:
    try:
        reduced(loss(batch))
    except RuntimeError:
        losses.append(0)
    all_gather_object(losses)
try:
    reduced(loss(batch))
except KeyboardInterrupt:
    print("stopped")
barrier()
"""


@pytest.mark.parametrize(
    ("inside", "outside", "name", "tests"),
    [
        pytest.param(
            at((0,), "barrier", (15, "<module>"), (4, "validate")),
            a_side((1,), "backward", 13),
            "hang-caught",
            "line 5  except ValueError:",
            id="came round",
        ),
        pytest.param(
            at((0,), "all_reduce", (18, "<module>"), (10, "reduced")),
            a_side((1,), "all_gather_object", 21),
            "hang-caught",
            "line 8  if loss is None:, line 19  except RuntimeError:",
            id="is behind, or has returned",
        ),
        pytest.param(
            at((0,), "all_reduce", (23, "<module>"), (10, "reduced")),
            a_side((1,), "barrier", 26),
            "hang-return",
            "if loss is None:  (line 8)",
            id="an interrupt is for all ranks",
        ),
    ],
)
def test_what_is_caught_around_a_call_may_have_left_it_out(
    inside: Side, outside: Side, name: str, tests: str, tmp_path: Path
) -> None:
    found = reason(a_program(tmp_path, CAUGHT), inside, outside)

    assert found.signature == name
    assert tests in found.cause.en


COUNTS = """\
for batch in loader:
    step += 1
    if nan(batch):
        continue
    critic_loss(batch)
    if step % args.each == 0:
        generator_loss(batch)
while epoch < epochs:
    for batch in loader:
        backward(batch)
    epoch += 1
barrier()
"""


def test_an_if_that_asks_for_a_count_of_the_loop_has_not_parted_them(tmp_path: Path) -> None:
    sides = [
        replace(
            a_side((rank,), "backward", line),
            values=(the_value(6, "step", str(9 + rank)), the_value(6, "args.each", "2")),
        )
        for rank, line in enumerate((7, 5))
    ]

    found = reason(a_program(tmp_path, COUNTS), *sides)

    assert found.signature == "hang-round"
    assert found.cause.en.endswith("see line 3  if nan(batch):")


LIMITS = """\
for step, batch in enumerate(loader):
    if step >= args.most:
        break
    if stop:
        break
    backward(batch)
barrier()
"""


@pytest.mark.parametrize(
    ("theirs", "said"),
    [
        pytest.param("500", "added at line 4  if stop:", id="alike"),
        pytest.param("40", "added at line 2  if step >= args.most:, line 4  if stop:", id="unlike"),
    ],
)
def test_a_limit_of_rounds_that_all_have_alike_lets_no_rank_out(
    theirs: str, said: str, tmp_path: Path
) -> None:
    sides = [
        replace(side, values=(the_value(2, "step", step), the_value(2, "args.most", most)))
        for side, step, most in (
            (a_side((0,), "backward", 6), "41", "500"),
            (a_side((1,), "barrier", 7), "40", theirs),
        )
    ]

    found = reason(a_program(tmp_path, LIMITS), *sides)

    assert found.signature == "hang-loop-left"
    assert found.cause.en.endswith(said)


@pytest.mark.parametrize(("over", "line"), [("enumerate(buffers)", 2), ("model.buffers()", 1)])
def test_buffers_of_a_model_are_as_many_on_each_rank_and_a_list_of_that_name_may_not_be(
    over: str, line: int, tmp_path: Path
) -> None:
    text = "for step in range(3):\n    for one in OVER:\n        broadcast(one)\nbarrier()\n"
    sides = [a_side((0,), "broadcast", 3), a_side((1,), "barrier", 4)]

    found = reason(a_program(tmp_path, text.replace("OVER", over)), *sides)

    assert f"rank 1 left the loop of line {line}" in found.cause.en


def test_of_a_loop_that_counts_itself_and_one_over_data_the_latter_was_left(tmp_path: Path) -> None:
    sides = [a_side((0,), "backward", 10), a_side((1,), "barrier", 12)]

    found = reason(a_program(tmp_path, COUNTS), *sides)

    assert found.signature == "hang-loop"
    assert "rank 1 left the loop of line 9" in found.cause.en


def test_what_a_loop_calls_may_have_caught_what_ended_it(tmp_path: Path) -> None:
    sources = a_program(tmp_path, SWALLOWS)

    hint = reason(sources, a_side((0,), "backward", 8), a_side((1,), "barrier", 9))

    assert "one cut short by  except Exception:  (line 4)" in hint.cause.en
    assert [head(way) for way in ways_past(a_side((0,), "backward", 8), sources)] == ["except Exception:"]


def test_a_loop_that_was_left_comes_before_the_groups_in_which_ranks_wait_behind_it(tmp_path: Path) -> None:
    text = "for batch in loader:\n    all_reduce(x, group=pair)\nall_reduce(total)\n"
    sides = [a_side((0,), "all_reduce", 2), a_side((1,), "all_reduce", 3)]
    answers = [waiting(0, "1", 5.0, 0, 1), waiting(1, "0", 4.0, 0, 1)]

    found = first_of(sides, reason(a_program(tmp_path, text), *sides), answers)

    assert found is not None
    assert found.signature == "hang-loop"
    # in one line, or where nothing parts the lines, it is the group
    assert first_of([sides[0], replace(sides[0], ranks=(1,))], found, answers) == crossed(answers)
    assert first_of(sides, None, answers) == crossed(answers)


def test_ranks_that_wait_in_a_ring_of_groups_have_crossed() -> None:
    rows, columns = {0: (0, 1), 1: (0, 1), 2: (2, 3), 3: (2, 3)}, {0: (0, 2), 1: (1, 3), 2: (0, 2), 3: (1, 3)}
    ring = [
        waiting(rank, f"{kind}{members[rank]}", 5.0, *members[rank])
        for rank, kind, members in ((0, "c", columns), (1, "r", rows), (2, "r", rows), (3, "c", columns))
    ]

    hint = crossed(ring)

    assert hint is not None
    assert hint.cause.en.startswith("rank 0 went into one process group and ranks 1, 2, 3 into another")
    assert (
        crossed([waiting(0, "a", 5.0, 0, 1), waiting(1, "b", 5.0, 1, 2), waiting(2, "b", 5.0, 1, 2)]) is None
    )


def test_a_rank_in_what_one_enters_at_a_time_keeps_out_those_it_waits_for(tmp_path: Path) -> None:
    text = "with accelerator.main_process_first():\n    counts = count(words)\nfit(counts)\n"
    first, others = a_side((0,), "all_reduce", 2), a_side((1,), "barrier", 1)

    hint = reason(a_program(tmp_path, text), first, others)

    assert hint.signature == "hang-locked-by-rank"
    assert "rank 0 went into  accelerator.main_process_first()  (line 1)" in hint.cause.en


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


PUBLISH = """\
def publish(result):
    group = new_group(backend="gloo")
    broadcast_object_list(result, group=group)

for epoch in range(3):
    backward(epoch)
    if rank == 0:
        publish(evaluate())
"""


def test_the_if_for_some_ranks_in_which_a_group_is_made_at_first_use_is_named(tmp_path: Path) -> None:
    makes, other = at((0,), "new_group", (8, "<module>"), (2, "publish")), a_side((1,), "backward", 6)

    hint = reason(a_program(tmp_path, PUBLISH), makes, other)

    assert hint.signature == "hang-rank-branch"
    assert "rank 0 alone went into  if rank == 0:  (line 7), and called new_group there" in hint.cause.en
    assert "group=" not in hint.fix.en


@pytest.mark.parametrize("alone", [True, False], ids=["one rank", "all ranks"])
@pytest.mark.parametrize(
    ("made", "name"),
    [
        pytest.param(9.0, "hang-lock-file-old", id="before the run"),
        pytest.param(11.0, "hang-lock-file", id="in the run"),
    ],
)
def test_a_lock_file_that_no_rank_removes_is_named(
    tmp_path: Path, made: float, name: str, alone: bool
) -> None:
    lock = tmp_path / "cache.lock"
    lock.touch()
    os.utime(lock, (made, made))
    written = WrittenRun(tmp_path / "home", cell="while True:\n    sleep(1)\nbarrier()\n")
    sources = Sources(written.spec.program, written.directory, str(tmp_path), begun=10.0)
    sleeps = a_side((0,) if alone else (0, 1), "time.sleep", 2, waits=False)
    sleeps = replace(sleeps, handled=f"FileExistsError: [Errno 17] File exists: '{lock}'")

    hint = reason(sources, sleeps, *([a_side((1,), "barrier", 3)] if alone else []))

    assert hint.signature == name
    assert "the lock file cache.lock holds rank" in hint.cause.en
    # one that is gone meanwhile holds no rank
    lock.unlink()
    assert reason(sources, sleeps).signature == "hang-polls"


ROLLOUT = """\
set_seed(42 + rank)
for update in range(9):
    steps = random.randint(1, 6)
    for _ in range(steps):
        all_gather(state)
    all_reduce(grad)
"""


@pytest.mark.parametrize(
    ("program", "name"),
    [
        pytest.param(ROLLOUT, "hang-loop-drawn", id="by the seed of its rank"),
        pytest.param(ROLLOUT.replace("42 + rank", "42"), "hang-loop-range", id="by one seed"),
        pytest.param(ROLLOUT.replace("set_seed(42 + rank)", "pass"), "hang-loop-drawn", id="by none"),
        pytest.param(
            ROLLOUT.replace("set_seed(42 + rank)", "pass").replace("random.", "torch."),
            "hang-loop-range",
            id="by torch, which begins alike",
        ),
        pytest.param(ROLLOUT.replace("random.randint(1, 6)", "len(mine)"), "hang-loop-range", id="not drawn"),
    ],
)
def test_a_number_of_rounds_that_each_rank_draws_is_named(tmp_path: Path, program: str, name: str) -> None:
    sides = a_side((0,), "all_gather", 5), a_side((1,), "all_reduce", 6)

    hint = reason(a_program(tmp_path, program), *sides)

    assert hint.signature == name
    if name == "hang-loop-drawn":
        assert hint.cause.en.endswith("draws its own number:  steps = random.randint(1, 6)  (line 3)")


SLOTS = """\
def fetch(i):
    slots.acquire()
    if i in lost:
        raise OSError(i)
    row = read(i)
    slots.release()
    return row

for i in range(9):
    fetch(i)
barrier()
"""


@pytest.mark.parametrize(
    ("program", "name"),
    [
        pytest.param(SLOTS, "hang-kept", id="an error before it"),
        pytest.param(SLOTS.replace("raise OSError(i)", "return None"), "hang-kept", id="a return before it"),
        pytest.param(SLOTS.replace("raise OSError(i)", "log(i)"), "hang-inside", id="none"),
        pytest.param(
            SLOTS.replace("if i in lost:", "try:").replace(
                "    row = read(i)", "    finally:\n        slots.release()\n    row = read(i)"
            ),
            "hang-inside",
            id="a finally",
        ),
        pytest.param(SLOTS.replace("acquire()", "acquire(timeout=9)"), "hang-inside", id="with a limit"),
    ],
)
def test_what_leaves_a_function_before_a_release_is_named(tmp_path: Path, program: str, name: str) -> None:
    end = program.count("\n")
    side = at((0,), "slots.acquire", (end - 1, "<module>"), (2, "fetch"), waits=False)

    hint = reason(a_program(tmp_path, program), side, a_side((1,), "barrier", end))

    assert hint.signature == name
    if name == "hang-kept":
        assert "line 4  r" in hint.cause.en
        assert hint.cause.en.endswith("before the slots.release() of line 6")


def test_an_if_that_draws_is_told_to_draw_alike(tmp_path: Path) -> None:
    text = "for x in loader:\n    if random.random() < 0.5:\n        all_reduce(x)\nbarrier()\n"

    hint = reason(a_program(tmp_path, text), a_side((0,), "all_reduce", 3), a_side((1,), "all_gather", 1))

    assert hint.signature == "hang-branch-drawn"
    alike = a_program(tmp_path / "b", f"{text}random.seed(0)\n")
    assert (
        reason(alike, a_side((0,), "all_reduce", 3), a_side((1,), "all_gather", 1)).signature == "hang-branch"
    )


IN_ONE_POOL = """\
def save(state):
    parts = [pool.submit(write, part) for part in state]
    return [part.result() for part in parts]

pending = pool.submit(save, state)
pending.result()
backward(loss)
"""


@pytest.mark.parametrize(
    ("line", "name"),
    [
        pytest.param(3, "hang-pool-in-itself", id="waits"),
        pytest.param(2, "hang-inside", id="does something"),
    ],
)
def test_a_task_that_waits_for_another_of_its_pool_is_named(tmp_path: Path, line: int, name: str) -> None:
    side = a_side((0,), "pending.result", 6, waits=False)
    task = Call(file=a_spec().program, line=line, function="save")
    side = replace(side, place=replace(side.place, within="_base.py"), beside=((task,),))

    hint = reason(a_program(tmp_path, IN_ONE_POOL), side, a_side((1,), "backward", 7))

    assert hint.signature == name


def test_a_wait_for_a_signal_is_told(sources: Sources) -> None:
    waits = at((0,), "signal.pause", (7, "<module>"), waits=False)

    assert reason(sources, waits, a_side((1,), "barrier", 20)).signature == "hang-signal"


SKIPS = """\
def maybe_save(saver):
    if time.time() - saver.last < 60:
        return
    barrier()

for step in range(400):
    backward(step)
    maybe_save(saver)
"""


def test_those_who_came_round_may_have_left_a_call_out_in_a_function(tmp_path: Path) -> None:
    hint = reason(
        a_program(tmp_path, SKIPS),
        at((1,), "barrier", (8, "<module>"), (4, "maybe_save")),
        at((0,), "backward", (7, "<module>")),
    )

    assert hint.signature == "hang-round"
    assert hint.cause.en.endswith("line 2  if time.time() - saver.last < 60:")


def test_ranks_in_one_call_with_other_shapes_are_told_by_these() -> None:
    def answer(rank: int, what: str) -> RankAnswer:
        return replace(
            waiting(rank, "0", 5.0), values=(the_value(22, "scores", what), the_value(22, "rank", str(rank)))
        )

    both = a_side((0, 1), "all_gather", 22)

    hint = unlike(both, [answer(0, "Tensor (4,) float32"), answer(1, "Tensor (6,) float32")])

    assert hint is not None
    assert hint.cause.en.endswith("some ranks: Tensor (4,) float32 (rank 0); Tensor (6,) float32 (rank 1)")
    assert (
        unlike(both, [answer(0, "Tensor (4,) int64, 0 to 3"), answer(1, "Tensor (4,) int64, 0 to 9")]) is None
    )


SWAPPED = """\
def average():
    for p in parameters:
        all_reduce(p)

def norm():
    all_reduce(total)

def update():
    if (row + column) % 2:
        average()
        norm()
    else:
        norm()
        average()

update()
"""


def test_the_same_calls_in_another_order_are_told_by_the_if(tmp_path: Path) -> None:
    up, start = (10, "update"), (16, "<module>")

    hint = reason(
        a_program(tmp_path, SWAPPED),
        at((0, 3), "all_reduce", start, up, (3, "average")),
        at((1, 2), "all_reduce", start, (13, "update"), (6, "norm")),
    )

    assert hint.signature == "hang-order"
    assert "line 9  if (row + column) % 2:" in hint.cause.en


def test_of_a_process_that_waits_for_its_queue_to_be_read_that_is_told(sources: Sources) -> None:
    hands_over = Call(
        file="/usr/lib/python3.11/multiprocessing/queues.py", line=199, function="_finalize_join"
    )
    side = a_side((0,), "worker.join", 22, waits=False)

    assert reason(sources, replace(side, workers=((hands_over,),))).signature == "hang-join-queue"
    assert reason(sources, side).signature == "hang-join"


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


LEADERS = """\
def make(rank):
    if rank in leaders:
        heads = new_group(leaders)
    return new_group(mates[rank])

make(rank)
"""


def test_of_ranks_that_all_make_a_group_some_may_have_made_one_more(tmp_path: Path) -> None:
    both = at((0, 1, 2, 3), "new_group", (6, "<module>"), (4, "make"))

    hint = reason(a_program(tmp_path, LEADERS), both)

    assert hint.signature == "hang-group-left-out"
    assert "if rank in leaders:  (line 2)" in hint.cause.en


RETURNS = """\
def step(batch):
    if bad(batch):
        return
    all_gather(counts)
for batch in loader:
    step(batch)
barrier()
"""


def test_a_return_in_what_a_loop_calls_may_have_left_out_a_step(tmp_path: Path) -> None:
    inside, outside = (
        at((0,), "all_gather", (6, "<module>"), (4, "step")),
        at((1,), "barrier", (7, "<module>")),
    )

    found = reason(a_program(tmp_path, RETURNS), inside, outside)

    assert found.signature == "hang-loop-left"
    assert "line 2  if bad(batch):" in found.cause.en


VALIDATES = """\
def run(model):
    return model(x)
def validate(rank, model):
    if rank != 0:
        barrier()
        return
    run(model)
    barrier()
validate(rank, model)
"""


def test_ranks_that_wait_for_the_first_have_not_called_what_that_is_in(tmp_path: Path) -> None:
    waits = at((1,), "barrier", (9, "<module>"), (5, "validate"))
    alone = at((0,), "forward", (9, "<module>"), (7, "validate"), (2, "run"))

    found = reason(a_program(tmp_path / "in", VALIDATES), waits, alone)

    assert found.signature == "hang-rank-beside"
    assert (
        "rank 0 alone went past  if rank != 0:  (line 4) and called forward; rank 1 stayed" in found.cause.en
    )
    assert "model.module" in found.fix.en
    text = VALIDATES.replace("    run(model)\n    barrier()", "    run(model)\n    print()")
    assert reason(a_program(tmp_path / "not", text), waits, alone).signature == "hang-rank-branch"


TOWERS = """\
for name, members in towers.items():
    if rank not in members:
        continue
    new_group(members)
"""


def test_ranks_that_go_on_before_a_group_that_is_not_theirs_leave_it_out(tmp_path: Path) -> None:
    each = at((0, 1), "new_group", (4, "<module>"))

    found = reason(a_program(tmp_path / "towers", TOWERS), each)

    assert found.signature == "hang-group-left-out"
    assert "if rank not in members:  (line 2) keeps ranks from the new_group of line 4" in found.cause.en
    text = "\n\n\nnew_group([dist.get_rank()])\n"
    assert reason(a_program(tmp_path / "own", text), each).signature == "hang-groups"


PACKS = """\
class Packed:
    def __iter__(self):
        yield from pack(shuffled(self.lengths))

random.seed(7 + rank)
for batch in Packed():
    backward(batch)
barrier()
"""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param(
            PACKS,
            "; its batches come from Packed (line 1), and each rank draws other random numbers"
            " (line 5  random.seed(7 + rank))",
            id="by rank",
        ),
        pytest.param(
            PACKS.replace("random.seed(7 + rank)", "packed = Packed(4, seed=rank)"),
            ", and each rank draws other random numbers (line 5  packed = Packed(4, seed=rank))",
            id="by what it is given",
        ),
        pytest.param(
            PACKS.replace("7 + rank", "7"), "; its batches come from Packed (line 1)", id="by one seed"
        ),
        pytest.param(PACKS.replace("__iter__", "__len__"), "did not", id="no batches of its own"),
    ],
)
def test_a_loop_over_batches_of_the_program_is_told_with_what_makes_them(
    text: str, said: str, tmp_path: Path
) -> None:
    sides = at((0,), "backward", (7, "<module>")), at((1,), "barrier", (8, "<module>"))

    assert reason(a_program(tmp_path, text), *sides).cause.en.endswith(said)


STUDENTS = """\
students = new_group([0, 1])
if rank < 2:
    all_reduce(mean)
else:
    broadcast(weights)
"""


def test_ranks_that_alone_call_a_collective_may_have_meant_their_group(tmp_path: Path) -> None:
    sides = at((0, 1), "all_reduce", (3, "<module>")), at((2,), "broadcast", (5, "<module>"))

    grouped = reason(a_program(tmp_path, STUDENTS), *sides)
    plain = reason(a_program(tmp_path / "b", STUDENTS.replace("new_group", "sorted")), *sides)

    assert grouped.fix.en.endswith("; or give it the group= of these ranks")
    assert "group" not in plain.fix.en


def test_a_child_that_is_held_is_told_by_its_line(sources: Sources) -> None:
    child = (Call(file=a_spec().program, line=4, function="validate"),)
    side = a_side((0,), "results.get", 22, waits=False)

    assert "is held by gather at line 4" in reason(sources, replace(side, workers=(child,))).cause.en
    assert reason(sources, side).signature == "hang-inside"


HELD = """\
group = new_group([0, 1])
for batch in loader:
    total(step(batch), pair)
total(seen)

def total(value, group=None):
    all_reduce(value, group=group)
"""


def test_ranks_that_are_held_elsewhere_are_no_matter_of_groups(tmp_path: Path) -> None:
    sources = a_program(tmp_path, HELD)
    whole = at((0, 1), "all_reduce", (4, "<module>"), (7, "total"))
    whole = replace(whole, values=(the_value(7, "group", "None"),))
    own = Collective(name="all_reduce", number=1, over=True, begun=4.0, members=(0, 1))
    answers = [replace(waiting(rank, "0", 5.0, 0, 1, 2), collectives={"1": own}) for rank in (0, 1)]
    held = at((2,), "queue.get", (2, "<module>"), waits=False)

    assert ungrouped([whole, held], answers, sources) is None
    assert no_member([whole, held], [waiting(2, "2", 5.0, 2)], sources) is None
    # a default means all ranks
    assert no_member([whole, a_side((2,), "barrier", 9)], [waiting(2, "2", 5.0, 2)], sources) is None


def test_a_rank_on_its_way_to_a_group_is_told_by_what_holds_it(tmp_path: Path) -> None:
    sources = a_program(tmp_path, "rows = get(url)\ngroup = new_group([0, 1])\nbarrier()\n")
    makes = a_side((0,), "new_group", 2)
    fetches = replace(a_side((1,), "get", 1, waits=False), place=CodeLocation(line=1, on_network=True))

    assert reason(sources, makes, fetches).signature == "hang-network"
    assert reason(sources, makes, a_side((1,), "barrier", 3)).signature == "hang-groups"


@pytest.mark.parametrize(
    "loop",
    [
        "for rank in range(2):\n    broadcast(parts[rank], src=rank)\nbarrier()\n",
        "for rank, part in enumerate(parts):\n    broadcast(part, src=rank)\nbarrier()\n",
        "for _ in steps:\n    [broadcast(parts[rank], src=rank) for rank in range(2)]\nbarrier()\n",
    ],
)
def test_a_loop_over_the_ranks_gives_each_of_them_the_same_root(loop: str, tmp_path: Path) -> None:

    found = why(
        [a_side((0,), "broadcast", 2), a_side((1,), "barrier", 3)], a_program(tmp_path / "loop", loop), {}
    )

    assert found is not None
    assert found.signature == "hang-loop"
    own = a_program(tmp_path / "own", "broadcast(parts, src=rank)\nbarrier()\n")
    assert reason(own, a_side((0,), "broadcast", 1), a_side((1,), "barrier", 2)).signature == "hang-root"


def test_a_parameter_that_is_the_same_on_all_ranks_is_no_rank_s_own_root(tmp_path: Path) -> None:
    given = replace(a_side((1,), "broadcast", 1), values=(the_value(1, "rank", "0"),))

    found = reason(
        a_program(tmp_path, "broadcast(parts, src=rank)\nbarrier()\n"), given, a_side((0,), "barrier", 2)
    )

    assert found.signature == "hang-apart"


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


@pytest.mark.parametrize(
    "test",
    [
        "not dist.is_initialized()",
        "not (dist.is_available() and dist.is_initialized())",
        "not is_dist_avail_and_initialized()",
        "args.local_rank == -1",
        "rank is None or world_size < 2",
        "'RANK' not in os.environ",
        "not use_ddp",
    ],
)
def test_a_return_that_all_ranks_take_or_none_has_not_parted_them(test: str, tmp_path: Path) -> None:
    text = f"""\
def sums(value):
    if {test}:
        return value
    if value is None:
        return value
    all_reduce(value)

sums(loss)
broadcast(flag)
"""
    sides = [at((0,), "all_reduce", (8, "<module>"), (6, "sums")), a_side((1,), "broadcast", 9)]

    found = reason(a_program(tmp_path, text), *sides)

    assert found.signature == "hang-return"
    assert "if value is None:" in found.cause.en


@pytest.mark.parametrize("test", ["pair_rank == -1", "group_rank is None", "not ddp_rank"])
def test_whether_a_rank_is_in_a_group_is_its_own_question(test: str, tmp_path: Path) -> None:
    text = f"def sums(value):\n    if {test}:\n        return\n    all_reduce(value)\nsums(loss)\nbarrier()\n"
    sides = [at((0,), "all_reduce", (5, "<module>"), (4, "sums")), a_side((1,), "barrier", 6)]

    found = reason(a_program(tmp_path, text), *sides)

    assert found.signature == "hang-rank-return"
    assert f"if {test}:" in found.cause.en


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("f'cuda:{rank}' if cuda else 'cpu'", "hang-loop-left"),
        ("files[rank::2]", "hang-loop-left"),
        ("rank == 0", "hang-rank-branch"),
        ("os.environ['RANK']", "hang-rank-branch"),
    ],
)
def test_what_is_named_or_dealt_by_the_rank_is_not_its_number(given: str, name: str, tmp_path: Path) -> None:
    text = f"mine = {given}\nif mine:\n    for batch in loader:\n        all_reduce(loss)\nbarrier()\n"
    sides = [a_side((0,), "all_reduce", 4), a_side((1,), "barrier", 5)]

    assert reason(a_program(tmp_path, text), *sides).signature == name


def test_whether_there_are_several_ranks_is_no_question_of_one(tmp_path: Path) -> None:
    text = """\
args.distributed = "RANK" in os.environ and "WORLD_SIZE" in os.environ
for batch in loader:
    if args.distributed:
        all_reduce(loss)
barrier()
"""
    sides = [a_side((0,), "all_reduce", 4), a_side((1,), "barrier", 5)]

    assert reason(a_program(tmp_path, text), *sides).signature == "hang-loop"


@pytest.mark.parametrize(
    ("call", "file", "line", "name"),
    [
        pytest.param("jobs.join", "queue.py", 3, "hang-join-tasks", id="items that are not done"),
        pytest.param("process.wait", "subprocess.py", 1, "hang-program", id="its input is open"),
        pytest.param("process.wait", "subprocess.py", 2, "hang-pipe", id="its output is not read"),
        pytest.param("checkpointer.restore", "", 3, "hang-busy", id="no store"),
    ],
)
def test_what_is_alike_by_its_name_alone_is_told_apart(
    call: str, file: str, line: int, name: str, tmp_path: Path
) -> None:
    pipes = {1: "stdin=PIPELINE", 2: "stdout=PIPELINE", 3: ""}[line]
    sources = a_program(tmp_path, f"process = Popen(command, {pipes})\n{call}()\nbarrier()\n")
    held = within(a_side((1,), call, 2, waits=False), file)

    assert reason(sources, held, a_side((0,), "barrier", 3)).signature == name


@pytest.mark.parametrize("start", ["helper = Popen(run, stdin=PIPELINE)", "with Popen(run) as helper: pass"])
def test_another_program_s_pipe_is_not_the_one_that_is_full(start: str, tmp_path: Path) -> None:
    text = f"commit = Popen(git, stdout=PIPELINE).communicate()\n{start}\nhelper.wait()\nbarrier()\n"
    held = within(a_side((1,), "helper.wait", 3, waits=False), "subprocess.py")

    assert reason(a_program(tmp_path, text), held, a_side((0,), "barrier", 4)).signature == "hang-program"


@pytest.mark.parametrize("call", ["pending.result", "saver.join"])
def test_a_thread_that_waits_for_other_ranks_is_told_with_its_line(call: str, tmp_path: Path) -> None:
    text = f"def save(shard):\n    dist.all_gather(shards, shard)\n{call}()\nbarrier()\n"
    thread = (Call(file=a_spec().program, line=2, function="save"),)
    held = replace(a_side((1,), call, 3, waits=False), beside=(thread,))

    found = reason(a_program(tmp_path, text), held, a_side((0,), "barrier", 4))

    assert found.signature == "hang-thread-waits"
    assert f"{call} holds rank 1: a thread of it waits in dist.all_gather at line 2" in found.cause.en


def test_the_end_of_a_program_may_wait_for_a_queue(sources: Sources) -> None:
    handing = Call(file="/usr/lib/python3/multiprocessing/queues.py", line=9, function="_finalize_join")
    ended = Side(ranks=(1,), way=(), place=CodeLocation(what="_exit_function"), calls=(handing,))

    assert reason(sources, ended, a_side((0,), "barrier", 20)).signature == "hang-queue-at-the-end"


def test_a_rank_at_the_end_while_others_wait_has_made_fewer_calls(sources: Sources) -> None:
    ended = Side(ranks=(1,), way=(), place=CodeLocation(what="_shutdown"))

    found = reason(sources, ended, a_side((0,), "backward", 14))

    assert found.signature == "hang-ended-early"
    assert found.cause.en.startswith(
        "rank 1 came to the end of the program, and rank 0 still waits in backward"
    )
    assert reason(sources, ended).signature == "hang-at-the-end"


ACQUIRED = """\
lock.acquire()
data = prepare()
barrier()
lock.release()
"""


def test_a_lock_file_that_another_rank_has_acquired_is_told(tmp_path: Path) -> None:
    waits, holder = a_side((1,), "lock.acquire", 1, waits=False), a_side((0,), "barrier", 3)

    sources = a_program(tmp_path, ACQUIRED)
    found = reason(sources, within(waits, "_api.py"), holder)

    assert found.signature == "hang-locked-by-rank"
    assert "lock  (line 1), and called barrier there; line 1 holds rank 1" in found.cause.en
    # a lock of threads is another one on each rank
    assert reason(sources, built_in(waits), holder).signature == "hang-inside"


def test_of_two_ranks_that_build_one_waits_for_the_other(sources: Sources) -> None:
    waits = within(at((0,), "load", (7, "<module>"), waits=False), "file_baton.py")
    builds = within(at((1,), "load", (7, "<module>"), waits=False), "subprocess.py")

    assert reason(sources, waits, builds, a_side((2,), "barrier", 20)).cause.en.startswith(
        "load holds rank 1"
    )


EPOCHS = """\
def run(loader, optimizer=None):
    for batch in loader:
        if optimizer is not None:
            backward(batch)

for epoch in range(9):
    run(loader, optimizer)
    if stopper.step(loss):
        break
barrier()
"""


def test_of_epochs_and_batches_the_loop_that_a_rank_broke_off_is_told(tmp_path: Path) -> None:
    trains = at((0,), "backward", (7, "<module>"), (4, "run"))

    found = reason(a_program(tmp_path, EPOCHS), trains, a_side((1,), "barrier", 10))

    assert "rank 1 left the loop of line 6, rank 0 not" in found.cause.en
    assert found.cause.en.endswith("line 8  if stopper.step(loss):")


CONTINUES = """\
for name in names:
    all_reduce(total)
    if rank == 0:
        if args.mode == "infer":
            continue
    barrier()
"""


def test_a_way_out_for_some_ranks_is_told_by_the_if_that_asks_for_them(tmp_path: Path) -> None:
    sides = [a_side((0,), "all_reduce", 2), a_side((1,), "barrier", 6)]

    assert reason(a_program(tmp_path, CONTINUES), *sides).cause.en.endswith("see line 3  if rank == 0:")


COMPREHENSION = """\
def step(batch):
    loss = model(batch)
    if model.training:
        loss.backward()
    return loss

losses = [step(batch) for batch in loader]
gather(losses)
"""


def test_a_comprehension_that_one_rank_has_come_past_parts_them_as_a_loop_does(tmp_path: Path) -> None:
    inside = at((0,), "backward", (7, "<module>"), (7, "<listcomp>"), (4, "step"))

    hint = reason(a_program(tmp_path, COMPREHENSION), inside, at((1,), "gather", (8, "<module>")))

    assert hint.signature.startswith("hang-loop")
    assert "the loop of line 7" in hint.cause.en


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
