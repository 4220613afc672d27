"""``nbdist doctor``: what this machine can do, as text or JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence

from nbdist import config
from nbdist.cli.terminal import in_a_shell, note
from nbdist.options import LineParser

DOCTOR_USAGE = "nbdist doctor [--smoke] [--fix] [--json]"
DOCTOR_HELP = """\
Look at Python, frameworks, GPUs, memory, disk, network, notebook and VisualDL, and say what to type
where something is missing. Frameworks that are installed are asked in processes of their own.

  --smoke  start a run of two ranks for each framework, and VisualDL, and say how long they take
  --fix    mend what can be mended: copy the JupyterLab extension to where this user's JupyterLab looks
  --json   one object, with a list of entries

Exit code: 0, or 1 where something does not work."""


def doctor(words: Sequence[str]) -> int:
    parser = LineParser(DOCTOR_USAGE)
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--fix", action="store_true")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args(words)
    from nbdist.doctor import examine, repair, report_text

    report = examine(smoke=asked.smoke)
    if asked.fix:
        done = repair(report)
        for line in done or ["there is nothing that --fix can mend"]:
            note(line)
        report = examine() if done and not asked.smoke else report
    if asked.json:
        print(json.dumps(report.to_dict(), indent=1, ensure_ascii=False))
    else:
        print(in_a_shell(report_text(report, config.language())))
    return 0 if report.healthy else 1
