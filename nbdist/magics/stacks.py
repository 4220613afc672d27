"""``%dist_stacks``: where every rank is now."""

from __future__ import annotations

import shlex

from IPython.core.magic import Magics, line_magic, magics_class

from nbdist import config, runner
from nbdist.magics.presentation import as_usage_errors
from nbdist.options import LineParser
from nbdist.panel.ansi import harmless


@magics_class
class StackMagics(Magics):
    """The line magic."""

    @line_magic
    def dist_stacks(self, line: str) -> None:
        """Where every rank of a run (the latest) is now: ``%dist_stacks [RUN] [--threads] [--native]``.

        Ranks with the same stack stand together. The ranks are not stopped, and one that is stuck in
        native code is seen, too. ``--threads`` shows all threads, ``--native`` what py-spy sees. Of a run
        that has ended, the stacks that were taken last.
        """
        parser = LineParser("%dist_stacks [RUN] [--threads] [--native]")
        parser.add_argument("run", nargs="?")
        parser.add_argument("--threads", action="store_true")
        parser.add_argument("--native", action="store_true")
        with as_usage_errors():
            asked = parser.parse_args(shlex.split(line))
            handle = runner.attach(asked.run)
        # both read programs, and are not needed before
        from nbdist.diagnosis.stacks import take_stacks
        from nbdist.diagnosis.stalls import stacks_text

        report = take_stacks(handle.directory)
        print(harmless(stacks_text(report, config.language(), all_threads=asked.threads, paint=_paint)))
        if asked.native:
            from nbdist.diagnosis.native_stacks import native_stacks

            for rank, text in native_stacks(handle.run).items():
                print(harmless(f"\n[{rank}] {text.rstrip()}"))


def _paint(text: str, shade: str) -> str:
    return f"\x1b[1m{text}\x1b[0m" if shade == "bold" else text
