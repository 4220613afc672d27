"""A run in the terminal, live, until it ends: ``nbdist run``, and what ``nbdist attach`` shows."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import sys
from collections.abc import Collection, Sequence

from nbdist import config, runner
from nbdist.cli.terminal import INTERRUPTED, OUTPUT_CLOSED, Output, exit_code, note, report
from nbdist.errors import LaunchError, UnknownRun, UsageMistake
from nbdist.model import Reason, Run, RunState
from nbdist.options import Options, help_text, parse_words, split_program
from nbdist.panel import (
    Terminal,
    UsageWatch,
    follow,
    on_text_screen,
    only_ranks,
    run_report,
    summary_text,
)

_USAGE = "nbdist run [options] train.py [arguments] or nbdist run [options] -m package.module [arguments]"
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_PRUNING = 0.5
"""Seconds for old runs, of a command that may end at once."""

# what a terminal has no use for
_LEFT_OUT = ("args", "panel", "warm")


def run_help() -> str:
    return (
        f"{_USAGE}\n\n"
        "Run a script on several ranks, one process each, and show what they write. What stands behind\n"
        "the script is the script's. Ctrl-C stops the run, and so does the end of this process.\n"
        "\n" + help_text("options:", without=_LEFT_OUT) + "\n"
        "\n"
        "Exit code: 0 when all ranks succeeded; that of the rank that failed first, or 128 + N when\n"
        "signal N ended it; 124 at the time limit; 130 when stopped; 2 when nothing was started; else 1."
    )


def own_words(words: Sequence[str]) -> list[str]:
    """The words of ``nbdist run`` that are not the program's."""
    return split_program(words)[0]


def run(words: Sequence[str]) -> int:
    own, program = split_program(words)
    options = parse_words(own)
    if options.args:
        raise UsageMistake("--args: arguments stand behind the script: write  nbdist run train.py --lr 0.1")
    with runner.Interrupts(_why, _SIGNALS, raises=False) as interrupts:
        try:
            return _run(options, own, program, interrupts)
        except KeyboardInterrupt:
            return _code(interrupts)


def _run(options: Options, own: Sequence[str], program: Sequence[str], interrupts: runner.Interrupts) -> int:
    plan = runner.plan_script(options, program, cwd=os.getcwd())
    handle, notes = runner.launch(plan, interrupts, check=options.check, pruning=_PRUNING)
    there = _command_there(plan.token, own, program) if plan.token else ""
    for said in filter(None, (*notes, runner.thread_advice(plan), there)):
        note(said)
    if options.detach:
        return _leave(handle, interrupts)
    code = _follow(handle, interrupts, options.show_ranks)
    _say_what_was_removed()
    return code


def _leave(handle: runner.RunHandle, interrupts: runner.Interrupts) -> int:
    """Let the run go on by itself."""
    print(handle.run_id, flush=True)
    _say_what_was_removed()
    if interrupts.came():
        note(f"{handle.run.label} is stopped")
        return _code(interrupts)
    note(f"{handle.run.label} runs by itself; nbdist status shows it")
    return 0


def _follow(
    handle: runner.RunHandle, interrupts: runner.Interrupts, show_ranks: Collection[int] | None
) -> int:
    """Show the run until it ends. An output whose reader has gone stops it, too."""
    closed: list[int] = []

    def output_closed(error: OSError) -> None:
        if interrupts.came():
            return  # Ctrl-C ends the reader, too: no reason to hasten the run
        closed.append(OUTPUT_CLOSED if isinstance(error, BrokenPipeError) else 1)
        # a run whose directory was deleted is stopped by its supervisor
        with contextlib.suppress(UnknownRun):
            runner.request_stop_of(handle, Reason("not-shown", error=error.strerror or str(error)))

    ended = _watch(handle, Output(output_closed), show_ranks)
    if ended.state is RunState.CANCELLED and (interrupts.came() or closed):
        return _code(interrupts) if interrupts.came() else closed[0]
    return exit_code(ended, handle.directory)


def _command_there(token: str, own: Sequence[str], program: Sequence[str]) -> str:
    # before the command, where other users of a machine do not see it
    command = shlex.join([*runner.words_of_node_1(own), *program])
    return f"on a machine with another home directory:  {runner.TOKEN}={token} nbdist run {command}"


def _say_what_was_removed() -> None:
    if (pruned := runner.pruner.removed(wait=2 * _PRUNING)) is not None:
        note(str(pruned))


def _why(number: signal.Signals) -> Reason:
    return Reason("interrupted") if number is signal.SIGINT else Reason("command-got", signal=number.name)


def _code(interrupts: runner.Interrupts) -> int:
    """The exit code of what has stopped the run."""
    return 128 + (interrupts.latest or signal.SIGINT)


def show_attached(handle: runner.RunHandle) -> int:
    """Show the run until it ends; the exit code."""
    label = handle.run.label
    try:
        ended = _watch(handle, Output(_raise))
    except KeyboardInterrupt:
        note(f"{label} goes on; nbdist attach {label} shows it again")
        return INTERRUPTED
    return exit_code(ended, handle.directory)


def _watch(handle: runner.RunHandle, output: Output, show_ranks: Collection[int] | None = None) -> Run:
    """Show the run until it ends, and then how it ended. ``show_ranks`` are the local ones to show."""
    watch, language = UsageWatch(), config.language()
    screen = on_text_screen(
        output.write, Terminal(sys.stdout), language=language, logs="nbdist logs", limit=sys.maxsize
    )
    try:
        with screen as surface:
            ended = follow(
                handle.directory,
                only_ranks(surface, handle.run.spec, show_ranks),
                watch=watch,
                whole=True,
            )
    except UnknownRun as gone:
        raise LaunchError(str(gone)) from None
    output.write(summary_text(ended, handle.directory, language, watch.report(language)) + "\n")
    # the line above says all of a stop that was asked for
    if ended.state is not RunState.SUCCEEDED and not ended.stopped_as_asked:
        report(run_report(ended, handle.directory, language))
    return ended


def _raise(error: OSError) -> None:
    raise error
