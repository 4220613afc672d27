"""Requests for the stacks of a rank: to its thread first, then to its handler."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from nbdist import processes
from nbdist.launch.stalls.across_machines import StallExchange
from nbdist.launch.stalls.stack_taker import RankContact, StackTaker, find
from nbdist.model import Run
from nbdist.store.paths import RankDirectory, RunDirectory
from nbdist.worker.order import COLLECTIVES
from tests.fakes.runs import a_spec
from tests.programs import until

RANK = """
import os, sys, time
os.dup2(int(sys.argv[1]), 3)
from nbdist.worker import stack_answers
stack_answers.listen(sys.argv[2])
print("ready", flush=True); time.sleep(600)
"""


class Rank:
    """A process to ask. It receives messages only if it ``hears``."""

    def __init__(self, path: Path, program: str = RANK) -> None:
        self.files = RankDirectory(path)
        path.mkdir()
        self._ours, theirs = socket.socketpair()
        command = [sys.executable, "-c", program, str(theirs.fileno()), str(path)]
        self._process = subprocess.Popen(command, pass_fds=[theirs.fileno()], stdout=subprocess.PIPE)
        theirs.close()
        assert self._process.stdout.readline() == b"ready\n"
        # the second line is its thread's
        until(lambda: self.files.stacks.read_bytes().count(b"\n") == 2)
        self.received: list[bytes] = []
        self.hears = False

    @property
    def contact(self) -> RankContact:
        process = processes.identify(self._process.pid)
        assert process is not None
        return RankContact(0, process, self.files, self._say)

    def _say(self, words: bytes) -> None:
        self.received.append(words)
        if self.hears:
            self._ours.sendall(words)

    @property
    def has_answered(self) -> bool:
        return b"most recent call first" in self.files.stacks.read_bytes()

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()
        self._ours.close()


@pytest.fixture
def rank(tmp_path: Path) -> Iterator[Rank]:
    rank = Rank(tmp_path / "rank-0")
    yield rank
    rank.close()


@pytest.fixture
def taker(tmp_path: Path) -> StackTaker:
    run = Run.of(a_spec())
    alone = StallExchange(run.spec, lambda _: None, lambda: run, shared=True)
    return StackTaker(RunDirectory(tmp_path), 1, alone)


RESTORES = """
import signal
for each in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
    if (before := signal.getsignal(each)) is not None:
        signal.signal(each, before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="what handlers there are is told by /proc")
def test_a_rank_whose_handlers_a_library_has_restored_can_be_asked_again(tmp_path: Path) -> None:
    ready = 'print("ready"'
    rank = Rank(tmp_path / "rank-0", RANK.replace(ready, f"{RESTORES}{ready}"))
    process = rank.contact.process

    try:
        until(lambda: not find(process, rank.files).problem)
    finally:
        rank.close()


def test_a_rank_answers_by_its_thread(rank: Rank, taker: StackTaker) -> None:
    rank.hears = True

    taker.take([rank.contact], 100.0)
    until(lambda: rank.has_answered)
    # what it knows of collectives may still come
    early = [taker.tick(100.1) for _ in range(9)]

    until(lambda: taker.tick(100.6))

    assert not any(early)
    assert 'File "<string>", line 6' in taker.last.ranks[0].text


def test_a_rank_whose_thread_does_not_answer_is_sent_the_signal_when_its_time_is_over(
    rank: Rank, taker: StackTaker
) -> None:
    taker.take([rank.contact], 100.0)
    taker.tick(100.2)
    before = rank.received, rank.has_answered

    taker.tick(100.6)

    assert before == ([COLLECTIVES], False)
    until(lambda: rank.has_answered)


def test_a_rank_that_is_about_to_be_ended_says_first_where_it_is(rank: Rank, taker: StackTaker) -> None:
    taker.take([rank.contact], 100.0, ending=True)
    before = list(rank.received)

    until(lambda: rank.has_answered)
    until(lambda: taker.tick(100.1) or bool(rank.received))

    assert before == []
    assert rank.received == [COLLECTIVES]
