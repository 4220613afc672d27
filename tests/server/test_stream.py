"""Frames that pages get about runs: real ones, and ones that the test writes."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from nbdist import options, runner
from nbdist.model import RunState
from nbdist.runner.sweeps import start_sweep
from nbdist.store import RunDirectory
from tests.fakes.directories import WrittenRun
from tests.fakes.runs import RUN_ID, STARTED, attempt_started, exited, run_ended
from tests.server.conftest import Page

OpenPage = Callable[[], Any]
TWO_RANKS = """
import os, sys, time, nbdist
rank = int(os.environ["RANK"])
for step in range(30):
    print(f"rank {rank} step {step}", file=sys.stderr if step % 2 else sys.stdout)
    print(f"{step}/30", end="\\r")
    nbdist.log(step=step, loss=1 / (step + 1))
    time.sleep(0.02)
sys.stdout.buffer.write(b"\\xff\\xfe not text\\n")
"""


async def test_a_run_of_two_ranks_is_followed_to_its_end(
    open_page: OpenPage, start_cell: Callable[..., Any]
) -> None:
    page: Page = await open_page()
    await page.say("runs")
    handle = start_cell("-n 2 --name two", TWO_RANKS)

    await page.say("watch", run_id=handle.run_id)
    await page.until(lambda: page.state == "finished" and page.complete and 29 in page.steps("loss"))

    for rank in (0, 1):
        assert [line for _, line in sorted(page.lines(rank).items())] == list(handle.log_lines(rank))
    assert page.updates[0].cell == TWO_RANKS
    await page.until(lambda: any(row["state"] == "finished" for row in page.rows))
    assert page.lists[0]["first"]


async def test_a_long_log_is_opened_at_its_end_and_pulled_from_anywhere(
    open_page: OpenPage, home: Path
) -> None:
    run = WrittenRun(home).happened(*STARTED)
    count, width = 300_000, len("line 000000 of many\n")
    run.printed(0, "".join(f"line {number:06} of many\n" for number in range(count)))
    page: Page = await open_page()

    await page.say("watch", run_id=RUN_ID)
    await page.until(lambda: page.lines(0))
    shown = page.lines(0)
    gaps = [(123_456, 123_956), (0, 2), (count + 5, count + 7)]
    await page.say("pull", run_id=RUN_ID, gaps=[[0, *(width * line for line in gap)] for gap in gaps])
    await page.until(lambda: page.pulled)

    assert shown[(count - 1) * width] == f"line {count - 1:06} of many"
    assert len(shown) <= 1000
    wanted = {number * width: f"line {number:06} of many" for number in (*range(123_456, 123_956), 0, 1)}
    assert {at: line for at, line in page.lines(0).items() if at not in shown} == wanted
    assert len(page.pulled[0].chunks) == 2


async def test_a_page_that_lacks_too_much_sees_the_end_first_and_pulls_the_last_lines_before_it(
    open_page: OpenPage, home: Path
) -> None:
    run = WrittenRun(home).happened(*STARTED)
    run.printed(0, "".join(f"{number:09}\n" for number in range(1_000_000)))
    page: Page = await open_page()

    await page.say("watch", run_id=RUN_ID, **{"from": {"0": 0}})
    await page.until(lambda: page.lines(0))
    shown = page.lines(0)
    await page.say("pull", run_id=RUN_ID, gaps=[[0, 0, 5_000_000]])
    await page.until(lambda: page.pulled)

    assert max(shown) == 9_999_990
    assert len(shown) < 1000
    (chunk,) = page.pulled[0].chunks
    assert chunk.end == 5_000_000
    assert 200_000 < len(chunk.text) < 300_000
    assert chunk.lines[-1] == "000499999"


async def test_a_page_that_comes_back_gets_what_it_lacks(open_page: OpenPage, home: Path) -> None:
    run = WrittenRun(home).happened(*STARTED)
    run.printed(0, "".join(f"{number:04}\n" for number in range(5000)))
    page: Page = await open_page()

    await page.say("watch", run_id=RUN_ID, **{"from": {"0": 600}})
    await page.until(lambda: 24_995 in page.lines(0))

    assert sorted(page.lines(0)) == list(range(600, 25_000, 5))


async def test_a_page_that_does_not_acknowledge_gets_two_updates_and_later_the_rest(
    open_page: OpenPage, home: Path
) -> None:
    run = WrittenRun(home).happened(*STARTED)
    slow: Page = await open_page()
    quick: Page = await open_page()
    slow.acknowledges = False
    for page in (slow, quick):
        await page.say("watch", run_id=RUN_ID)
    await quick.until(lambda: quick.updates)

    for number in range(6):
        run.printed(0, f"{number}\n")
        await quick.until(lambda number=number: 2 * number in quick.lines(0))
    await slow.until(lambda: len(slow.updates) == 2)
    kept_back = await slow.silence(0.4)
    before = len(slow.lines(0))
    slow.acknowledges = True
    await slow.say("ack", run_id=RUN_ID)
    await slow.until(lambda: 10 in slow.lines(0))

    assert kept_back
    assert before < 6
    # what it had missed came at once, not one after the other
    assert slow.lines(0) == quick.lines(0)
    assert len(slow.updates) <= 4


async def test_a_hidden_page_is_sent_nothing_and_nothing_is_read_for_it(
    open_page: OpenPage, home: Path, jp_serverapp: Any
) -> None:
    run = WrittenRun(home).happened(*STARTED)
    page: Page = await open_page()
    await page.say("watch", run_id=RUN_ID)
    await page.say("runs")
    await page.until(lambda: page.updates and page.lists)
    streams = jp_serverapp.web_app.settings["nbdist"]().streams
    tail = streams._followed[RUN_ID].tail

    await page.say("pause")
    assert await page.silence(0.3)
    run.printed(0, "while nobody looked\n")
    assert await page.silence(0.5)
    unread = run.directory.rank(0).log.stat().st_size - tail.ranks[0].next
    await page.say("resume")
    await page.until(lambda: page.lines(0))

    assert unread == len("while nobody looked\n")
    assert page.lines(0) == {0: "while nobody looked"}


async def test_many_pages_share_one_reader(open_page: OpenPage, home: Path, jp_serverapp: Any) -> None:
    run = WrittenRun(home).happened(*STARTED)
    run.printed(0, "before\n")
    pages: list[Page] = [await open_page() for _ in range(10)]
    for page in pages:
        await page.say("watch", run_id=RUN_ID)
        await page.until(lambda page=page: page.lines(0))
    streams = jp_serverapp.web_app.settings["nbdist"]().streams

    run.printed(0, "after\n")
    for page in pages:
        await page.until(lambda page=page: len(page.lines(0)) == 2)
    together = dict(streams.followed)
    for page in pages:
        page.socket.close()
    deadline = time.monotonic() + 10
    while streams.followed and time.monotonic() < deadline:
        await asyncio.sleep(0.02)

    assert together == {RUN_ID: 10}
    assert streams.followed == {}


async def test_the_log_of_an_earlier_attempt_is_pulled(open_page: OpenPage, home: Path) -> None:
    run = WrittenRun(home).happened(*STARTED)
    run.printed(0, "first try\nno newline")
    run.happened(exited(0, 1), exited(1, 1, ended=True), attempt_started(2))
    second = run.directory.rank(0, 2)
    second.path.mkdir(parents=True)
    second.log.write_text("second try\n")
    page: Page = await open_page()

    await page.say("watch", run_id=RUN_ID)
    await page.until(lambda: page.lines(0))
    begun = dict(page.lines(0))
    (begin,) = begun
    await page.say("pull", run_id=RUN_ID, gaps=[[0, 0, begin]])
    await page.until(lambda: page.pulled)

    assert begun[begin] == "second try"
    assert page.pulled[0].chunks[0].lines == ["first try", "no newline"]
    assert page.pulled[0].chunks[1].lines == ["—— attempt 2 ——"]


async def test_a_page_learns_that_a_run_was_deleted(
    open_page: OpenPage, ask: Callable[..., Any], home: Path
) -> None:
    run = WrittenRun(home).happened(*STARTED, exited(0), exited(1), run_ended(RunState.FINISHED))
    page: Page = await open_page()
    await page.say("runs")
    await page.say("watch", run_id=RUN_ID)
    await page.until(lambda: page.updates and page.lists)

    answer = await ask(f"api/runs/{RUN_ID}", "DELETE")
    await page.until(lambda: len(page.lists) > 1 and page.others)

    assert answer.code == 204
    assert not run.directory.path.exists()
    assert page.lists[-1]["removed"] == [RUN_ID]
    assert page.others[0]["kind"] == "gone"


@pytest.mark.parametrize(
    ("message", "word"),
    [
        ("{", "JSON"),
        ("[]", "object"),
        ('{"kind": "fly"}', "fly"),
        ('{"kind": "watch", "run_id": "../x"}', "run_id"),
        ('{"kind": "watch"}', "run_id"),
        (json.dumps({"kind": "watch", "run_id": RUN_ID, "from": {"x": 1}}), "from"),
        (json.dumps({"kind": "watch", "run_id": RUN_ID, "from": {"0": -1}}), "number"),
        (json.dumps({"kind": "pull", "run_id": RUN_ID, "gaps": [[0, 0, 1]]}), "not watched"),
        (json.dumps({"kind": "pull", "run_id": RUN_ID, "gaps": [[1e9, 0, 1]]}), "a gap is a rank"),
        ("[" * 20_000, "JSON"),
    ],
)
async def test_what_cannot_be_understood_is_answered_and_the_stream_goes_on(
    open_page: OpenPage, home: Path, message: str, word: str
) -> None:
    WrittenRun(home).happened(*STARTED)
    page: Page = await open_page()

    await page.socket.write_message(message)
    await page.until(lambda: page.others)
    await page.say("watch", run_id=RUN_ID)
    await page.until(lambda: page.updates)

    assert page.others[0]["kind"] == "problem"
    assert word in page.others[0]["message"]


async def test_a_run_that_is_not_there_is_gone(open_page: OpenPage) -> None:
    page: Page = await open_page()

    await page.say("watch", run_id=RUN_ID)
    await page.until(lambda: page.others)

    assert page.others[0] | {"problem": ""} == {
        "kind": "gone",
        "run_id": RUN_ID,
        "problem": "",
        "buffers": [],
    }


async def test_stop_works_while_nobody_else_can(
    ask: Callable[..., Any], open_page: OpenPage, start_cell: Callable[..., Any]
) -> None:
    # as when the kernel is dead, or busy: nothing but the run's own processes is there
    handle = start_cell("-n 2 -d", "import time\nprint('up', flush=True)\ntime.sleep(600)")
    page: Page = await open_page()
    await page.say("watch", run_id=handle.run_id)
    await page.until(lambda: page.lines(0) and page.lines(1))

    answer = await ask(f"api/runs/{handle.run_id}/stop", "POST", {"reason": "page"})
    await page.until(lambda: page.state == "stopped")

    assert answer.code == 202
    assert (handle.run.reason or handle.run.stop_reason).code == "stopped-from-page"
    again = await ask(f"api/runs/{handle.run_id}/stop", "POST")
    assert (again.code, json.loads(again.body)["state"]) == (200, "stopped")
    assert not list(handle.directory.control.iterdir())


async def test_a_sweep_is_stopped_with_all_its_runs(
    ask: Callable[..., Any], home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NBDIST_WARM", "off")
    cell = "import nbdist, time\nprint(nbdist.params.lr)\ntime.sleep(600)"
    plan = partial(runner.plan, cell=cell, cwd=str(tmp_path), python_path=sys.path)
    handle = start_sweep(runner.plan_sweep(options.parse("--sweep lr=1,2,3 -n 2 --each 1 -d"), plan))
    path = f"api/sweeps/{handle.sweep_id}/stop"

    answer = await ask(path, "POST", {"reason": "list"})
    state = await asyncio.get_running_loop().run_in_executor(None, handle.wait, 60)

    assert (answer.code, json.loads(answer.body)) == (202, {"sweep_id": handle.sweep_id, "live": True})
    assert state == "stopped"
    assert {run.run.reason.code for run in handle.runs} <= {"stopped-from-list", "sweep-ended"}
    again = await ask(path, "POST")
    assert (again.code, json.loads(again.body)["live"]) == (200, False)
    assert (await ask(path, "POST", {"reason": 5})).code == 400
    assert (await ask(path.replace("sweeps", "runs"), "POST")).code == 404


async def test_a_run_that_goes_on_is_not_deleted(ask: Callable[..., Any], home: Path) -> None:
    run = WrittenRun(home).happened(*STARTED)

    answer = await ask(f"api/runs/{RUN_ID}", "DELETE")

    assert answer.code == 409
    assert "stop it first" in json.loads(answer.body)["message"]
    assert RunDirectory(run.directory.path).spec.exists()


async def test_a_request_that_the_disk_refuses_says_so(ask: Callable[..., Any], home: Path) -> None:
    run = WrittenRun(home).happened(*STARTED)
    run.directory.control.rmdir()
    run.directory.control.write_text("a file in its place")

    answer = await ask(f"api/runs/{RUN_ID}/ranks/0/interrupt", "POST")

    assert answer.code == 507
    assert json.loads(answer.body)["message"] == "the rank cannot be interrupted: Not a directory"
