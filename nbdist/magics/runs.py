"""The line magics about runs: status, logs, stop, attach."""

from __future__ import annotations

import shlex

from IPython.core.magic import Magics, line_magic, magics_class

from nbdist import config, panel, runner
from nbdist.magics.presentation import as_usage_errors, draws_widgets
from nbdist.magics.showing import show_again, show_as_text
from nbdist.magics.status_table import StatusTable
from nbdist.model import Reason, RunState
from nbdist.options import LineParser
from nbdist.panel.ansi import harmless


@magics_class
class RunMagics(Magics):
    """The line magics."""

    _status = StatusTable()

    @line_magic
    def dist_status(self, line: str) -> None:
        """Every run (the latest ten) with its ranks; ``%dist_status RUN`` for one.

        In a notebook the table is kept up to date until they have ended.
        """
        with as_usage_errors():
            handles = runner.chosen_runs(shlex.split(line))
        assert self.shell is not None, "magics that are called belong to a shell"
        self._status.show([handle.directory for handle in handles], live=draws_widgets(self.shell))
        with as_usage_errors():
            others = (*runner.describe_refused(), *runner.describe_allocations())
        for said in (*runner.describe_warm(runner.warm_ranks.state()), *others):
            print(harmless(f"[nbdist] {said}"))

    @line_magic
    def dist_logs(self, line: str) -> None:
        """The logs of a run from disk: ``%dist_logs [RUN] [--rank R] [--tail N] [--grep PATTERN]``."""
        parser = LineParser("%dist_logs [RUN] [--rank R] [--tail N] [--grep PATTERN]")
        parser.add_argument("run", nargs="?")
        parser.add_argument("--rank", type=int)
        parser.add_argument("--tail", type=runner.line_count)
        parser.add_argument("--grep")
        with as_usage_errors():
            asked = parser.parse_args(shlex.split(line))
            handle = runner.attach(asked.run)
            pattern = runner.log_pattern(asked.grep)
            for rank in runner.rank_numbers(handle, asked.rank):
                lines = runner.matching_lines(handle, rank, pattern, asked.tail)
                print("\n".join(f"[{rank}] {harmless(text)}" for text in lines))

    @line_magic
    def dist_stop(self, line: str) -> None:
        """Stop a run (the latest that goes on): ``%dist_stop [RUN]``, ``%dist_stop --all``."""
        parser = LineParser("%dist_stop [RUN] or %dist_stop --all")
        parser.add_argument("run", nargs="?")
        parser.add_argument("--all", action="store_true")
        with as_usage_errors():
            asked = parser.parse_args(shlex.split(line))
            handles = runner.live_runs() if asked.all else [runner.live_run(asked.run)]
            runner.stop_runs(handles, Reason("stopped-by", command="%dist_stop"))
            for handle in handles:
                print(panel.stopped_text(handle.run))
        if not handles:
            print("[nbdist] no run is going on")

    @line_magic
    def dist_attach(self, line: str) -> None:
        """Show a run again (the latest): after a restart of the kernel, or in another notebook.

        The run belongs to whoever started it: leaving the view, or interrupting it, ends nothing.
        """
        parser = LineParser("%dist_attach [RUN]")
        parser.add_argument("run", nargs="?")
        with as_usage_errors():
            handle = runner.attach(parser.parse_args(shlex.split(line)).run)
            run = handle.run
        assert self.shell is not None, "magics that are called belong to a shell"
        if draws_widgets(self.shell):
            show_again(self.shell, handle)
            return
        try:
            run = show_as_text(handle)
        except KeyboardInterrupt:
            print(f"[nbdist] {run.label} goes on; %dist_attach {run.label} shows it again")
            return
        if run.state is not RunState.SUCCEEDED and not run.stopped_as_asked:
            print(panel.run_report(run, handle.directory, config.language()))
