"""``nbdist board``: where a browser sees the curves of runs, or a report of them as a file."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

from nbdist import config, runner
from nbdist.cli.terminal import note
from nbdist.errors import LaunchError
from nbdist.options import LineParser
from nbdist.panel import write_report

BOARD_USAGE = "nbdist board [RUN ...] [--tensorboard | --export FILE.html | --stop]"
BOARD_HELP = """\
Start VisualDL over a run (the latest) or several, and say where a browser sees it. The server is this
user's alone and ends when nobody looks.

  --tensorboard       in TensorBoard, where it is installed
  --export FILE.html  write what there is about the runs to one file that opens without a network: the
                      summary, curves, pictures, logs, the program; a report that is there is replaced
  --stop              end the server now"""


def board(words: Sequence[str]) -> int:
    parser = LineParser(BOARD_USAGE)
    parser.add_argument("run", nargs="*")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--tensorboard", action="store_true")
    form.add_argument("--export", metavar="FILE")
    form.add_argument("--stop", action="store_true")
    asked = parser.parse_intermixed_args(words)
    if asked.stop:
        note("the server has ended" if runner.stop_the_board() else "there was no server")
        return 0
    handles = [runner.attach(name) for name in asked.run] or [runner.attach()]
    if asked.export is not None:
        runs = [(handle.run, handle.directory) for handle in handles]
        report = write_report(runs, Path(asked.export), config.language())
        print(report.path)
        note(report.said)
        return 0
    found = runner.reach_board(handles, tensorboard=asked.tensorboard)
    if not found.url:
        raise LaunchError(found.problem)
    print(found.url)
    if found.direct and sys.stdout.isatty():
        port = urlsplit(found.url).port
        note(f"from another machine, first:  ssh -L {port}:127.0.0.1:{port} <this machine>")
    elif not found.direct and found.url.startswith("/"):
        note("a path on the Jupyter server that this terminal belongs to")
    return 0
