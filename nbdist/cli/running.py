"""``nbdist run``: the start of a program, and its run in a terminal."""

from __future__ import annotations

import contextlib
import functools
import os
import shlex
import signal
import sys
import time
from collections.abc import Callable, Collection, Sequence

from nbdist import config, runner
from nbdist.diagnosis import first_failure
from nbdist.errors import LaunchError, UnknownRun, UsageMistake
from nbdist.feed.ansi import harmless
from nbdist.feed.explanation import encode, explain_run
from nbdist.launch.binding import FOR_THE_RANKS
from nbdist.model import Reason, Run, RunState
from nbdist.options import Options, help_text, parse_words, split_program
from nbdist.panel import (
    SweepLines,
    Terminal,
    UsageWatch,
    follow,
    follow_sweep,
    on_text_screen,
    run_report,
    summary_text,
    sweep_text,
)
from nbdist.panel.debug_prompt import DebugPrompt
from nbdist.store import RunDirectory
from nbdist.text import say
from nbdist.verbs.runs import Again
from nbdist.verbs.verb import TERMINAL, Frontend

USAGE = 2
TIME_LIMIT = 124  # as of timeout(1)
INTERRUPTED = 128 + signal.SIGINT
OUTPUT_CLOSED = 128 + signal.SIGPIPE

# words of a notebook, and the same in a shell
_IN_A_SHELL = (
    ("%%distributed -n 2", "nbdist run -n 2 train.py"),
    ("%%distributed ", "nbdist run "),
    ("%dist_", "nbdist "),
    ("%env ", "export "),
    ("%pip ", "pip "),
    ("  and restart the kernel", ""),
    (", of another notebook", ", of a notebook"),
    (", kept when the kernel ends", ""),
    ("  !", "  "),
)


def in_a_shell(message: str) -> str:
    """Return a message with commands of a shell in place of a notebook's."""
    for notebook, shell in _IN_A_SHELL:
        message = message.replace(notebook, shell)
    return message


def complain(message: str) -> None:
    """Print an error as one line."""
    _to_stderr(f"nbdist: {in_a_shell(message)}")


def note(message: str) -> None:
    """Print a note for people, not for a program that reads stdout."""
    _to_stderr(f"[nbdist] {in_a_shell(message)}")


HERE = Frontend(TERMINAL, note)


def print_json(data: object) -> None:
    """Print data for a program as one line."""
    print(harmless(encode(data)), flush=True)


def _to_stderr(text: str) -> None:
    # the terminal may have gone
    with contextlib.suppress(OSError):
        print(harmless(text), file=sys.stderr, flush=True)


class Output:
    """stdout while it has a reader; it calls ``on_closed`` once, when the reader has gone."""

    def __init__(self, on_closed: Callable[[OSError], object]) -> None:
        self._on_closed = on_closed
        self._closed = False

    def write(self, text: str) -> None:
        if self._closed:
            return
        try:
            sys.stdout.write(text)
            sys.stdout.flush()
        except OSError as error:
            self._closed = True
            discard_output()
            self._on_closed(error)


def discard_output() -> None:
    """Discard further output, so that the flush at exit does not fail."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)


def exit_code(run: Run, directory: RunDirectory) -> int:
    """Return 0, 130 (stopped), 124 (time limit), the first failure's code (128 + N for signal N), or 1."""
    if run.state is RunState.FINISHED:
        return 0
    if run.state is RunState.STOPPED:
        return INTERRUPTED
    if run.timed_out:
        return TIME_LIMIT
    failure = first_failure(run, directory) if run.state is RunState.FAILED else None
    if failure is None or not failure.code:
        # an uncaught exception
        return 1
    if failure.code < 0:
        # after an exception, the signal only ended the process
        return 1 if failure.report is not None else 128 - failure.code
    return failure.code


JSON = "--json"
_USAGE = "nbdist run [options] train.py [arguments] or nbdist run [options] -m package.module [arguments]"
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_PRUNING = 0.5  # seconds to remove old runs, of a command that may end at once
_LEFT_OUT = ("args", "panel", "warm", "push", "keep_inputs", "pull")  # useless in a terminal


def run_help() -> str:
    return (
        f"{_USAGE}\n\n"
        "Run a script on several ranks, one process each, and show what they write. Arguments behind the\n"
        "script go to the script. Ctrl-C stops the run, and so does the end of this process.\n"
        f"{JSON}: the last and only line of stdout is one object, that of  nbdist explain {JSON}  with the\n"
        "exit code. All else is on stderr.\n"
        "\n" + help_text("options:", without=_LEFT_OUT) + "\n"
        "\n"
        "Exit code: 0 when all ranks finished; that of the rank that failed first, or 128 + N when\n"
        "signal N ended it; 124 at the time limit; 130 when stopped; 2 when nothing was started; else 1."
    )


