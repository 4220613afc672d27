"""Requests to a supervisor are taken once, in order, and only from its own user."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from nbdist import processes
from nbdist.model import Reason
from nbdist.store import RunDirectory
from nbdist.store.control import (
    RanksRequest,
    StacksRequest,
    StopRequest,
    ask_to_end,
    request_interrupt,
    request_stacks,
    request_stop,
    take_requests,
)
from tests.fakes.directories import WrittenRun
from tests.fakes.runs import supervisor_started


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return WrittenRun(tmp_path / "home").directory


def text_of_request(reason: str) -> str:
    return json.dumps({"kind": "stop", "reason": reason})


def test_a_request_is_taken_once(run: RunDirectory) -> None:
    request_stop(run, Reason.said("stopped by ada: 够了"))

    assert take_requests(run) == [StopRequest(reason=Reason.said("stopped by ada: 够了"))]
    assert take_requests(run) == []
    assert list(run.control.iterdir()) == []


def test_a_run_without_a_directory_takes_and_has_no_requests(tmp_path: Path) -> None:
    gone = RunDirectory(tmp_path / "gone")

    with pytest.raises(OSError, match="No such file"):
        request_stop(gone, Reason.said("stop"))
    assert take_requests(gone) == []


def test_a_request_that_is_still_being_written_waits(run: RunDirectory) -> None:
    draft = run.control / ".stop-1.json.77"
    draft.write_text(text_of_request("half")[:10])

    assert take_requests(run) == []
    assert draft.exists()


@pytest.mark.parametrize("make", [Path.symlink_to, lambda path, _: os.mkfifo(path)], ids=["link", "pipe"])
def test_what_is_no_plain_file_is_removed_and_neither_followed_nor_waited_for(
    run: RunDirectory, tmp_path: Path, make: Callable[[Path, Path], None]
) -> None:
    target = tmp_path / "elsewhere.json"
    target.write_text(text_of_request("through a link"))
    make(run.control / "stop-1.json", target)

    assert take_requests(run) == []
    assert list(run.control.iterdir()) == []
    assert target.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to somebody else")
def test_what_another_user_left_is_removed_and_not_heard(run: RunDirectory) -> None:
    path = run.control / "stop-1.json"
    path.write_text(text_of_request("from a stranger"))
    os.chown(path, 12_345, -1)

    assert take_requests(run) == []
    assert list(run.control.iterdir()) == []


def test_a_directory_among_the_requests_hinders_none(run: RunDirectory) -> None:
    (run.control / "aaa").mkdir()
    request_stop(run, Reason.said("stop"))

    assert take_requests(run) == [StopRequest(reason=Reason.said("stop"))]


def test_requests_of_all_kinds_come_in_the_order_they_were_made(run: RunDirectory) -> None:
    request_stop(run, Reason.said("first"))
    name = request_stacks(run)
    for rank in range(20):
        request_interrupt(run, rank)
    request_stop(run, Reason.said("last"))

    assert take_requests(run) == [
        StopRequest(reason=Reason.said("first")),
        StacksRequest(name=name),
        *(RanksRequest(ranks=(rank,), interrupt=True) for rank in range(20)),
        StopRequest(reason=Reason.said("last")),
    ]


@pytest.mark.parametrize("here", [True, False], ids=["here", "on another machine"])
def test_where_the_disk_takes_no_request_a_supervisor_of_this_machine_is_asked_by_a_signal(
    tmp_path: Path, here: bool
) -> None:
    supervisor = subprocess.Popen(["sleep", "60"])
    host = os.uname().nodename if here else "another-machine"
    written = WrittenRun(tmp_path / "home").happened(
        supervisor_started(processes.identify(supervisor.pid), host=host)
    )
    written.directory.control.rmdir()

    try:
        if here:
            ask_to_end(written.directory, written.run, Reason.said("enough"))
            assert supervisor.wait(10) == -signal.SIGTERM
        else:
            with pytest.raises(OSError, match="No such file"):
                ask_to_end(written.directory, written.run, Reason.said("enough"))
            assert supervisor.poll() is None
    finally:
        supervisor.kill()
        supervisor.wait()
