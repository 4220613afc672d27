"""``nbdist run`` and ``nbdist attach``: a run in the terminal, live, until it ends."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Collection, Sequence

from nbdist import config, runner
from nbdist.cli.exits import INTERRUPTED, OUTPUT_CLOSED, exit_code
from nbdist.cli.terminal import Output, note, report
from nbdist.errors import LaunchError, UnknownRun, UsageMistake
from nbdist.model import Run, RunState
from nbdist.options import LineParser, help_text, parse_words, split_program
from nbdist.panel import (
    Terminal,
    UsageWatch,
    follow,
    on_text_screen,
    only_ranks,
    run_report,
    summary_text,
)

RUN_USAGE = "nbdist run [options] train.py [arguments] or nbdist run [options] -m package.module [arguments]"
# what a terminal has no use for
_LEFT_OUT = ("args", "panel", "warm")

ATTACH_USAGE = "nbdist attach [RUN]"
ATTACH_HELP = """\
Show a run from its first line until it ends. Ctrl-C leaves it running.

Exit code: as for nbdist run; 130 after Ctrl-C."""


def run_help() -> str:
    return (
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
    show_ranks = options.show_ranks
    if options.args:
        raise UsageMistake("--args: arguments stand behind the script: write  nbdist run train.py --lr 0.1")
    stopper = _Stopper()
    stopper.listen()
    plan = runner.plan_script(options, program, cwd=os.getcwd())
    if (code := stopper.code()) is not None:
        return code
    warnings = runner.check_program(plan, language=config.language()) if options.check else ()
    limits = runner.keeping()
    handle = runner.start(plan)
    pruned = runner.prune(runner.store(), limits)
    for said in (*warnings, *plan.notes, *filter(None, [pruned, handle.placed])):
        note(str(said))
    if options.detach:
        print(handle.run_id)
        note(f"{handle.run.label} runs by itself; nbdist status shows it")
        return 0
    stopper.stops(handle)
    ended = _watch(handle, Output(stopper.output_closed), show_ranks)
    runner.collect_supervisors()
    if ended.state is RunState.CANCELLED and (code := stopper.code()) is not None:
        return code
    return exit_code(ended, handle.directory)


def attach(words: Sequence[str]) -> int:
    parser = LineParser(ATTACH_USAGE)
    parser.add_argument("run", nargs="?")
    handle = runner.attach(parser.parse_args(words).run)
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
    if ended.state is not RunState.SUCCEEDED:
        report(run_report(ended, handle.directory, language))
    return ended


class _Stopper:
    """Turns signals, and an output that nobody reads, into requests to stop the run.

    A second signal hastens the end.
    """

    def __init__(self) -> None:
        self._code: int | None = None
        self._handle: runner.RunHandle | None = None
        self._reason = ""

    def listen(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            # nohup and the & of a shell's script ignore some on purpose
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, lambda received, _: self._signalled(signal.Signals(received)))

    def code(self) -> int | None:
        """The exit code of what asked for the stop; None when nothing did."""
        return self._code

    def stops(self, handle: runner.RunHandle) -> None:
        """From here on there is a run to stop; what came before is made up for."""
        self._handle = handle
        if self._code is not None:
            self._ask()

    def output_closed(self, error: OSError) -> None:
        if self._code is not None:
            return  # Ctrl-C ends the reader, too: no reason to hasten the run
        self._code = OUTPUT_CLOSED if isinstance(error, BrokenPipeError) else 1
        self._reason = f"what it wrote could not be shown: {error.strerror}"
        self._ask()

    def _signalled(self, number: signal.Signals) -> None:
        self._code = 128 + number
        self._reason = "interrupted" if number is signal.SIGINT else f"nbdist run got {number.name}"
        self._ask()

    def _ask(self) -> None:
        if self._handle is not None:
            # a run whose directory was deleted is stopped by its supervisor
            with contextlib.suppress(UnknownRun):
                runner.request_stop_of(self._handle, self._reason)


def _raise(error: OSError) -> None:
    raise error
