"""Handles of runs: of one by its name, of all, and what one can do with each."""

from __future__ import annotations

import contextlib
import math
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol

from nbdist import config, processes
from nbdist.engines.engine import WATCHER
from nbdist.errors import LaunchError, RunCancelled, RunFailed, UnknownRun
from nbdist.feed.curves import read_curves
from nbdist.feed.waiting import Awaited, parse_moments
from nbdist.launch import local
from nbdist.model import Reason, Run, RunState
from nbdist.model.spec import Value
from nbdist.runner.results import Results, check_here, check_rank, read_history
from nbdist.store import LogLines, LogStream, RunDirectory, RunReader, RunStore
from nbdist.store.control import ask_to_end
from nbdist.store.run_store import SweepStore, is_run_locked, read_spec, read_sweep, unreadable
from nbdist.text import reason_text

if TYPE_CHECKING:
    import pandas

    from nbdist.board import Reach
    from nbdist.feed.explanation import Explanation, FirstFailure

_POLL = 0.05
_WATCHED = 3.0
_STARTING = 20.0


class RunHandle:
    """A run, live or ended, in this or any other process. Everything is read from its directory. ``notes``
    say how it was started where the user may have expected something else."""

    def __init__(self, directory: RunDirectory, *, notes: Iterable[str] = ()) -> None:
        self.directory = directory
        self.notes = tuple(filter(None, notes))
        self._reader = RunReader(directory)
        self._watched = 0.0

    @property
    def run_id(self) -> str:
        return self.directory.run_id

    @property
    def run(self) -> Run:
        """Return how the run stands now. Raises UnknownRun when its directory is gone, or cannot be read."""
        run = self._reader.look()
        if run is None:
            read_spec(self.directory)  # says why
            raise UnknownRun(f"the directory of run {self.run_id} is gone")
        self.keep_watched(run)
        return run

    def keep_watched(self, run: Run) -> None:
        """Start the watcher of a run on an engine again where it has gone. A caller that waits for the run
        calls this at each look: it looks for the watcher every few seconds."""
        if run.spec.engine and not run.state.terminal and time.monotonic() - self._watched > _WATCHED:
            self._watched = time.monotonic()
            watch_again(self.directory, run)

    @property
    def status(self) -> str:
        """ "pending", "starting", "running", "stopping", "succeeded", "failed", "cancelled", "lost"."""
        return self.run.state.value

    def wait(self, timeout: float | None = None, *, until: str | Iterable[str] = ()) -> str:
        """Wait until the run ends, or one of the moments ``until`` has come, at most ``timeout`` seconds;
        return the moment as ``until`` has it, else the status then.

            run.wait(600, until="failed,stalled,step=500")

        Moments are running, stalled, failed (a rank, in any attempt), succeeded, ended, and step=N: every
        rank that records steps, or prints them, has come so far. Raises UsageMistake for others.
        """
        moments = until if isinstance(until, str) else ",".join(until)
        awaited = Awaited(self.directory, parse_moments(moments, "until=") if moments else ())
        for _ in looks(timeout):
            if (came := awaited.came(run := self.run)) or run.state.terminal:
                break
        return came or run.state.value

    def explain(self) -> Explanation:
        """Return why the run stands as it does: what failed first, what holds it up, where its time goes.
        Printed, it is a few lines; ``to_dict()`` is for JSON. What ranks wrote is in ``failure.untrusted``.
        """
        # most runs are never asked
        from nbdist.feed.explanation import explain_run

        return explain_run(self.run, self.directory, config.language())

    @property
    def params(self) -> dict[str, Value]:
        """Return the values of a run of a sweep, as its program has them in ``nbdist.params``; empty for
        others."""
        point = self.run.spec.sweep
        return {} if point is None else point.params

    @property
    def failure(self) -> FirstFailure | None:
        """Return the failure that the others followed from: ``.rank``, ``.line``, ``.kind``, ``.message``,
        ``.cause``, ``.fix`` and more; None while no rank has failed."""
        return self.explain().failure

    def logs(self, rank: int = 0) -> str:
        """Return everything the rank has written so far; bytes that are no UTF-8 are replaced."""
        check_rank(self.run, rank)
        data = b"".join(iter(LogStream(self.directory.rank(rank, self.run.attempt).log).read, b""))
        return data.decode("utf-8", errors="replace")

    def log_lines(self, rank: int) -> Iterator[str]:
        """Yield the lines of a rank's log as a terminal would show them, from the start."""
        check_rank(self.run, rank)
        stream = LogStream(self.directory.rank(rank, self.run.attempt).log)
        lines = LogLines()
        while data := stream.read():
            yield from lines.feed(data)
        yield from lines.close()

    def metrics(self) -> dict[str, float]:
        """Return the last value of each metric that ranks recorded (``nbdist.log``) or printed: the mean over
        the ranks that have it."""
        return {curve.tag: curve.last for curve in read_curves(self.run, self.directory)}

    def history(self, *tags: str) -> pandas.DataFrame:
        """Return every point of the metrics that ranks recorded or printed in the last attempt (of ``tags``
        alone): a row for each, with the columns rank, step, tag, value and time (Unix seconds).

            run.history("loss").pivot(index="step", columns="rank", values="value").plot()

        Raises UsageMistake where pandas is not installed.
        """
        return read_history([(self.run, self.directory)], tags).drop(columns="run")

    @property
    def results(self) -> Results:
        """Return the values of ``nbdist.result``: ``run.results["acc"]`` is rank 0's, ``.of(1)["acc"]`` that
        of another rank, ``.gather("acc")`` a list by rank; after a retry those of the last attempt."""
        return Results(self.directory, self.run)

    def result(self, rank: int = 0, timeout: float | None = None) -> Any:
        """Wait for the end of the run, at most ``timeout`` seconds; return what the function of
        ``nbdist.run`` returned in this rank.

        Raises RunFailed with the first failure, RunCancelled for a run that was stopped, TimeoutError, and
        UnknownResult where the program is no function.
        """
        self.wait(timeout)
        run = self.run
        if not run.state.terminal:
            raise TimeoutError(f"run {run.label} goes on after {timeout:g} s: {run.state.value}")
        if run.state is not RunState.SUCCEEDED:
            from nbdist.diagnosis import failure_report, first_failure  # most runs end well

            failure = first_failure(run, self.directory) if run.state is RunState.FAILED else None
            why = reason_text(run.reason) if failure is None else failure_report(failure, config.language())
            kind = RunCancelled if run.stopped_as_asked else RunFailed
            raise kind(f"run {run.label} {run.state.value}: {why}")
        return self.results.of(rank).returned()

    def stop(self, reason: str = "", timeout: float = 15.0) -> str:
        """Ask the run to end (SIGINT, then SIGTERM, then SIGKILL) and wait for it; return the status then.
        ``reason`` is shown as why the run ended."""
        self.request_stop(Reason.said(reason) or Reason("stopped-from-python"))
        return self.wait(timeout)

    def request_stop(self, reason: Reason) -> None:
        """Ask for its end without waiting for it; once more to hasten it. Where the disk refuses the request,
        its supervisor gets a signal."""
        run = self.run
        # a caller that waits for the end sees that the run goes on
        if not run.state.terminal:
            with contextlib.suppress(OSError):
                ask_to_end(self.directory, run, reason)

    def check_log(self, rank: int) -> None:
        """Raises UsageMistake when the rank ran on another machine, where its log is."""
        check_here(self.run, rank, "its log is")

    def __repr__(self) -> str:
        try:
            status = self.status
        except UnknownRun:
            status = "cannot be read"
        return f"<nbdist run {self.run_id}: {status}>"