def run(words: Sequence[str]) -> int:
    own, program = split_program(words)
    as_json = JSON in own
    options = parse_words([word for word in own if word != JSON])
    if options.args:
        raise UsageMistake("--args is for cells: write  nbdist run train.py --lr 0.1")
    if options.pull:
        name = options.pull[0]
        raise UsageMistake(
            f'--pull needs a notebook: leave it out, and read  nbdist.attach().results["{name}"]  in Python'
        )
    if options.sweep:
        if as_json:
            raise UsageMistake(
                f"{JSON} is for one run, not a sweep: leave it out, and write  nbdist compare --json"
            )
        plan = functools.partial(runner.plan_script, words=program, cwd=os.getcwd())
        return _run_sweep(options, lambda: runner.plan_sweep(options, plan))

    def planned() -> tuple[Options, runner.Plan]:
        return options, runner.plan_script(options, program, cwd=os.getcwd())

    return _start(planned, [*runner.words_of_node_1(own), *program], as_json=as_json)


def scale(scale: runner.Scale) -> int:
    """Run a scale; return the exit code."""
    return _run_sweep(Options(), lambda: runner.plan_scale(scale))


def resume(again: Again) -> int:
    """Continue a run; return the exit code."""
    changes = [word for word in again.changes if word != JSON]
    planned = functools.partial(runner.resume_plan, again.handle, changes)
    return _start(planned, [], as_json=len(changes) < len(again.changes))


def _start(
    planned: Callable[[], tuple[Options, runner.Plan]], on_node_1: Sequence[str], *, as_json: bool
) -> int:
    """Start and show the planned run; return the exit code. ``on_node_1``: the words for a second machine."""
    with runner.Interrupts(_why, _SIGNALS, raises=False, for_ranks=FOR_THE_RANKS) as interrupts:
        try:
            with contextlib.redirect_stdout(sys.stderr if as_json else sys.stdout):
                handle, code = _run(*planned(), on_node_1, interrupts)
        except KeyboardInterrupt:
            return _code(interrupts)
    if as_json:
        print_json(explain_run(handle.run, handle.directory).to_dict() | {"exit_code": code})
    return code


def _run(
    options: Options, plan: runner.Plan, on_node_1: Sequence[str], interrupts: runner.Interrupts
) -> tuple[runner.RunHandle, int]:
    handle, notes = runner.launch(plan, interrupts, check=options.check, pruning=_PRUNING)
    # the token before the command, hidden from other users of the machine
    command = f"nbdist run {shlex.join(on_node_1)}" if on_node_1 else "nbdist resume RUN"
    elsewhere = f"on a machine with another home directory:  {runner.TOKEN}={plan.token} {command}"
    for text in filter(None, (*notes, runner.thread_advice(plan), plan.token and elsewhere)):
        note(text)
    if options.detach:
        return handle, _leave(handle, interrupts)
    code = _follow(handle, interrupts, options.show_ranks)
    _say_what_was_removed()
    return handle, code


def _run_sweep(options: Options, planned: Callable[[], runner.SweepPlan]) -> int:
    """Start and show the planned sweep; return the exit code."""
    with runner.Interrupts(_why, _SIGNALS, raises=False, for_ranks=FOR_THE_RANKS) as interrupts:
        try:
            handle, notes = runner.launch_sweep(planned(), interrupts, check=options.check, pruning=_PRUNING)
            for text in notes:
                note(text)
            if options.detach:
                print(handle.sweep_id, flush=True)
                code = 0
            else:
                closed = Reason("not-shown", error="its output was closed")
                code = show_sweep(handle, lambda _: handle.request_stop(closed))
            _say_what_was_removed()
        except KeyboardInterrupt:
            return _code(interrupts)
        return _code(interrupts) if interrupts.came() and not options.detach else code


def show_sweep(handle: runner.SweepHandle, on_closed: Callable[[OSError], object]) -> int:
    """Show a sweep until it ends; return 0 if every point finished, 130 for a stop, else 1."""
    language = config.language()
    output = Output(on_closed)
    try:
        view = follow_sweep(handle.look, SweepLines(output.write, language).show)
    except UnknownRun as gone:
        raise LaunchError(str(gone)) from None
    output.write(f"{sweep_text(view, language)}\n")
    return {RunState.FINISHED: 0, RunState.STOPPED: INTERRUPTED}.get(view.state, 1)


def _leave(handle: runner.RunHandle, interrupts: runner.Interrupts) -> int:
    """Detach from the run; return the exit code."""
    print(handle.run_id, flush=True)
    _say_what_was_removed()
    if interrupts.came():
        note(f"{handle.run.label} is being stopped")
        return _code(interrupts)
    note(say("runs.detached", config.language(), label=handle.run.label))
    return 0


