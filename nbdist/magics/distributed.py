"""``%%distributed``: the cell as a run, shown until it ends."""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence

from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic import Magics, line_cell_magic, magics_class, no_var_expand

from nbdist import config, options, panel, runner
from nbdist.errors import RunFailed, UnknownRun, UsageMistake
from nbdist.magics.cell_check import as_in_editor, explained, name_origins, notebook_names
from nbdist.magics.presentation import (
    as_usage_errors,
    draws_widgets,
    interrupts,
    offering,
    place_of,
    shell_of,
    stopped,
    stopped_with_its_cell,
    tell,
    without_frames,
)
from nbdist.magics.showing import show_as_panel, show_as_text, show_in_background, show_last, show_outputs
from nbdist.magics.sweep_cell import run_sweep
from nbdist.model import Run, RunState
from nbdist.text import say


@magics_class
class DistributedMagics(Magics):
    """The cell magic."""

    _advised = False  # once for each kernel

    @no_var_expand
    @line_cell_magic
    def distributed(self, line: str, cell: str | None = None) -> runner.RunHandle | runner.SweepHandle | None:
        """Run the cell on several ranks: one process each, outside the kernel.

        ``%%distributed -n 2`` for two ranks on the CPU, ``%%distributed --gpus 0,1`` for one on each
        of these GPUs; ``%%distributed --help`` lists the options. The cell waits for the run, raises
        when it fails, and stops it when interrupted; with ``-d`` it returns a handle at once.

        ``%distributed -n 2 train.py --lr 0.1`` runs a script, as ``nbdist run`` does; so does a whole
        command line of another launcher behind ``%distributed``.

        ``%%distributed --sweep lr=0.1,0.01 -n 4 --each 1`` is a run for each value, which the cell has in
        ``nbdist.params.lr``.
        """
        if line.strip() in ("-h", "--help", "?"):
            print(options.help_text())
            return None
        shell = shell_of(self)
        line = _expanded(shell, line)
        with as_usage_errors(), offering(shell, line if cell is not None else None), interrupts() as taken:
            if cell is not None:
                cell = as_in_editor(shell, cell)
            chosen, plan = _planner(shell, line, cell)
            if chosen.sweep:
                return run_sweep(shell, chosen, runner.plan_sweep(chosen, plan), taken, typed=line)
            planned = plan(chosen)
            advice = "" if self._advised else runner.thread_advice(planned)
            handle = start_and_show(shell, chosen, planned, taken, typed=line, advice=advice)
            self._advised |= bool(advice)
        return handle if chosen.detach else None


# %%distributed? shows it
DistributedMagics.distributed.__doc__ = (
    f"{inspect.cleandoc(DistributedMagics.distributed.__doc__ or '')}\n\n{options.help_text()}"
)


def start_and_show(
    shell: InteractiveShell,
    chosen: options.Options,
    planned: runner.Plan,
    taken: runner.Interrupts,
    *,
    typed: str = "",
    advice: str = "",
) -> runner.RunHandle:
    """Start the run, and show it until it ends unless it is detached. Raises UsageMistake or LaunchError
    before the start, RunFailed or RunStopped after the end."""
    runner.check_pulled(chosen.pull, notebook_names(shell), planned if chosen.check else None)
    with started(shell, chosen, planned, taken, typed=typed, advice=advice) as handle:
        if chosen.detach:
            show_detached(shell, handle, chosen, planned)
        else:
            run, drawn = follow(shell, handle, chosen, planned)
            if run.state is not RunState.FINISHED:
                text = panel.run_report(run, handle.directory, config.language())
                if run.stopped_as_asked:
                    raise stopped(text)
                raise without_frames(RunFailed(text), brief=drawn)
            show_last(handle)
            _pull(shell, handle, chosen.pull)
    return handle


@contextlib.contextmanager
def started(
    shell: InteractiveShell | None,
    chosen: options.Options,
    planned: runner.Plan,
    taken: runner.Interrupts,
    *,
    typed: str = "",
    advice: str = "",
) -> Iterator[runner.RunHandle]:
    """Start the run, print its notes, and stop it if the block fails."""
    handle, notes = runner.launch(
        planned, taken, check=chosen.check, warm=chosen.warm, origin=name_origins(shell), typed=typed
    )
    other_home = say("runs.other-home", config.language(), command=f"%env {runner.TOKEN}={planned.token}")
    with stopped_with_its_cell(handle, taken):
        seen = chosen.panel and draws_widgets(shell)
        tell(
            "" if seen else planned.pushed,
            *notes,
            advice,
            other_home if planned.token else "",
            runner.pruner.removed(),
        )
        yield handle


