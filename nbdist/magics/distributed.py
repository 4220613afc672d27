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

from nbdist import config, options, panel, runner
from nbdist.errors import RunCancelled, RunFailed, UnknownRun, UsageMistake
from nbdist.magics.cell_check import check_cell, check_planned
from nbdist.magics.presentation import as_usage_errors, draws_widgets, without_frames
from nbdist.magics.showing import show_as_panel, show_as_text, show_in_background
from nbdist.model import RunState


@magics_class
class DistributedMagics(Magics):
    """The cell magic."""

    @line_cell_magic
    def distributed(self, line: str, cell: str | None = None) -> runner.RunHandle | None:
        """Run the cell on several ranks: one process each, outside the kernel.

        ``%%distributed -n 2`` for two ranks on the CPU, ``%%distributed --gpus 0,1`` for one on each
        of these GPUs; ``%%distributed --help`` lists the options. The cell waits for the run, raises
        when it fails, and stops it when interrupted; with ``-d`` it returns a handle at once.

        ``%distributed -n 2 train.py --lr 0.1`` runs a script, as ``nbdist run`` does; so does a whole
        command line of another launcher behind ``%distributed``.
        """
        if line.strip() in ("-h", "--help", "?"):
            print(options.help_text())
            return None
        with as_usage_errors():
            chosen, planned = _plan_script(line) if cell is None else _plan_cell(line, cell)
            warnings = check_planned(_shell(self), planned) if chosen.check else ()
            limits = runner.keeping()
            handle = runner.start(planned, warm=chosen.warm)
            # it looks at every file of every run, for which no rank has to wait
            pruned = runner.prune(runner.store(), limits)
        cold = f"cold start: {handle.started_cold}" if handle.started_cold else ""
        for note in (*warnings, *planned.notes, *filter(None, [cold, pruned, handle.placed])):
            print(f"[nbdist] {note}")
        shell = _shell(self)
        as_panel = chosen.panel and draws_widgets(shell)
        if chosen.detach:
            runner.warm_ranks.after(planned, warm=chosen.warm, goes_on=True)
            if as_panel:
                show_in_background(shell, handle)
            else:
                print(f"[nbdist] {handle.run.label} runs by itself; %dist_status shows it")
            return handle
        try:
            with _stops_on_interrupt(handle):
                if as_panel:
                    run = show_as_panel(shell, handle)
                else:
                    run = show_as_text(handle, plain=not chosen.panel, show_ranks=chosen.show_ranks)
        except UnknownRun as gone:
            raise without_frames(RunFailed(str(gone))) from None
        runner.collect_supervisors()
        runner.warm_ranks.after(planned, warm=chosen.warm, directory=handle.directory)
        if run.state is not RunState.SUCCEEDED:
            text = panel.run_report(run, handle.directory, config.language())
            cancelled = run.state is RunState.CANCELLED
            raise without_frames(RunCancelled(text) if cancelled else RunFailed(text))
        return None


def _plan_cell(line: str, cell: str) -> tuple[options.Options, runner.Plan]:
    chosen = options.parse(line)
    check_cell(cell)
    planned = runner.plan(
        chosen,
        cell=cell,
        cwd=os.getcwd(),
        python_path=sys.path,
        notebook=_notebook(),
    )
    return chosen, planned


def _plan_script(line: str) -> tuple[options.Options, runner.Plan]:
    own, program = options.split_program(options.split_line(line))
    if not program:
        raise UsageMistake(
            "the cell is empty: write  %%distributed -n 2  and the program of the ranks below it, or run a "
            "script:  %distributed -n 2 train.py"
        )
    chosen = options.parse_words(own)
    return chosen, runner.plan_script(chosen, program, cwd=os.getcwd())


def _shell(magics: Magics) -> InteractiveShell:
    assert magics.shell is not None, "magics that are called belong to a shell"
    return magics.shell


@contextlib.contextmanager
def _stops_on_interrupt(handle: runner.RunHandle) -> Iterator[None]:
    """Let an interrupt of the kernel stop the run instead of the code that watches it.

    A second one hastens the end. Off the main thread (a subshell) Python has no signals to catch:
    there the interrupt reaches the main thread, and the panel's Stop reaches the run.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(*_: object) -> None:
        # a run whose directory was deleted is stopped by its supervisor
        with contextlib.suppress(UnknownRun):
            runner.request_stop_of(handle, "the kernel was interrupted")

    previous = signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)


def _notebook() -> str:
    """The notebook's path where the front end tells it (JupyterLab, Notebook 7)."""
    return os.environ.get("JPY_SESSION_NAME", "")
