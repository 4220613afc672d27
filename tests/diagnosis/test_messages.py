"""Why messages from one rank to another, and tasks of pools and queues, do not come."""

from __future__ import annotations

from pathlib import Path

import pytest

from nbdist.diagnosis.hangs.deadlocks import why
from nbdist.diagnosis.places import CodeLocation, Sources
from nbdist.diagnosis.sides import Side
from nbdist.store.reports import Call
from tests.diagnosis.hang_cells import a_program, a_side, at, more, reason, sources
from tests.fakes.directories import WrittenRun
from tests.fakes.runs import a_spec

__all__ = ["more", "sources"]


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

    assert hint.signature == "hang-caught"
    assert "line 12  except OSError:" in hint.cause.en
    # the same condition once more is no other half
    again = a_program(tmp_path / "again", FIRST.format(test="get_rank() != 0"))
    assert reason(again, waiting, gone).signature == "hang-rank-branch"


def test_a_call_of_which_the_others_make_the_other_half_is_not_made_alone(tmp_path: Path) -> None:
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

    assert hint.signature == "hang-apart"


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


MESSAGES = "for step in range(12):\n    recv(x)\nfor batch in loader:\n    send(batch)\nbarrier()\n"


def test_a_message_that_does_not_come_is_told_with_the_loop_that_has_more_rounds(tmp_path: Path) -> None:
    sources = a_program(tmp_path, MESSAGES)

    left = reason(sources, a_side((1,), "recv", 2), a_side((0,), "barrier", 5))
    still = reason(sources, a_side((1,), "recv", 2), a_side((0,), "all_reduce", 1))

    assert left.cause.en.endswith("in the loop of line 1, which has more rounds than there are messages")
    assert still.cause.en.endswith("rank 0 called all_reduce")
