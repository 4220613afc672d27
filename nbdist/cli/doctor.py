"""``nbdist doctor``: what this machine can do, as text or JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence

from nbdist import config
from nbdist.cli.terminal import in_a_shell, note
from nbdist.errors import UsageMistake
from nbdist.options import LineParser
from nbdist.panel.ansi import harmless

DOCTOR_USAGE = "nbdist doctor [--smoke] [--fix] [--json] [--on slurm|ray [--nodes N] [--slurm KEY=VALUE,…]]"
DOCTOR_HELP = """\
Look at Python, frameworks, GPUs, memory, disk, network, notebook and VisualDL, and say what to type
where something is missing. Frameworks that are installed are asked in processes of their own.

  --smoke  start a run of two ranks for each framework, and VisualDL, and say how long they take
  --fix    mend what can be mended: copy the JupyterLab extension to where this user's JupyterLab looks
  --json   one object, with a list of entries

  --on slurm|ray  look at the cluster instead: its commands, partition and account, and by a small job
                  whether its nodes see the same files, have the same packages and reach each other
  --nodes N       on so many nodes (2)
  --slurm K=V,…   options of sbatch, as for a run:  --slurm partition=gpu,account=NAME
  --ray URL       the head of a Ray cluster:  --ray http://head:8265
  --wait TIME     so long may the job stand in the queue (60s)

Exit code: 0, or 1 where something does not work."""


def doctor(words: Sequence[str]) -> int:
    parser = LineParser(DOCTOR_USAGE)
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--fix", action="store_true")
    parser.add_argument("--json", action="store_true")
    from nbdist.doctor import add_cluster_options, asked_of, examine, examine_cluster, repair, report_text

    add_cluster_options(parser)
    asked = parser.parse_args(words)
    if (cluster := asked_of(asked)) is not None and (asked.smoke or asked.fix):
        raise UsageMistake("--smoke and --fix are about this machine: leave --on out")
    report = examine(smoke=asked.smoke) if cluster is None else examine_cluster(cluster)
    if asked.fix:
        done = repair(report)
        for line in done or ["there is nothing that --fix can mend"]:
            note(line)
        report = examine() if done and not asked.smoke else report
    if asked.json:
        print(harmless(json.dumps(report.to_dict(), indent=1, ensure_ascii=False)))
    else:
        print(in_a_shell(report_text(report, config.language())))
    return 0 if report.healthy else 1
