"""``%dist_board``: VisualDL or TensorBoard over runs, or a report of them as a file."""

from __future__ import annotations

import html
import secrets
import shlex
from collections.abc import Sequence
from pathlib import Path

from IPython.core.magic import Magics, line_magic, magics_class
from IPython.display import HTML, display

from nbdist import config, runner
from nbdist.magics.presentation import as_usage_errors
from nbdist.options import LineParser
from nbdist.panel import charts_html, write_report
from nbdist.text import say

_USAGE = "%dist_board [RUN …] [--tensorboard] [--height PIXELS] or %dist_board [RUN …] --export FILE.html"
_HEIGHT = 700

# Only a browser on this machine reaches the port; the page finds out, and shows what else there is.
# So does a notebook that is opened again when the server has long ended.
_FIND_OUT = """<script>(() => {
  const board = document.getElementById("NAME");
  const frame = board.querySelector("iframe");
  const away = () => { frame.hidden = true; board.querySelector("[data-away]").hidden = false; };
  fetch(frame.src.replace(/[^/]*$/, "alive"), {mode: "no-cors"}).catch(away);
})()</script>"""


@magics_class
class BoardMagics(Magics):
    """The line magic about curves."""

    @line_magic
    def dist_board(self, line: str) -> None:
        """The curves of a run (the latest) or several: ``%dist_board [RUN …]``, in VisualDL.

        ``--tensorboard`` shows them in TensorBoard, ``--export report.html`` writes everything about the
        runs to one file that opens without a network; ``--height`` is that of the frame, in pixels;
        ``--stop`` ends the server now (it ends by itself when nobody looks).
        """
        parser = LineParser(_USAGE)
        parser.add_argument("run", nargs="*")
        parser.add_argument("--height", type=int, default=_HEIGHT)
        parser.add_argument("--tensorboard", action="store_true")
        parser.add_argument("--export", metavar="FILE")
        parser.add_argument("--stop", action="store_true")
        with as_usage_errors():
            asked = parser.parse_intermixed_args(shlex.split(line))
            if asked.stop:
                print("[nbdist] " + ("ended" if runner.stop_the_board() else "no server was there"))
                return
            handles = [runner.attach(word) for word in asked.run] or [runner.attach()]
            if asked.export is not None:
                runs = [(handle.run, handle.directory) for handle in handles]
                report = write_report(runs, Path(asked.export), config.language())
                print(f"[nbdist] {report.said}")
                return
            found = runner.reach_board(handles, tensorboard=asked.tensorboard)
            charts = "" if found.url and not found.direct else _charts(handles)
        name = "TensorBoard" if asked.tensorboard else "VisualDL"
        if found.url:
            display(HTML(_frame(found.url, asked.height, charts if found.direct else "")))
            print(f"[nbdist] {name}: {found.url}")
            return
        print(f"[nbdist] {name} cannot be shown here: {found.problem}")
        display(HTML(charts))


def _charts(handles: Sequence[runner.RunHandle]) -> str:
    return charts_html([(handle.run, handle.directory) for handle in handles], config.language())


def _frame(url: str, height: int, charts: str) -> str:
    frame = (
        f'<iframe src="{html.escape(url)}" width="100%" height="{height}" style="border:0" '
        'allowfullscreen title="VisualDL"></iframe>'
    )
    if not charts:
        return f"<div>{frame}</div>"  # IPython warns about what is an iframe alone
    name = f"nbdist-board-{secrets.token_hex(4)}"
    away = say("runs.board-away", config.language())
    return (
        f'<div id="{name}">{frame}<div data-away hidden><p>{html.escape(away)}</p>{charts}</div>'
        f"{_FIND_OUT.replace('NAME', name)}</div>"
    )
