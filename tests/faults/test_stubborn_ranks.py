"""Ranks that do not want to end are ended; a run that fails may be tried again."""

from __future__ import annotations

import os
import signal

import pytest

from nbdist.model import Reason
from nbdist.text import reason_text
from tests.programs import SLEEP, rank_states, ranks_of, until, until_ready

pytestmark = pytest.mark.usefixtures("leaves_nothing")

BUSY_IN_C = """
import itertools
print("ready")
sum(itertools.repeat(1, 10**12))
"""


def test_a_rank_that_is_busy_in_c_is_ended_when_the_run_is_stopped(start_cell) -> None:
    handle = until_ready(start_cell("-n 2", BUSY_IN_C), limit=60)
    handle.request_stop(Reason.said("enough"))
    until(lambda: handle.run.stop_reason)

    assert handle.stop("enough, really") == "stopped"

    assert rank_states(handle) == ["stopped", "stopped"]
    assert reason_text(handle.run.reason) == "enough"


@pytest.mark.parametrize("suspended", [[0], [0, 1]], ids=["one", "all"])
def test_suspended_ranks_are_ended_when_the_run_is_stopped(start_cell, suspended: list[int]) -> None:
    handle = until_ready(start_cell("-n 2", SLEEP))
    for rank in suspended:
        os.kill(ranks_of(handle)[rank].pid, signal.SIGSTOP)
    handle.request_stop(Reason.said("enough"))
    until(lambda: handle.run.stop_reason)

    assert handle.stop("enough, really") == "stopped"

    assert rank_states(handle) == ["stopped", "stopped"]


def test_a_suspended_rank_is_ended_when_another_one_fails(start_cell) -> None:
    handle = until_ready(start_cell("-n 2", SLEEP))
    os.kill(ranks_of(handle)[0].pid, signal.SIGSTOP)

    os.kill(ranks_of(handle)[1].pid, signal.SIGKILL)

    assert handle.wait(10) == "failed"
    assert rank_states(handle) == ["stopped", "failed"]
    assert handle.run.ranks[0].exited - handle.run.ranks[1].exited < 10.0


COUNTS = """
import os
print("attempt", os.environ["MASTER_PORT"])
with open("count-" + os.environ["RANK"], "a") as file:
    file.write(".")
tries = len(open("count-" + os.environ["RANK"]).read())
"""


def test_a_failed_run_is_tried_again_on_a_fresh_port_with_logs_of_its_own(run_cell) -> None:
    cell = f"{COUNTS}if os.environ['RANK'] == '1' and tries < 3: raise ValueError('try again')"

    handle = run_cell("-n 2 --retries 2", cell)

    run = handle.run
    assert (handle.status, run.attempt) == ("finished", 3), reason_text(run.reason)
    assert run.failures == (Reason("ranks-failed", ranks=(1,)),) * 2
    logs = [handle.directory.rank(1, attempt).log.read_text() for attempt in (1, 2, 3)]
    assert [("try again" in log) for log in logs] == [True, True, False]
    assert [log.splitlines()[0] for log in logs] != [logs[0].splitlines()[0]] * 3
    assert handle.logs(1) == logs[2]


def test_a_run_that_fails_once_too_often_has_failed(run_cell) -> None:
    handle = run_cell("-n 1 --retries 2", f"{COUNTS}os._exit(tries)")

    run = handle.run
    assert (handle.status, run.attempt, run.ranks[0].code) == ("failed", 3, 3)
    assert run.failures == (Reason("ranks-failed", ranks=(0,)),) * 2


def test_nothing_of_an_attempt_is_left_when_the_next_one_starts(run_cell) -> None:
    cell = f"""{COUNTS}
if tries == 1:
    pid = os.fork()
    if pid == 0:
        import time
        os.setsid()
        time.sleep(600)
    open("child", "w").write(str(pid))
    os._exit(1)
print("left", os.path.exists("/proc/" + open("child").read()))
"""

    handle = run_cell("-n 1 --retries 1", cell)

    assert handle.status == "finished"
    assert handle.logs(0).splitlines()[-1] == "left False"
    assert handle.run.leftover == 1


def test_what_a_rank_of_an_earlier_attempt_held_open_does_not_deafen_the_supervisor(run_cell) -> None:
    cell = f"""{COUNTS}
if tries == 1:
    if os.fork() == 0:
        import time
        time.sleep(600)
    os._exit(1)
raise ValueError("heard")
"""

    handle = run_cell("-n 1 --retries 1", cell)

    assert (handle.run.attempt, handle.run.ranks[0].code) == (2, 1)
    assert handle.run.ranks[0].errored is not None


def test_a_stopped_run_is_not_tried_again(start_cell) -> None:
    handle = until_ready(start_cell("-n 2 --retries 5", SLEEP))

    assert handle.stop("enough") == "stopped"

    assert (handle.run.attempt, reason_text(handle.run.reason)) == (1, "enough")


def test_a_time_limit_is_the_runs_and_not_the_attempts(run_cell) -> None:
    cell = f"{COUNTS}if tries < 2: os._exit(1)\nimport time\ntime.sleep(600)"

    handle = run_cell("-n 1 --retries 100 --timeout 5s", cell)

    assert (handle.status, reason_text(handle.run.reason)) == ("failed", "the time limit of 5 s was reached")
    assert handle.run.attempt == 2
