"""``nbdist stacks``: where every rank of a run is now."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

from nbdist import config, runner
from nbdist.options import LineParser
from nbdist.panel import Terminal
from nbdist.panel.ansi import harmless

STACKS_USAGE = "nbdist stacks [RUN] [--threads] [--native] [--json]"
STACKS_HELP = """\
Where every rank of a run (the latest) is now; ranks with the same stack stand together. The ranks are
not stopped, and one that is stuck in native code is seen, too. Of a run that has ended, the stacks that
were taken last.

  --threads  all threads, not the main one alone
  --native   the frames of native code, too, by py-spy where it is installed and allowed
  --json     one object

Exit code: 0, or 1 when the run did not answer or has no stacks."""


def stacks(words: Sequence[str]) -> int:
    parser = LineParser(STACKS_USAGE)
    parser.add_argument("run", nargs="?")
    parser.add_argument("--threads", action="store_true")
    parser.add_argument("--native", action="store_true")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_intermixed_args(words)
    handle = runner.attach(asked.run)
    # both read programs, and no other command needs them
    from nbdist.diagnosis.stacks import take_stacks
    from nbdist.diagnosis.stalls import sentence, stacks_text

    language = config.language()
    report = take_stacks(handle.directory)
    native = _native(handle) if asked.native else {}
    if asked.json:
        data = {**report.to_dict(), "sentence": sentence(report, language)}
        if asked.native:
            data["native"] = {str(rank): text for rank, text in native.items()}
        print(json.dumps(data, indent=2))
    else:
        terminal = Terminal(sys.stdout)
        paint = terminal.paint if sys.stdout.isatty() else lambda text, _: text
        print(harmless(stacks_text(report, language, all_threads=asked.threads, paint=paint)))
        for rank, text in native.items():
            print(harmless(f"\n[{rank}] {text.rstrip()}"))
    return 1 if report.problem else 0


def _native(handle: runner.RunHandle) -> dict[int, str]:
    from nbdist.cli.terminal import in_a_shell
    from nbdist.diagnosis.native_stacks import native_stacks

    return {rank: in_a_shell(text) for rank, text in native_stacks(handle.run).items()}
