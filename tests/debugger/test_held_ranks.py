"""Ranks that a debugger holds, in real runs: by their prompts, whatever asks there."""

from __future__ import annotations

import os
import signal
import time

import pytest

from nbdist import runner
from nbdist.sockets import connect_to
from nbdist.store import held_ranks as prompts
from nbdist.store.control import RanksRequest, request_of_ranks
from nbdist.store.held_ranks import grouped, held_ranks, values
from tests.conftest import RunCell
from tests.programs import until

pytestmark = pytest.mark.usefixtures("leaves_nothing")

_LIMIT = 20.0


def held(handle: runner.RunHandle, *ranks: int) -> None:
    """Wait until exactly these ranks are held."""
    until(lambda: list(held_ranks(handle.directory, handle.run)) == list(ranks))


def ask(handle: runner.RunHandle, text: str, *ranks: int) -> dict[int, str]:
    # of a step the supervisor hears a moment later than who has asked for it
    until(lambda: {*ranks} <= held_ranks(handle.directory, handle.run).keys())
    sockets = held_ranks(handle.directory, handle.run)
    return prompts.ask({rank: sockets[rank] for rank in ranks}, text, _LIMIT)


_STEPS = """
import os, time
rank = int(os.environ["RANK"])
def step(number):
    loss = number / 2
    if number == 3:
        breakpoint()
        loss = number - 2
    return loss
for number in range(4):
    last = step(number)
print("done", last)
"""


def test_a_breakpoint_holds_each_rank_until_it_goes_on(start_cell: RunCell) -> None:
    handle = start_cell("-n 2 --timeout 5s --hang-after 1s", _STEPS)
    held(handle, 0, 1)
    place = handle.run.held[1]
    assert (place.why, place.line, place.what) == ("breakpoint", 7, "breakpoint()")
    assert "number = 3" in place.values

    answers = ask(handle, "p loss, rank", 0, 1)
    assert answers == {0: "(1.5, 0)", 1: "(1.5, 1)"}
    assert grouped(ask(handle, "p loss", 0, 1)) == [([0, 1], "1.5")]
    assert ask(handle, "for x in range(2):\n    print(x * number)", 1) == {1: "0\n3"}
    assert ask(handle, "p nothing", 1) == {1: "*** NameError: name 'nothing' is not defined"}
    assert "bootstrap" not in ask(handle, "w", 1)[1]
    assert all("keyboard" in ask(handle, text, 1)[1] for text in ("interact", "commands 1"))
    connect_to(held_ranks(handle.directory, handle.run)[1]).close()  # a client that goes
    assert ask(handle, "\tp numb", 1) == {1: "number"}
    time.sleep(6.0)  # longer than the limits
    assert handle.run.stalled is None
    ask(handle, "number = 9", 0)
    assert "-> loss = number - 2" in ask(handle, "n", 0)[0]
    ask(handle, "c", 0, 1)

    assert handle.wait(_LIMIT) == "finished", handle.logs(0)
    assert [handle.logs(0), handle.logs(1)] == ["done 7\n", "done 1\n"]


def test_a_rank_that_raises_is_looked_at_and_then_fails(start_cell: RunCell) -> None:
    handle = start_cell(
        "-n 2 --debug",
        "import time, os\nx = 5\nif os.environ['RANK'] == '1':\n    1 / (x - 5)\ntime.sleep(60)",
    )
    held(handle, 1)
    place = handle.run.held[1]
    assert (place.why, place.line, place.what) == ("error", 4, "ZeroDivisionError: division by zero")
    assert ask(handle, "p x * 2", 1) == {1: "10"}

    ask(handle, "c", 1)

    assert handle.wait(_LIMIT) == "failed"
    assert "ZeroDivisionError" in handle.logs(1)


def test_quit_ends_the_run_in_order(start_cell: RunCell) -> None:
    handle = start_cell("-n 2", "try:\n    breakpoint()\nfinally:\n    print('tidy')")
    held(handle, 0, 1)

    ask(handle, "q", 0)

    assert handle.wait(_LIMIT) == "stopped"
    assert handle.run.reason.code == "debugger-quit"
    assert all("tidy" in handle.logs(rank) for rank in (0, 1))


_COUNTS = """
import time
def work(n):
    time.sleep(0.01)
    return n + 1
n, end = 0, False
while not end:
    n = work(n)
"""


def test_ranks_are_paused_where_they_are_and_asked_without_a_stop(start_cell: RunCell) -> None:
    handle = start_cell("-n 2", _COUNTS)
    until(lambda: values(handle.directory, handle.run, "n > 3", 1.0) == {0: "True", 1: "True"})
    assert handle.run.held == {}

    request_of_ranks(handle.directory, RanksRequest(ranks=(0, 1)))
    held(handle, 0, 1)
    before = ask(handle, "p n", 0, 1)
    time.sleep(0.1)
    assert ask(handle, "p n", 0, 1) == before
    assert ask(handle, "b 8", 0)[0].startswith("Breakpoint 1 at")
    ask(handle, "c", 0, 1)
    until(lambda: [*(now := handle.run.held)] == [0] and now[0].line == 8)
    ask(handle, "end = True", 0)
    ask(handle, "cl 1", 0)
    ask(handle, "c", 0)
    request_of_ranks(handle.directory, RanksRequest(ranks=(1,)))
    held(handle, 1)
    ask(handle, "globals()['end'] = True", 1)
    ask(handle, "c", 1)

    assert handle.wait(_LIMIT) == "finished"


def test_a_held_rank_ends_with_the_others(start_cell: RunCell) -> None:
    handle = start_cell("-n 2 --debug", "1 / 0")
    held(handle, 0, 1)
    process = handle.run.ranks[1].process
    assert process is not None

    os.kill(process.pid, signal.SIGKILL)

    assert handle.wait(_LIMIT) == "failed"