def looks(timeout: float | None, pause: float = _POLL) -> Iterator[None]:
    """Yield at once, and after each ``pause`` until ``timeout`` seconds are over."""
    deadline = math.inf if timeout is None else time.monotonic() + timeout
    yield
    while (left := deadline - time.monotonic()) > 0:
        time.sleep(min(left, pause))
        yield


def watch_again(directory: RunDirectory, run: Run) -> None:
    """Start a new watcher of a run on an engine whose watcher has gone: it may have ended long ago."""
    if run.supervisor is None and time.time() - run.spec.created < _STARTING:
        return  # the first one is on its way
    here = run.supervisor_host in ("", os.uname().nodename)
    if here and run.supervisor is not None and processes.alive(run.supervisor):
        return  # a file system without locks would not say so
    if (here or run.spec.detached) and directory.job.exists() and not is_run_locked(directory):
        with contextlib.suppress(LaunchError):
            local.submit(directory, os.environ, run.spec.python, detached=True, module=WATCHER)


def store() -> RunStore:
    """Return the runs of this user."""
    return RunStore(config.home())


def runs() -> list[RunHandle]:
    """Return every run of this user, the newest first."""
    return [_looked_after(directory) for directory in store().directories()]


def attach(run: str | None = None) -> RunHandle:
    """Return the run with this id, name or ending of an id; the latest where none is named. Raises
    UnknownRun."""
    if run is not None:
        try:
            return _looked_after(store().find(run))
        except UnknownRun:
            _refuse_sweep(run)
            raise
    latest = next(iter(store().directories()), None)
    if latest is None:
        raise UnknownRun("there are no runs yet: start one with  %%distributed -n 2")
    return _looked_after(latest)


