"""``nbdist export``: a run as files that start without nbdist."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from nbdist import runner
from nbdist.options import LineParser
from nbdist.panel.ansi import harmless

EXPORT_USAGE = "nbdist export [RUN] [--to DIR]"
EXPORT_HELP = """\
Write a run (the latest) as a script, and what starts it with torchrun, with paddle's launcher (fleetrun)
or under Slurm (sbatch). The command lines are printed.

  --to DIR  where to write it: by default a folder with the run's name, here"""


def export(words: Sequence[str]) -> int:
    parser = LineParser(EXPORT_USAGE)
    parser.add_argument("run", nargs="?")
    parser.add_argument("--to")
    asked = parser.parse_args(words)
    handle = runner.attach(asked.run)
    exported = runner.export(handle, Path(asked.to or handle.run.label))
    print(harmless("\n".join(runner.export_text(exported))))
    return 0
