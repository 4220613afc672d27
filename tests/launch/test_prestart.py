"""Ranks that are started before their supervisor has imported what it is."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys

import pytest

from nbdist import options, processes, runner
from nbdist.launch import local
from nbdist.launch.prestart import _filled
from nbdist.model import RankStarted, decode_event

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the supervisor comes first")

WHO = """
import json, os
lines = open(os.environ["NBDIST_RUN_DIR"] + "/events.jsonl").read().splitlines()
events = [json.loads(line) for line in lines]
print(json.dumps([os.getpid(), os.getppid(), events]))
"""


def test_the_journal_names_everybody_before_a_program_begins(run_cell) -> None:
    handle = run_cell("-n 2", WHO)

    for rank in (0, 1):
        pid, parent, events = json.loads(handle.logs(rank))
        by_kind = {event["kind"]: event for event in events}
        assert by_kind["SupervisorStarted"]["pid"] == parent
        assert pid in [event["pid"] for event in events if event["kind"] == "RankStarted"]
    assert {"SupervisorStarted", "AttemptStarted", "RankStarted"} <= {event["kind"] for event in events}


def test_a_line_is_filled_with_who_it_is() -> None:
    template = local.line(RankStarted(time=0.0, rank=1, pid=0, start_time=0, boot_id=processes.boot_id()))

    event = decode_event(_filled(template, os.getpid()).rstrip("\n"))

    assert isinstance(event, RankStarted)
    assert event.time > 0
    assert event.process == processes.identify(os.getpid())


@pytest.mark.parametrize("ahead", [True, False], ids=["its ranks begin first", "it begins first"])
def test_an_interrupt_from_before_its_session_does_not_end_a_supervisor(
    run_cell, monkeypatch, ahead: bool
) -> None:
    def interrupted_at_once(*arguments, **options) -> subprocess.Popen:
        return popen(*arguments, **options, preexec_fn=lambda: os.kill(os.getpid(), signal.SIGINT))

    popen = subprocess.Popen
    if not ahead:
        monkeypatch.setattr(local, "hand_over", lambda *_: ())
    monkeypatch.setattr(local.subprocess, "Popen", interrupted_at_once)

    assert run_cell("-n 1", "pass").status == "finished"


def test_without_room_for_the_journals_begin_the_supervisor_begins_the_run(home, tmp_path) -> None:
    planned = runner.plan(options.parse("-n 2"), cell="print('here')", cwd=str(tmp_path), python_path=[""])
    directory = runner.store().create(planned.spec, planned.cell)
    directory.journal.touch()  # somebody has begun it
    with contextlib.ExitStack() as opened:
        ahead = local.hand_over(opened, directory, planned.spec, planned.environment)
        submitted = local.submit(
            directory, planned.environment, planned.spec.python, detached=False, ahead=ahead
        )

    handle = runner.RunHandle(directory)

    assert handle.wait(60) == "finished"
    assert [handle.logs(rank).strip() for rank in (0, 1)] == ["here", "here"]
    submitted.process.wait(20)
    submitted.lifeline.close()
