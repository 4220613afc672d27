"""``%%distributed``: the cell as a run, shown until it ends."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator

from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic import Magics, line_cell_magic, magics_class
from IPython.display import HTML, display

from nbdist import config, options, runner
from nbdist.diagnosis import failure_report, first_failure
from nbdist.errors import RunCancelled, RunFailed, UsageMistake
from nbdist.magics.cell_check import check_cell
from nbdist.magics.presentation import (
    as_usage_errors,
    draws_widgets,
    kernel_id,
    without_frames,
)
from nbdist.model import Run, RunState
from nbdist.panel import Surface, TextSurface, follow, summary_html, summary_text
from nbdist.store import RunDirectory


@magics_class
class DistributedMagics(Magics):
    """The cell magic."""

    @line_cell_magic
    def distributed(self, line: str, cell: str | None = None) -> runner.RunHandle | None:
        """Run the cell on several ranks: one process each, outside the kernel.

        ``%%distributed -n 2`` for two ranks on the CPU, ``%%distributed --gpus 0,1`` for one on each
        of these GPUs; ``%%distributed --help`` lists the options. The cell waits for the run, raises
        when it fails, and stops it when interrupted; with ``-d`` it returns a handle at once.
        """
        if line.strip() in ("-h", "--help", "?"):
            print(options.help_text())
            return None
        with as_usage_errors():
            if cell is None:
                raise UsageMistake(
                    "the cell is empty: write  %%distributed -n 2  and the program of the ranks below it"
                )
            chosen = options.parse(line)
            check_cell(cell)
            planned = runner.plan(
                chosen,
                cell=cell,
                cwd=os.getcwd(),
                python_path=sys.path,
                notebook=_notebook(),
            )
            handle = runner.start(planned)
        for note in planned.notes:
            print(f"[nbdist] {note}")
        if chosen.detach:
            print(f"[nbdist] {handle.run.label} runs by itself; %dist_status shows it")
            return handle
        self._watch(handle, planned_panel=chosen.panel)
        return None

    def _watch(self, handle: runner.RunHandle, *, planned_panel: bool) -> None:
        language = config.language()
        with _stops_on_interrupt(handle):
            if planned_panel and draws_widgets(_shell(self)):
                run = self._in_widget(handle, language)
            else:
                run = self._in_text(handle, language)
        runner.collect_supervisors()
        report = _report(run, handle.directory)
        if run.state is not RunState.SUCCEEDED:
            cancelled = run.state is RunState.CANCELLED
            raise without_frames(RunCancelled(report) if cancelled else RunFailed(report))

    def _in_text(self, handle: runner.RunHandle, language: str) -> Run:
        surface: Surface = TextSurface(_write)
        run = follow(handle.directory, surface)
        print(summary_text(run, handle.directory, language))
        return run

    def _in_widget(self, handle: runner.RunHandle, language: str) -> Run:
        # the widget stack takes a while to import and is not needed for text
        from nbdist.panel.widget import WidgetSurface

        surface = WidgetSurface(
            kernel_id=kernel_id(_shell(self)),
            foreground=True,
            stop=lambda: runner.request_stop_of(handle, "stopped from the panel"),
        )
        output = display(surface.bundle(handle.run, language), raw=True, display_id=True)
        try:
            run = follow(handle.directory, surface)
        finally:
            surface.close()
        summary = HTML(summary_html(run, handle.directory, language))
        output.update(summary)
        return run


def _shell(magics: Magics) -> InteractiveShell:
    assert magics.shell is not None, "magics that are called belong to a shell"
    return magics.shell


def _report(run: Run, directory: RunDirectory) -> str:
    failure = first_failure(run, directory)
    head = f"{run.label} {run.state.value}"
    if run.state is RunState.FAILED and failure is not None and "rank" in run.reason:
        return f"{run.label}: {failure_report(failure)}"
    if run.reason:
        head += f": {run.reason}"
    if run.state is RunState.LOST:
        head += f"; see {directory.supervisor_log}"
    return head


@contextlib.contextmanager
def _stops_on_interrupt(handle: runner.RunHandle) -> Iterator[None]:
    """Let an interrupt of the kernel stop the run instead of the code that watches it.

    A second one hastens the end. Off the main thread (a subshell) Python has no signals to catch:
    there the interrupt reaches the main thread, and the panel's Stop reaches the run.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = signal.signal(
        signal.SIGINT,
        lambda *_: runner.request_stop_of(handle, "the kernel was interrupted"),
    )
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def _notebook() -> str:
    """The notebook's path where the front end tells it (JupyterLab, Notebook 7)."""
    return os.environ.get("JPY_SESSION_NAME", "")
