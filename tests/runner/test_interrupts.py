"""An interrupt before a run begins, while it starts, and while it goes on."""

from __future__ import annotations

import contextlib
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from nbdist.model import Reason
from nbdist.runner import Interrupts, RunHandle
from nbdist.store.control import StopRequest, take_requests
from tests.fakes.directories import WrittenRun
from tests.fakes.runs import a_spec

WHY = Reason("kernel-interrupted")


def interrupts(*, raises: bool = True) -> Interrupts:
    return Interrupts(lambda _: WHY, raises=raises)


def interrupt() -> None:
    signal.raise_signal(signal.SIGINT)


@pytest.fixture
def handle(tmp_path: Path) -> RunHandle:
    return RunHandle(WrittenRun(tmp_path / "home", a_spec(created=time.time())).directory)


def asked_of(handle: RunHandle) -> list[StopRequest]:
    return take_requests(handle.directory)


def test_before_anything_begins_it_is_raised_at_once() -> None:
    with pytest.raises(KeyboardInterrupt, match="nothing was started"), interrupts():
        interrupt()


def test_one_that_python_has_dropped_is_raised_before_anything_is_started() -> None:
    with interrupts() as taken:
        with contextlib.suppress(KeyboardInterrupt):
            interrupt()

        with pytest.raises(KeyboardInterrupt, match="nothing was started"):
            taken.begin()
        taken.latest = None


def test_while_a_run_starts_each_is_kept_and_made_up_for(handle: RunHandle) -> None:
    with interrupts(raises=False) as taken:
        taken.begin()
        interrupt()
        interrupt()
        assert asked_of(handle) == []

        taken.stop(handle)

        assert asked_of(handle) == [StopRequest(reason=WHY)] * 2


def test_while_a_run_goes_on_each_stops_it(handle: RunHandle) -> None:
    with interrupts(raises=False) as taken:
        taken.begin()
        taken.stop(handle)

        interrupt()

        assert asked_of(handle) == [StopRequest(reason=WHY)]
        assert taken.latest is signal.SIGINT


@pytest.mark.parametrize("error", [None, ValueError("the end")], ids=["nothing else", "an error"])
def test_at_the_end_it_is_raised_where_nothing_else_is(handle: RunHandle, error: Exception | None) -> None:
    def run() -> None:
        with interrupts() as taken:
            taken.begin()
            taken.stop(handle)
            interrupt()
            if error is not None:
                raise error

    with pytest.raises(KeyboardInterrupt if error is None else ValueError):
        run()


def test_afterwards_signals_go_where_they_went_before() -> None:
    before = signal.getsignal(signal.SIGINT)

    with interrupts():
        assert signal.getsignal(signal.SIGINT) is not before

    assert signal.getsignal(signal.SIGINT) is before


def test_one_that_is_ignored_on_purpose_stays_ignored() -> None:
    previous = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Interrupts(lambda _: WHY, (signal.SIGHUP,), raises=True) as taken:
            signal.raise_signal(signal.SIGHUP)

        assert not taken.came()
    finally:
        signal.signal(signal.SIGHUP, previous)


def test_off_the_main_thread_nothing_is_taken() -> None:
    before = signal.getsignal(signal.SIGINT)

    def elsewhere() -> signal.Handlers:
        with interrupts():
            return signal.getsignal(signal.SIGINT)

    with ThreadPoolExecutor() as threads:
        assert threads.submit(elsewhere).result() is before