def _refuse_sweep(name: str) -> None:
    """Raises UnknownRun, with what to type, where it is a sweep that has this name."""
    try:
        sweep = read_sweep(SweepStore(config.home()).named(name))
    except UnknownRun:
        return
    first = sweep.runs[0].split("-", 2)[2]
    raise UnknownRun(
        f"{sweep.label} is a sweep of {len(sweep.runs)} runs: name one of them, such as  {first}"
    )


def history(runs: str | RunHandle | Iterable[str | RunHandle], *tags: str) -> pandas.DataFrame:
    """Return ``run.history(*tags)`` of several runs in one table; the column run has the label of each.

        nbdist.history(["a3f9", "k2m1"], "loss").groupby(["step", "run"]).value.mean().unstack().plot()

    Raises UnknownRun, and UsageMistake where pandas is not installed.
    """
    chosen = [runs] if isinstance(runs, (str, RunHandle)) else runs
    handles = [run if isinstance(run, RunHandle) else attach(run) for run in chosen]
    return read_history([(handle.run, handle.directory) for handle in handles], tags)


def describe_refused() -> list[str]:
    """Return a line for each run of which nothing is read."""
    lost = filter(None, map(unreadable, store().refused()))
    return [f"run {run.label} is {reason_text(run.reason)}" for run in lost]


def _looked_after(directory: RunDirectory) -> RunHandle:
    """Return the handle of a run, with a watcher where it is on an engine."""
    handle = RunHandle(directory)
    if directory.job.exists():
        with contextlib.suppress(UnknownRun):
            handle.run  # noqa: B018 - looking is enough
    return handle


def reach_board(handles: Sequence[RunHandle]) -> Reach:
    """Return where a browser sees the curves of these runs; start the server where there is none. Raises
    LaunchError when it does not start."""
    # its HTTP client takes a while to import, and most runs never ask for curves
    from nbdist.board import ensure_board, reach

    return reach(ensure_board(config.home()), [handle.run_id for handle in handles])


class Stoppable(Protocol):
    """A run, or many, that an interrupt stops."""

    def request_stop(self, reason: Reason) -> None: ...


class Interrupts:
    """Takes the signals ``numbers`` for as long as it is entered; each stops the run, and a second one
    hastens its end. ``reason`` says why a run is stopped.

    With ``raises`` one that comes before ``begin`` is a KeyboardInterrupt at once, and any is one at the end
    where nothing else is raised; otherwise it is for the caller to ask for ``latest``. Off the main thread (a
    subshell) Python has no signals to catch: there the interrupt reaches the main thread, and the panel's
    Stop reaches the run.
    """

    def __init__(
        self,
        reason: Callable[[signal.Signals], Reason],
        numbers: Iterable[signal.Signals] = (signal.SIGINT,),
        *,
        raises: bool,
    ) -> None:
        self.latest: signal.Signals | None = None
        self._reason = reason
        self._numbers = tuple(numbers)
        self._raises = raises
        self._begun = False
        self._kept: list[signal.Signals] = []
        self._handle: Stoppable | None = None
        self._previous: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            for number in self._numbers:
                # nohup and the & of a shell's script ignore some on purpose
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._previous[number] = signal.signal(number, self._take)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, previous in self._previous.items():
            signal.signal(number, previous)
        if self._raises and self.came() and error is None:
            raise KeyboardInterrupt("the run is stopped, if it had not ended before")

    def came(self) -> bool:
        """Return whether there was one."""
        return self.latest is not None

    def begin(self) -> None:
        """From here on they are kept for the run that is about to start. Raises KeyboardInterrupt when one
        has come before: Python drops an exception in one of its own callbacks, as imports have them."""
        self._begun = True
        if self.came():
            raise KeyboardInterrupt("nothing was started")

    def stop(self, handle: Stoppable) -> None:
        """From here on they stop this run, or sweep; what came before is made up for."""
        self._handle = handle
        while self._kept:
            self._ask(self._kept.pop())

    def _take(self, number: int, _: object) -> None:
        self.latest = signal.Signals(number)
        if self._handle is not None:
            self._ask(self.latest)
        elif self._raises and not self._begun:
            raise KeyboardInterrupt("nothing was started")
        else:
            self._kept.append(self.latest)

    def _ask(self, number: signal.Signals) -> None:
        assert self._handle is not None, "there is a run to stop"
        # a run whose directory was deleted is stopped by its supervisor
        with contextlib.suppress(UnknownRun, OSError):
            self._handle.request_stop(self._reason(number))
