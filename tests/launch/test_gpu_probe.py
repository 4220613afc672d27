"""The probe as a process: it answers, is late, hangs, or dies, and the supervisor goes on."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator

import pytest

from nbdist import processes
from nbdist.devices.usage import GpuLoad, encode_loads
from nbdist.launch.meters import GpuProbe
from nbdist.worker.order import CHANNEL
from tests.programs import until

LOADS = [GpuLoad(index=1, utilisation=50, memory=100, memory_total=200, power=30.5, temperature=40.0)]
LINE = f"import socket\nline = socket.socket(fileno={CHANNEL}).makefile('rw')\n"
ANSWERS = f"{LINE}for _ in line: print({encode_loads(LOADS)!r}, file=line, flush=True)"
ANSWERS_NONSENSE = f"{LINE}for _ in line: print('[1, 2', file=line, flush=True)"
HANGS = (
    "import signal, time\nsignal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())\ntime.sleep(600)"
)
DIES = "raise SystemExit(1)"

Start = Callable[..., GpuProbe]


@pytest.fixture
def start() -> Iterator[Start]:
    probes: list[GpuProbe] = []

    def start(program: str, **more: object) -> GpuProbe:
        probes.append(GpuProbe([1], command=[sys.executable, "-S", "-c", program], **more))
        return probes[-1]

    yield start
    for probe in probes:
        probe.end()


def test_what_was_asked_is_answered_later(start: Start) -> None:
    probe = start(ANSWERS)
    assert probe.loads() == {}

    probe.ask()

    until(probe.loads)
    assert probe.loads() == {1: LOADS[0]}


def test_an_old_answer_does_not_count(start: Start) -> None:
    now = [0.0]
    probe = start(ANSWERS, clock=lambda: now[0])
    probe.ask()
    until(probe.loads)

    now[0] += 5.5
    assert probe.loads() == {}

    probe.ask()
    until(probe.loads)


@pytest.mark.parametrize("program", [HANGS, DIES, ANSWERS_NONSENSE], ids=["hangs", "died", "talks nonsense"])
def test_a_probe_in_trouble_holds_nobody_up(start: Start, program: str) -> None:
    probe = start(program)
    begun = time.monotonic()

    for _ in range(2000):
        probe.ask()
        assert probe.loads() == {}

    assert time.monotonic() - begun < 20


@pytest.mark.parametrize("program", [ANSWERS, HANGS, DIES], ids=["answers", "hangs", "died"])
def test_a_probe_is_gone_at_the_end(start: Start, program: str) -> None:
    probe = start(program)

    assert probe.end()

    assert not processes.alive(probe.process)


def test_a_probe_that_cannot_be_made_is_a_probe_that_died() -> None:
    probe = GpuProbe([0], command=["/nowhere/python"])

    probe.ask()
    assert probe.loads() == {}
    # the supervisor may have collected it with its ranks
    os.waitpid(probe.process.pid, 0)

    assert probe.end()


def test_a_probe_has_a_session_of_its_own(start: Start) -> None:
    probe = start(HANGS)

    until(lambda: os.getsid(probe.process.pid) == probe.process.pid)
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == set()


def test_the_probe_itself_answers_where_there_is_no_driver() -> None:
    probe = GpuProbe([0])
    probe.ask()

    # on a machine without a driver it says that there is nothing to say
    until(lambda: probe.loads() or not probe.waits)

    assert probe.end()
