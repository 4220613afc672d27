"""``%dist_doctor``: what this machine and this notebook can do, as a page."""

from __future__ import annotations

import shlex

from IPython.core.magic import Magics, line_magic, magics_class
from IPython.display import display

from nbdist import config
from nbdist.magics.presentation import as_usage_errors
from nbdist.options import LineParser


@magics_class
class DoctorMagics(Magics):
    """The line magic."""

    @line_magic
    def dist_doctor(self, line: str) -> None:
        """What works here, what does not, and what to type: ``%dist_doctor [--smoke] [--fix]``.

        ``--smoke`` starts a run of two ranks for each framework; ``--fix`` mends what can be mended.
        """
        parser = LineParser("%dist_doctor [--smoke] [--fix]")
        parser.add_argument("--smoke", action="store_true")
        parser.add_argument("--fix", action="store_true")
        with as_usage_errors():
            asked = parser.parse_args(shlex.split(line))
            # most sessions never ask
            from nbdist.doctor import examine, repair, report_bundle

            report = examine(smoke=asked.smoke)
            done = repair(report) if asked.fix else []
        for said in done or (["there is nothing that --fix can mend"] if asked.fix else []):
            print(f"[nbdist] {said}")
        display(report_bundle(report, config.language()), raw=True)
