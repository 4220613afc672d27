"""``%dist_doctor``: what this machine and this notebook can do, as a page."""

from __future__ import annotations

import shlex

from IPython.core.magic import Magics, line_magic, magics_class
from IPython.display import display

from nbdist import config
from nbdist.errors import UsageMistake
from nbdist.magics.presentation import as_usage_errors
from nbdist.options import LineParser


@magics_class
class DoctorMagics(Magics):
    """The line magic."""

    @line_magic
    def dist_doctor(self, line: str) -> None:
        """What works here, what does not, and what to type: ``%dist_doctor [--smoke] [--fix]``.

        ``--smoke`` starts a run of two ranks for each framework; ``--fix`` mends what can be mended.
        ``%dist_doctor --on slurm [--nodes 2] [--slurm partition=gpu]`` looks at a cluster and, by a small
        job, at its nodes; ``--on ray [--ray http://head:8265]`` at Ray.
        """
        parser = LineParser(
            "%dist_doctor [--smoke] [--fix] [--on slurm|ray [--nodes N] [--slurm KEY=VALUE,…]]"
        )
        parser.add_argument("--smoke", action="store_true")
        parser.add_argument("--fix", action="store_true")
        with as_usage_errors():
            # most sessions never ask
            from nbdist.doctor import (
                add_cluster_options,
                asked_of,
                examine,
                examine_cluster,
                repair,
                report_bundle,
            )

            add_cluster_options(parser)
            asked = parser.parse_args(shlex.split(line))
            if (cluster := asked_of(asked)) is not None and (asked.smoke or asked.fix):
                raise UsageMistake("--smoke and --fix are about this machine: leave --on out")
            report = examine(smoke=asked.smoke) if cluster is None else examine_cluster(cluster)
            done = repair(report) if asked.fix else []
        for said in done or (["there is nothing that --fix can mend"] if asked.fix else []):
            print(f"[nbdist] {said}")
        display(report_bundle(report, config.language()), raw=True)
