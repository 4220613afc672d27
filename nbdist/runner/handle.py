"""Handles of runs, and the functions that find them."""

from __future__ import annotations

import contextlib
import math
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from nbdist import config, processes
from nbdist.engines.engine import WATCHER
from nbdist.errors import LaunchError, RunFailed, RunStopped, UnknownRun, UsageMistake
from nbdist.feed.curves import read_curves
from nbdist.feed.waiting import Awaited, parse_moments
from nbdist.launch import local
from nbdist.model import Reason, Run, RunState
from nbdist.model.spec import Value
from nbdist.runner.run_results import Results, check_here, check_rank, read_history
from nbdist.store import LogLines, LogStream, RunDirectory, RunReader, RunStore
from nbdist.store.control import ask_to_end
from nbdist.store.run_store import SweepStore, is_run_locked, read_spec, read_sweep, unreadable
from nbdist.text import reason_text

if TYPE_CHECKING:
    import pandas

    from nbdist.board import Reach
    from nbdist.diagnosis.training import Training
    from nbdist.feed.explanation import Explanation, FirstFailure

_POLL = 0.05
_WATCHED = 3.0
_STARTING = 20.0


class RunHandle:
    """A run, live or ended, in this or any other process, read from its directory. ``notes`` say how it was
    started where the user may have expected something else."""

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
        """Return the run's state now. Raises UnknownRun when its directory is gone or unreadable."""
        run = self._reader.look()
        if run is None:
            read_spec(self.directory)  # says why
            raise UnknownRun(f"the directory of run {self.run_id} is gone")
        self.keep_watched(run)
        return run

    def keep_watched(self, run: Run) -> None:
        """Start the watcher of a run on an engine again where it has gone; look for it every few seconds at
        most, however often a caller that waits calls this."""
        directory, now = self.directory, time.monotonic()
        if not run.spec.engine or run.state.terminal or now - self._watched <= _WATCHED:
            return
        self._watched = now
        if run.supervisor is None and time.time() - run.spec.created < _STARTING:
            return  # the first one is on its way
        here = run.supervisor_host in ("", os.uname().nodename)
        if here and run.supervisor is not None and processes.alive(run.supervisor):
            return  # on a file system without locks the check below does not see it
        if (here or run.spec.detached) and directory.job.exists() and not is_run_locked(directory):
            with contextlib.suppress(LaunchError):
                local.submit(directory, os.environ, run.spec.python, detached=True, module=WATCHER)

    @property
    def status(self) -> str:
        """ "pending", "starting", "running", "stopping", "finished", "failed", "stopped", "lost"."""
        return self.run.state.value

    def wait(self, timeout: float | None = None, *, until: str | Iterable[str] = ()) -> str:
        """Wait until the run ends or reaches one of the moments ``until``, at most ``timeout`` seconds;
        return the moment as ``until`` has it, else the status then.

            run.wait(600, until="failed,stalled,step=500")

        Moments are running, stalled, failed (a rank, in any attempt), finished, ended, and step=N (reached
        by every rank that records or prints steps). Raises UsageMistake for others.
        """
        moments = until if isinstance(until, str) else ",".join(until)
        awaited = Awaited(self.directory, parse_moments(moments, "until=") if moments else ())
        for _ in looks(timeout):
            if (came := awaited.came(run := self.run)) or run.state.terminal:
                break
        return came or run.state.value

    def explain(self) -> Explanation:
        """Return what failed first, what holds the run up, and where its time goes. Printed, it is a few
        lines; ``to_dict()`` is for JSON. What ranks wrote is in ``failure.untrusted``."""
        from nbdist.feed.explanation import explain_run  # few runs are explained

        return explain_run(self.run, self.directory, config.language())

    def time(self) -> Training | None:
        """Return the facts of the run's training, and how the time of its steps divides (``parts``, by rank):
        lately, or of all steps once it has ended. None for a run that has trained less than three steps."""
        from nbdist.feed.training_view import read_training

        return read_training(self.run, self.directory)

    @property
    def params(self) -> dict[str, Value]:
        """Return the ``nbdist.params`` of a sweep's run; empty for others."""
        point = self.run.spec.sweep
        return {} if point is None else point.params

    @property
    def failure(self) -> FirstFailure | None:
        """Return the failure that caused the others (``.rank``, ``.line``, ``.cause``, ``.fix`` …), or
        None."""
        return self.explain().failure

    def logs(self, rank: int = 0) -> str:
        """Return the rank's output so far; bytes that are no UTF-8 are replaced."""
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
        """Return the last value of each recorded or printed metric: its mean over the ranks that have it."""
        return {curve.tag: curve.last for curve in read_curves(self.run, self.directory)}

    def history(self, *tags: str) -> pandas.DataFrame:
        """Return the points of the metrics (of ``tags``) that ranks recorded or printed in the last attempt,
        one in a row: rank, step, tag, value and time (Unix seconds). Raises UsageMistake without pandas.

            run.history("loss").pivot(index="step", columns="rank", values="value").plot()
        """
        return read_history([(self.run, self.directory)], tags).drop(columns="run")

    @property
    def results(self) -> Results:
        """Return the values of ``nbdist.result`` in the last attempt: ``run.results["acc"]`` of rank 0,
        ``.of(1)["acc"]`` of another rank, ``.gather("acc")`` of all ranks."""
        return Results(self.directory, self.run)

    def result(self, rank: int = 0, timeout: float | None = None) -> Any:
        """Wait for the run's end, at most ``timeout`` seconds; return what the function of ``nbdist.run``
        returned in this rank. Raises RunFailed with the first failure, RunStopped for a run that was
        stopped, TimeoutError, and UnknownResult where the program is no function."""
        self.wait(timeout)
        run = self.run
        if not run.state.terminal:
            raise TimeoutError(f"run {run.label} is still {run.state.value} after {timeout:g} s")
        if run.state is not RunState.FINISHED:
            from nbdist.diagnosis import failure_report, first_failure  # most runs end well

            failure = first_failure(run, self.directory) if run.state is RunState.FAILED else None
            why = reason_text(run.reason) if failure is None else failure_report(failure, config.language())
            kind = RunStopped if run.stopped_as_asked else RunFailed
            raise kind(f"run {run.label} {run.state.value}: {why}")
        return self.results.of(rank).returned()

    def stop(self, reason: str = "", timeout: float = 15.0) -> str:
        """End the run (SIGINT, SIGTERM, SIGKILL) for the ``reason`` that is shown; return its status then."""
        self.request_stop(Reason.said(reason) or Reason("stopped-from-python"))
        return self.wait(timeout)

    def request_stop(self, reason: Reason) -> None:
        """Request its end without waiting; a second request hastens it. On a full disk, send a signal."""
        run = self.run
        # a caller that waits for the end sees that the run goes on
        if not run.state.terminal:
            with contextlib.suppress(OSError):
                ask_to_end(self.directory, run, reason)

    def pass_on(self, number: signal.Signals) -> None:
        """Send a signal to the ranks of this machine that handle it."""
        run = self.run
        if run.supervisor is not None and run.supervisor_host == os.uname().nodename:
            processes.send(run.supervisor, number)

    def check_log(self, rank: int) -> None:
        """Raise UsageMistake when the rank's log is on another machine."""
        check_here(self.run, rank, "its log is")

    def __repr__(self) -> str:
        try:
            status = self.status
        except UnknownRun:
            status = "cannot be read"
        return f"<nbdist run {self.run_id}: {status}>"


