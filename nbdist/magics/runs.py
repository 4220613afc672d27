"""The line magics about runs: status, logs, stop, attach, board."""

from __future__ import annotations

import argparse
import re
import shlex
import time
from collections.abc import Sequence
from typing import NoReturn

from IPython.core.magic import Magics, line_magic, magics_class
from IPython.display import IFrame, display

from nbdist import config, runner
from nbdist.errors import UsageMistake
from nbdist.magics.presentation import as_usage_errors, draws_widgets
from nbdist.magics.showing import report, show_as_text, show_in_background
from nbdist.model import RunState
from nbdist.panel import status_html, status_text, status_views

_LATEST = 10


@magics_class
class RunMagics(Magics):
    """The line magics."""

    @line_magic
    def dist_status(self, line: str) -> None:
        """Every run (the latest ten) with its ranks; ``%dist_status RUN`` for one."""
        with as_usage_errors():
            words = shlex.split(line)
            handles = [runner.attach(word) for word in words] or runner.runs()[:_LATEST]
            views = status_views([handle.directory for handle in handles], time.time())
        language = config.language()
        text = status_text(views, language)
        display({"text/plain": text, "text/html": status_html(views, language)}, raw=True)

    @line_magic
    def dist_logs(self, line: str) -> None:
        """The logs of a run from disk: ``%dist_logs [RUN] [--rank R] [--tail N] [--grep PATTERN]``."""
        parser = _Parser("%dist_logs [RUN] [--rank R] [--tail N] [--grep PATTERN]")
        parser.add_argument("run", nargs="?")
        parser.add_argument("--rank", type=int)
        parser.add_argument("--tail", type=int)
        parser.add_argument("--grep")
        with as_usage_errors():
            asked = parser.parse_args(shlex.split(line))
            handle = runner.attach(asked.run)
            pattern = _pattern(asked.grep)
            ranks = range(handle.run.spec.world_size) if asked.rank is None else [asked.rank]
            for rank in ranks:
                lines = [text for text in handle.log_lines(rank) if pattern.search(text)]
                shown = lines[-asked.tail :] if asked.tail else lines
                print("\n".join(f"[{rank}] {text}" for text in shown))

    @line_magic
    def dist_stop(self, line: str) -> None:
        """Stop a run (the latest that goes on): ``%dist_stop [RUN]``, ``%dist_stop --all``."""
        parser = _Parser("%dist_stop [RUN] or %dist_stop --all")
        parser.add_argument("run", nargs="?")
        parser.add_argument("--all", action="store_true")
        with as_usage_errors():
            asked = parser.parse_args(shlex.split(line))
            for handle in _live(asked.run, everything=asked.all):
                status = handle.stop("stopped by %dist_stop")
                run = handle.run
                ended = sum(rank.exited is not None for rank in run.ranks) + run.leftover
                print(f"[nbdist] {run.label} {status}: {ended} process{'' if ended == 1 else 'es'} ended")

    @line_magic
    def dist_attach(self, line: str) -> None:
        """Show a run again (the latest): after a restart of the kernel, or in another notebook.

        The run belongs to whoever started it: leaving the view, or interrupting it, ends nothing.
        """
        parser = _Parser("%dist_attach [RUN]")
        parser.add_argument("run", nargs="?")
        with as_usage_errors():
            handle = runner.attach(parser.parse_args(shlex.split(line)).run)
            run = handle.run
        assert self.shell is not None, "magics that are called belong to a shell"
        if not run.state.terminal and draws_widgets(self.shell):
            show_in_background(self.shell, handle)
            return
        try:
            run = show_as_text(handle)
        except KeyboardInterrupt:
            print(f"[nbdist] {run.label} goes on; %dist_attach {run.label} shows it again")
            return
        if run.state is not RunState.SUCCEEDED:
            print(report(handle, run))

    @line_magic
    def dist_board(self, line: str) -> None:
        """VisualDL over a run (the latest) or several: ``%dist_board [RUN …] [--height 700]``."""
        parser = _Parser("%dist_board [RUN …] [--height PIXELS]")
        parser.add_argument("run", nargs="*")
        parser.add_argument("--height", type=int, default=700)
        with as_usage_errors():
            asked = parser.parse_args(shlex.split(line))
            handles = [runner.attach(word) for word in asked.run] or [runner.attach()]
            url = runner.board_url(handles)
        display(IFrame(url, width="100%", height=asked.height))
        print(f"[nbdist] VisualDL: {url}")


class _Parser(argparse.ArgumentParser):
    """A line magic's arguments; a mistake is answered with how the magic is written."""

    def __init__(self, usage: str) -> None:
        super().__init__(add_help=False, allow_abbrev=False)
        self._written = usage

    def error(self, message: str) -> NoReturn:
        raise UsageMistake(f"{message}: write  {self._written}")


def _pattern(text: str | None) -> re.Pattern[str]:
    try:
        return re.compile(text or "")
    except re.error as error:
        raise UsageMistake(f"--grep {text}: {error}: write a regular expression") from None


def _live(name: str | None, *, everything: bool) -> Sequence[runner.RunHandle]:
    if name is not None:
        handle = runner.attach(name)
        if handle.run.state.terminal:
            raise UsageMistake(f"{handle.run.label} has already ended: {handle.status}")
        return [handle]
    live = [handle for handle in runner.runs() if not handle.run.state.terminal]
    if not live:
        raise UsageMistake("no run is going on: %dist_status lists them")
    return live if everything else live[:1]