def resume_and_show(
    shell: InteractiveShell, ended: runner.RunHandle, changes: Sequence[str]
) -> runner.RunHandle:
    """Continue a run, with its options and ``changes``. Raises as ``start_and_show``."""
    with interrupts() as taken:
        plan = runner.resume_plan(ended, changes, namespace=notebook_names(shell), **place_of(shell))
        return start_and_show(shell, *plan, taken)


def follow(
    shell: InteractiveShell | None, handle: runner.RunHandle, chosen: options.Options, planned: runner.Plan
) -> tuple[Run, bool]:
    """Show the run until it ends; return its last state, and whether a panel shows it. Raises RunFailed when
    its directory disappears."""
    drawn = chosen.panel and draws_widgets(shell)
    try:
        pause = runner.warm_ranks.beside(planned, warm=chosen.warm, directory=handle.directory)
        if drawn:
            run = show_as_panel(shell, handle, pause=pause)
        else:
            run = show_as_text(handle, plain=not chosen.panel, show_ranks=chosen.show_ranks, pause=pause)
    except UnknownRun as gone:
        raise without_frames(RunFailed(str(gone))) from None
    show_outputs(shell, handle, run)
    runner.warm_ranks.after(planned, warm=chosen.warm, directory=handle.directory)
    tell(runner.pruner.removed())
    return run, drawn


def _pull(shell: InteractiveShell, handle: runner.RunHandle, names: Sequence[str]) -> None:
    """Put these results of rank 0 into the notebook. Raises RunFailed, at the end, for missing ones."""
    problems = []
    for name in names:
        try:
            shell.push({name: handle.results[name]})
        except UsageMistake as missing:
            problems.append(f"--pull {name}: {missing}")
    if problems:
        raise without_frames(RunFailed("\n".join(problems)))


def show_detached(
    shell: InteractiveShell | None, handle: runner.RunHandle, chosen: options.Options, planned: runner.Plan
) -> None:
    runner.warm_ranks.after(planned, warm=chosen.warm, goes_on=True)
    if chosen.panel and draws_widgets(shell):
        show_in_background(shell, handle)
    else:
        tell(say("runs.detached", config.language(), label=handle.run.label))
    if config.may_be_culled():
        tell(say("runs.may-be-culled", config.language()))


_SWEPT = re.compile(r"--sweep[ =]['\"]?([A-Za-z_][\w,]*)=")


def _expanded(shell: InteractiveShell, line: str) -> str:
    """Return the line with names in braces expanded by IPython, but not those of a sweep."""
    swept = "|".join(_SWEPT.findall(line)).replace(",", "|")
    kept = re.sub(rf"(?<!{{){{({swept})}}(?!}})", r"{{\1}}", line) if swept else line
    # frames from here: the method, IPython's call of it, the cell
    expanded: str = shell.var_expand(kept, depth=3)
    return line if expanded == kept else expanded


def _planner(
    shell: InteractiveShell, line: str, cell: str | None
) -> tuple[options.Options, Callable[[options.Options], runner.Plan]]:
    """Return the options on the line, and a function that plans its program with options."""
    if cell is not None:
        return options.parse(line), functools.partial(_plan_cell, shell, cell)
    words = options.split_line(line)
    options.check_shell(line)
    own, program = options.split_program(words)
    if not program:
        raise UsageMistake(
            "the cell is empty: write  %%distributed -n 2  and the program of the ranks below it, or run a "
            "script:  %distributed -n 2 train.py"
        )
    plan = functools.partial(runner.plan_script, words=program, cwd=os.getcwd(), **place_of(shell))
    return options.parse_words(own), plan


def _plan_cell(shell: InteractiveShell, cell: str, chosen: options.Options) -> runner.Plan:
    with explained(cell):
        return runner.plan(
            chosen,
            cell=cell,
            cwd=os.getcwd(),
            python_path=sys.path,
            namespace=notebook_names(shell),
            **place_of(shell),
        )