def looks(timeout: float | None, pause: float = _POLL) -> Iterator[None]:
    """Yield at once, then after each ``pause`` for ``timeout`` seconds."""
    deadline = math.inf if timeout is None else time.monotonic() + timeout
    yield
    while (left := deadline - time.monotonic()) > 0:
        time.sleep(min(left, pause))
        yield


def read_cell(handle: RunHandle) -> str:
    """Return the text of a run's cell. Raises UsageMistake."""
    try:
        return handle.directory.cell.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageMistake(f"the cell of {handle.run.label} cannot be read: {error}") from None


def store() -> RunStore:
    """Return the runs of this user."""
    return RunStore(config.home())


def runs() -> list[RunHandle]:
    """Return every run of this user, the newest first."""
    return [_looked_after(directory) for directory in store().directories()]


def attach(run: str | None = None) -> RunHandle:
    """Return the run with this id, name or ending of an id, else the latest. Raises UnknownRun."""
    if run is not None:
        try:
            return _looked_after(store().find(run))
        except UnknownRun:
            _refuse_sweep(run)
            raise
    # a run gets its spec last, so one without is still being made
    latest = next((run for run in store().directories() if run.spec.exists()), None)
    if latest is None:
        raise UnknownRun("there are no runs yet: start one with  %%distributed -n 2")
    return _looked_after(latest)


