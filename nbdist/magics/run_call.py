"""``nbdist.run``: a function, a script or the text of a cell on several ranks, by a call."""

from __future__ import annotations

import functools
import inspect
import os
import shlex
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, overload

from IPython.core.getipython import get_ipython
from IPython.core.interactiveshell import InteractiveShell

from nbdist import options, runner
from nbdist.errors import UsageMistake
from nbdist.magics.cell_check import explained, notebook_names
from nbdist.magics.distributed import follow, show_detached, started
from nbdist.magics.presentation import in_marimo, interrupts, place_of
from nbdist.magics.showing import show_as_text
from nbdist.magics.sweep_cell import run_sweep
from nbdist.worker.result_files import CALL

_CELL = f"""\
# {{name}}, a function of the notebook, with its arguments
import nbdist

nbdist.result(_={CALL}({{params}}))
"""


@overload
def run(
    program: Callable[..., object] | str | os.PathLike[str],
    *args: Any,
    sweep: Mapping[str, Sequence[object]] | Sequence[Mapping[str, object]],
    **keywords: Any,
) -> runner.SweepHandle: ...


@overload
def run(
    program: Callable[..., object] | str | os.PathLike[str], *args: Any, **keywords: Any
) -> runner.RunHandle: ...


def run(
    program: Callable[..., object] | str | os.PathLike[str], *args: Any, **keywords: Any
) -> runner.RunHandle | runner.SweepHandle:
    """Run a function, a script or the text of a cell on several ranks, and wait for its end, as
    ``%%distributed`` does; with ``detach=True`` it goes on by itself.

        run = nbdist.run(train, 0.1, nproc=2)                  # train(0.1) in each of two ranks
        run.result()                                           # what rank 0 returned
        nbdist.run("train.py", "--lr", 0.1, gpus=[0, 1], detach=True)

    With ``sweep={"lr": [0.1, 0.01]}`` there is a run for each combination of values, which a function gets as
    keywords, with ``sweep=[{"lr": 0.1, "width": 64}, …]`` for each of these points, and what is returned is
    the sweep:

        sweep = nbdist.run(train, sweep={"lr": [0.1, 0.01]}, nproc=4, each=1)
        sweep.best("loss").params                              # {'lr': 0.01}

    Keywords are the options of ``%%distributed`` (``nproc gpus name detach timeout retries env …``); others
    are the function's. A function brings what it uses of the notebook. The run that is returned may have
    failed: ``result()`` raises that then.

    Raises UsageMistake or LaunchError, with nothing started, and KeyboardInterrupt, when the run is stopped.
    """
    shell = get_ipython()
    own = {option.field for option in options.OPTIONS}
    settings = {name: value for name, value in keywords.items() if name in own}
    given = {name: value for name, value in keywords.items() if name not in own}
    chosen = options.parse_keywords(settings)
    if callable(program):
        _check_keywords(program, settings)
    if chosen.pull:
        raise UsageMistake("pull: leave it out, and read  run.results  of the run that nbdist.run returns")
    with interrupts() as taken:
        if chosen.sweep:
            plan = functools.partial(_plan, shell, program=program, args=args, given=given, swept=True)
            sweep = run_sweep(shell, chosen, runner.plan_sweep(chosen, plan), taken, raises=False)
            assert sweep is not None, "without raises it returns the sweep"
            return sweep
        return _start(shell, chosen, _plan(shell, chosen, program, args, given), taken)


def resume(run: str | runner.RunHandle | None = None, **options_of_run: Any) -> runner.RunHandle:
    """Go on from a run that has ended (the latest), as ``%dist_resume`` does, and wait for the end of the new
    one: with the program, inputs, checkpoints and options of that run, and keywords in the place of some.

        nbdist.resume("k2m1", gpus=[2, 3], detach=True)

    Raises UsageMistake, UnknownRun or LaunchError, with nothing started, and KeyboardInterrupt.
    """
    shell = get_ipython()
    changes = options.keyword_words(options_of_run)
    ended = run if isinstance(run, runner.RunHandle) else runner.attach(run)
    with interrupts() as taken:
        plan = runner.resume_plan(ended, changes, namespace=notebook_names(shell), **place_of(shell))
        return _start(shell, *plan, taken)


def _start(
    shell: InteractiveShell | None, chosen: options.Options, planned: runner.Plan, taken: runner.Interrupts
) -> runner.RunHandle:
    """Start the run, and show it until it ends unless it is detached."""
    with started(shell, chosen, planned, taken) as handle:
        if shell is None and not in_marimo():
            if not chosen.detach:  # in a program
                show_as_text(handle, plain=not chosen.panel, show_ranks=chosen.show_ranks)
        elif chosen.detach:
            show_detached(shell, handle, chosen, planned)
        else:
            follow(shell, handle, chosen, planned)
    return handle


def _plan(
    shell: InteractiveShell | None,
    chosen: options.Options,
    program: Callable[..., object] | str | os.PathLike[str],
    args: tuple[Any, ...],
    given: Mapping[str, Any],
    *,
    swept: bool = False,
) -> runner.Plan:
    here, names = {"cwd": os.getcwd(), **place_of(shell)}, notebook_names(shell)
    if not callable(program):
        if given:
            options.parse_keywords(given)  # names the option that was meant
        text = os.fspath(program)
        if "\n" not in text:
            return runner.plan_script(chosen, [text, *map(str, args)], **here)
        if args:
            raise UsageMistake(
                f"nbdist.run: the arguments of a cell go into  args={shlex.join(map(str, args))!r}"
            )
        with explained(text):
            return runner.plan(chosen, cell=text, python_path=sys.path, namespace=names, **here)
    name = _name_of(program)
    names = replace(names, also={CALL: functools.partial(program, *args, **given)})
    chosen = replace(chosen, name=chosen.name or options.slug(name))
    cell = _CELL.format(name=name, params="**nbdist.params" if swept else "")
    try:
        return runner.plan(chosen, cell=cell, python_path=sys.path, namespace=names, **here)
    except UsageMistake as mistake:
        # the user typed the call
        text = str(mistake).replace(f"--push: {CALL} (partial)", f"nbdist.run({name}, …)")
        raise UsageMistake(text) from None


def _name_of(function: Callable[..., object]) -> str:
    return str(getattr(function, "__name__", type(function).__name__))


def _check_keywords(function: Callable[..., object], keywords: Collection[str]) -> None:
    """Raise UsageMistake for a keyword of both an option and the function."""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return  # written in C
    for keyword in keywords:
        if keyword in parameters:
            name = _name_of(function)
            raise UsageMistake(
                f"{keyword}= is an option of nbdist.run, and {name} has a parameter of this name: give it "
                f"with  functools.partial({name}, {keyword}=…)"
            )
