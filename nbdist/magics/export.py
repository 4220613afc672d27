"""``%dist_export``: a run as files that start without nbdist."""

from __future__ import annotations

import shlex
from pathlib import Path

from IPython.core.magic import Magics, line_magic, magics_class

from nbdist import runner
from nbdist.magics.presentation import as_usage_errors
from nbdist.options import LineParser
from nbdist.panel.ansi import harmless


@magics_class
class ExportMagics(Magics):
    """The magic of the way out."""

    @line_magic
    def dist_export(self, line: str) -> None:
        """A run (the latest) as a script, and the command lines that start it with torchrun, with paddle's
        launcher or under Slurm: ``%dist_export [RUN] [--to DIR]``."""
        parser = LineParser("%dist_export [RUN] [--to DIR]")
        parser.add_argument("run", nargs="?")
        parser.add_argument("--to")
        with as_usage_errors():
            asked = parser.parse_args(shlex.split(line))
            handle = runner.attach(asked.run)
            exported = runner.export(handle, Path(asked.to or handle.run.label))
        print(harmless("\n".join(runner.export_text(exported))))