def _refuse_sweep(name: str) -> None:
    """Raise UnknownRun, with what to type, where a sweep has this name."""
    try:
        sweep = read_sweep(SweepStore(config.home()).named(name))
    except UnknownRun:
        return
    first = sweep.runs[0].split("-", 2)[2]
    raise UnknownRun(
        f"{sweep.label} is a sweep of {len(sweep.runs)} runs: name one of them, such as  {first}"
    )


def history(runs: str | RunHandle | Iterable[str | RunHandle], *tags: str) -> pandas.DataFrame:
    """Return ``run.history(*tags)`` of several runs in one table, with the labels of the runs in the column
    run. Raises UnknownRun, and UsageMistake without pandas.

        nbdist.history(["a3f9", "k2m1"], "loss").groupby(["step", "run"]).value.mean().unstack().plot()
    """
    chosen = [runs] if isinstance(runs, (str, RunHandle)) else runs
    handles = [run if isinstance(run, RunHandle) else attach(run) for run in chosen]
    return read_history([(handle.run, handle.directory) for handle in handles], tags)


def describe_refused() -> list[str]:
    """Return a line for each run that nbdist refuses to read."""
    lost = filter(None, map(unreadable, store().refused()))
    return [f"run {run.label} is {reason_text(run.reason)}" for run in lost]


def _looked_after(directory: RunDirectory) -> RunHandle:
    """Return the handle of a run; make sure that a run on an engine has a watcher."""
    handle = RunHandle(directory)
    if directory.job.exists():
        with contextlib.suppress(UnknownRun):
            handle.run  # noqa: B018 - looking is enough
    return handle


def reach_board(handles: Sequence[RunHandle]) -> Reach:
    """Return the place of the curves of these runs, after starting a server if needed. Raises LaunchError."""
    from nbdist.board import ensure_board, reach  # its HTTP client is slow to import

    return reach(ensure_board(config.home()), [handle.run_id for handle in handles])


class Stoppable(Protocol):
    """A run or a sweep."""

    def request_stop(self, reason: Reason) -> None: ...

    def pass_on(self, number: signal.Signals) -> None: ...


class Interrupts:
    """A context that catches the signals ``numbers``: each stops the run for its ``reason``, and a second one
    hastens the end; those ``for_ranks`` are passed on to the ranks.

    With ``raises`` a signal before ``begin`` raises KeyboardInterrupt at once, and any signal raises it at
    the end, unless something else is raised; otherwise the caller reads ``latest``. Off the main thread (a
    subshell) Python catches no signal: the interrupt reaches the main thread, and the panel's Stop the run.
    """

    def __init__(
        self,
        reason: Callable[[signal.Signals], Reason],
        numbers: Iterable[signal.Signals] = (signal.SIGINT,),
        *,
        raises: bool,
        for_ranks: Iterable[signal.Signals] = (),
    ) -> None:
        self.latest: signal.Signals | None = None
        self._reason = reason
        self._for_ranks = tuple(for_ranks)
        self._numbers = (*numbers, *self._for_ranks)
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

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        for number, previous in self._previous.items():
            signal.signal(number, previous)
        if self._raises and self.came() and error is None:
            raise KeyboardInterrupt("the run is stopped, if it had not ended before")

    def came(self) -> bool:
        """Return whether a signal came."""
        return self.latest is not None

    def begin(self) -> None:
        """Keep signals from here on for the run that is about to start. Raises KeyboardInterrupt when one
        came before: Python drops an exception in one of its own callbacks, as imports have them."""
        self._begun = True
        if self.came():
            raise KeyboardInterrupt("nothing was started")

    def stop(self, handle: Stoppable) -> None:
        """Let signals stop this run or sweep from here on, those that were kept as well."""
        self._handle = handle
        while self._kept:
            self._stop(handle, self._kept.pop())

    def _take(self, number: int, _: object) -> None:
        if number in self._for_ranks:
            if self._handle is not None:
                with contextlib.suppress(UnknownRun):
                    self._handle.pass_on(signal.Signals(number))
            return
        self.latest = signal.Signals(number)
        if self._handle is not None:
            self._stop(self._handle, self.latest)
        elif self._raises and not self._begun:
            raise KeyboardInterrupt("nothing was started")
        else:
            self._kept.append(self.latest)

    def _stop(self, handle: Stoppable, number: signal.Signals) -> None:
        # the supervisor stops a run whose directory was deleted
        with contextlib.suppress(UnknownRun, OSError):
            handle.request_stop(self._reason(number))