def _follow(
    handle: runner.RunHandle, interrupts: runner.Interrupts, show_ranks: Collection[int] | None
) -> int:
    """Show the run until it ends; return the exit code. A closed output stops the run."""
    closed: list[int] = []

    def output_closed(error: OSError) -> None:
        if interrupts.came():
            return  # Ctrl-C ends the reader, too
        closed.append(OUTPUT_CLOSED if isinstance(error, BrokenPipeError) else 1)
        # the supervisor stops a run whose directory is deleted
        with contextlib.suppress(UnknownRun):
            handle.request_stop(Reason("not-shown", error=error.strerror or str(error)))

    ended = _watch(handle, Output(output_closed), show_ranks)
    if ended.state is RunState.STOPPED and (interrupts.came() or closed):
        return _code(interrupts) if interrupts.came() else closed[0]
    return exit_code(ended, handle.directory)


def _say_what_was_removed() -> None:
    if (pruned := runner.pruner.removed(wait=2 * _PRUNING)) is not None:
        note(str(pruned))


def _why(number: signal.Signals) -> Reason:
    return Reason("interrupted") if number is signal.SIGINT else Reason("command-got", signal=number.name)


def _code(interrupts: runner.Interrupts) -> int:
    """Return the exit code for the interrupt."""
    return 128 + (interrupts.latest or signal.SIGINT)


def show_attached(handle: runner.RunHandle | runner.SweepHandle) -> int:
    """Show the run, or sweep, until it ends; return the exit code."""
    label = handle.label if isinstance(handle, runner.SweepHandle) else handle.run.label
    try:
        if isinstance(handle, runner.SweepHandle):
            return show_sweep(handle, _raise)
        return exit_code(_watch(handle, Output(_raise)), handle.directory)
    except KeyboardInterrupt:
        note(say("runs.left", config.language(), label=label))
        return INTERRUPTED


def complete_lines(prompt: DebugPrompt) -> None:
    """Let input() have a history, and complete what held ranks know."""
    with contextlib.suppress(ImportError):
        import readline

        readline.set_completer(lambda _, state: prompt.complete(readline.get_line_buffer(), state))
        readline.set_completer_delims(" ")
        readline.parse_and_bind("tab: complete")


class _HeldRanks:
    """The prompt of ranks that are held, between two looks at their run, until the user leaves it by Ctrl-D
    or Ctrl-C. ``make_room`` leaves the terminal to it."""

    def __init__(self, handle: runner.RunHandle, make_room: Callable[[], object]) -> None:
        self._handle = handle
        self._make_room = make_room
        self._held = False
        self._left = not (sys.stdin.isatty() and sys.stdout.isatty())
        self._prompt = DebugPrompt(handle.directory)

    def attend(self, run: Run) -> None:
        """Look at the run."""
        self._handle.keep_watched(run)
        self._held = bool(run.held)

    def wait(self, seconds: float) -> None:
        """Wait, or read a line for a held rank."""
        if self._left or not self._held:
            time.sleep(seconds)
            return
        self._make_room()
        complete_lines(self._prompt)
        goes_on: bool | None = False
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            goes_on = self._prompt.step()
        except (EOFError, KeyboardInterrupt):
            pass
        finally:
            signal.signal(signal.SIGINT, before)
        self._left = goes_on is False
        if goes_on is None:
            time.sleep(seconds)  # the run's state is about to say so


def _watch(handle: runner.RunHandle, output: Output, show_ranks: Collection[int] | None = None) -> Run:
    """Show the run, by the lines of the local ``show_ranks``, and its summary; return its last state."""
    watch, language = UsageWatch(), config.language()
    screen = on_text_screen(
        output.write, Terminal(sys.stdout), language=language, logs="nbdist logs", limit=sys.maxsize
    )
    try:
        with screen as surface:
            held = _HeldRanks(handle, functools.partial(screen.__exit__, None, None, None))
            ended = follow(
                handle.directory,
                surface,
                watch=watch,
                local_ranks=show_ranks,
                whole=True,
                attend=held.attend,
                wait=held.wait,
            )
    except UnknownRun as gone:
        raise LaunchError(str(gone)) from None
    summary = summary_text(ended, handle.directory, language, watch.report(language))
    output.write(f"{in_a_shell(summary)}\n")
    # the summary suffices for a requested stop
    if ended.state is not RunState.FINISHED and not ended.stopped_as_asked:
        _to_stderr(in_a_shell(run_report(ended, handle.directory, language)))
    return ended


def _raise(error: OSError) -> None:
    raise error
