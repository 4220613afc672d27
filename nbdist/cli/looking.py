"""``nbdist status``, ``logs``, ``stop``: runs that somebody has started."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from itertools import islice

from nbdist import config, runner
from nbdist.cli.terminal import complain, in_a_shell, note
from nbdist.errors import LaunchError, UnknownRun, UsageMistake
from nbdist.model import Reason
from nbdist.options import LineParser
from nbdist.panel import (
    Block,
    Line,
    LogSurface,
    StatusReader,
    Terminal,
    follow,
    rank_prefix,
    status_text,
    stopped_text,
    watch_status,
)
from nbdist.panel.ansi import harmless
from nbdist.panel.columns import cut
from nbdist.panel.view import RunView
from nbdist.text import say

_LINES = 4096  # that are written at once

STATUS_USAGE = "nbdist status [RUN ...] [--watch | --json]"
STATUS_HELP = """\
The latest ten runs, or these. Runs that go on, and one alone, with their ranks: state, device, pid,
memory, use, step/s, elapsed, last line; others with their notebook, when they ended, and their main
metric; and the nodes of Slurm that are kept (nbdist alloc).

  --watch  keep the table up to date until all have ended; Ctrl-C leaves it
  --json   a list with one object a run"""

LOGS_USAGE = "nbdist logs [RUN] [--rank R] [--tail N] [--grep PATTERN] [-f]"
LOGS_HELP = """\
What the ranks have written, from disk. Each line has its rank in front; with --rank R there are only
the lines of that rank, as it wrote them.

  --rank R        only this rank
  --tail N        only the last N lines of each rank
  --grep PATTERN  only the lines that match this regular expression
  -f, --follow    go on until the run has ended"""

STOP_USAGE = "nbdist stop [RUN] or nbdist stop --all"
STOP_HELP = """\
Stop a run (the latest that goes on) and wait for its end: SIGINT, then SIGTERM, then SIGKILL.

  --all  every run that goes on

Exit code: 0 when all have ended, 1 when one goes on, 2 when there is no such run that goes on."""


def status(words: Sequence[str]) -> int:
    parser = LineParser(STATUS_USAGE)
    parser.add_argument("run", nargs="*")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--watch", action="store_true")
    form.add_argument("--json", action="store_true")
    asked = parser.parse_intermixed_args(words)
    reader = StatusReader([handle.directory for handle in runner.chosen_runs(asked.run)])
    if asked.watch:
        _watch(reader)
        return 0
    views = reader.look(time.time())
    if asked.json:
        print(json.dumps([view.to_dict() for view in views], indent=1))
        return 0
    text = status_text(views, config.language())
    print(text if views else in_a_shell(text))
    for line in (*runner.describe_refused(), *runner.describe_allocations()):
        print(harmless(in_a_shell(line)))
    return 0


def _watch(reader: StatusReader) -> None:
    """Keep the table at the foot of the terminal up to date; its last state stays there as text."""
    terminal = Terminal(sys.stdout)
    if not terminal.drawable:
        raise UsageMistake("--watch draws over itself, which only a terminal can show: write  nbdist status")
    language = config.language()
    block = Block(_write, terminal)
    views: list[RunView] = []

    def look() -> list[RunView]:
        return reader.look(time.time())

    def show(now: list[RunView]) -> None:
        nonlocal views
        views = now
        block.draw("", _fitting(status_text(now, language), terminal))

    try:
        show(look())
        watch_status(look, show, time.sleep, shown=views, grain=1.0)
    finally:
        block.erase()
        print(in_a_shell(status_text(views, language)))


def _fitting(text: str, terminal: Terminal) -> list[Line]:
    """As much of the text as the terminal has columns and rows for."""
    columns, rows = terminal.size()
    lines = text.splitlines()
    if len(lines) >= rows:
        shown = max(1, rows - 2)
        more = say("panel.more-lines", config.language(), count=len(lines) - shown)
        lines = [*lines[:shown], more]
    return [Line().add(cut(line, columns - 1)) for line in lines]


def logs(words: Sequence[str]) -> int:
    parser = LineParser(LOGS_USAGE)
    parser.add_argument("run", nargs="?")
    parser.add_argument("--rank", type=int)
    parser.add_argument("--tail", type=runner.line_count)
    parser.add_argument("--grep")
    parser.add_argument("-f", "--follow", action="store_true")
    asked = parser.parse_intermixed_args(words)
    handle = runner.attach(asked.run)
    pattern = runner.log_pattern(asked.grep)
    ranks = runner.rank_numbers(handle, asked.rank)
    prefixed = asked.rank is None
    if asked.follow:
        surface = LogSurface(_write, ranks=ranks, pattern=pattern, tail=asked.tail, prefixed=prefixed)
        _follow(handle, surface)
        return 0
    count = handle.run.spec.world_size
    for rank in ranks:
        prefix = rank_prefix(rank, count) if prefixed else ""
        found = (f"{prefix}{line}\n" for line in runner.matching_lines(handle, rank, pattern, asked.tail))
        while text := "".join(islice(found, _LINES)):
            sys.stdout.write(harmless(text))
    sys.stdout.flush()
    return 0


def _follow(handle: runner.RunHandle, surface: LogSurface) -> None:
    def wait(seconds: float) -> None:
        surface.caught_up()
        time.sleep(seconds)

    try:
        follow(handle.directory, surface, whole=True, wait=wait)
    except UnknownRun as gone:
        raise LaunchError(str(gone)) from None
    surface.caught_up()


def stop(words: Sequence[str]) -> int:
    parser = LineParser(STOP_USAGE)
    parser.add_argument("run", nargs="?")
    parser.add_argument("--all", action="store_true")
    asked = parser.parse_intermixed_args(words)
    handles = runner.live_runs() if asked.all else [runner.live_run(asked.run)]
    if not handles:
        note("no run is going on")
    runner.stop_runs(handles, Reason("stopped-by", command="nbdist stop"))
    stopped = True
    for handle in handles:
        run = handle.run
        if run.state.terminal:
            print(stopped_text(run))
        else:
            stopped = False
            complain(f"{run.label} goes on, though it was asked to end: nbdist stop {run.label}  once more")
    return 0 if stopped else 1


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
