"""The line magics, which show the results of verbs in a notebook."""

from __future__ import annotations

import functools
import html
import secrets
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from IPython.core.magic import Magics, line_magic, magics_class
from IPython.display import HTML, display

from nbdist import config, panel, runner, verbs
from nbdist.feed.ansi import harmless
from nbdist.feed.profile import Profile
from nbdist.magics.cell_check import notebook_names
from nbdist.magics.distributed import resume_and_show
from nbdist.magics.presentation import (
    as_usage_errors,
    draws_widgets,
    interrupts,
    place_of,
    shell_of,
    tell,
)
from nbdist.magics.showing import show_again, show_as_text, show_outputs
from nbdist.magics.sweep_cell import run_sweep, show_sweep_again
from nbdist.model import RunState
from nbdist.options import Options, split_line
from nbdist.panel.debug_prompt import DebugPrompt
from nbdist.text import say
from nbdist.verbs.machines import Examined
from nbdist.verbs.runs import Again, Beside, Curves, Explained, Listed, Logs, Stacks, Stopped
from nbdist.verbs.verb import HELP, NOTEBOOK, Frontend, Result, Verb

if TYPE_CHECKING:
    from nbdist.magics.monitor import Monitor
    from nbdist.panel.report_file import Report

# Only a browser on this machine reaches the port, while the server lives; else the page shows the charts.
_FIND_OUT = """<script>(() => {
  const board = document.getElementById("NAME");
  const frame = board.querySelector("iframe");
  const away = () => { frame.hidden = true; board.querySelector("[data-away]").hidden = false; };
  fetch(frame.src.replace(/[^/]*$/, "alive"), {mode: "no-cors"}).catch(away);
})()</script>"""


# the head of VisualDL is cut in a narrower frame
_NARROWER = """<style>
@container (max-width: 1000px) { .nbdist-board-frame iframe { zoom: .75 } }
@container (max-width: 720px) { .nbdist-board-frame iframe { zoom: .5 } }
</style>"""

_HERE = Frontend(NOTEBOOK, tell)


def _shows(verb: Verb[Result]) -> Callable[[Callable[[Any, Result], None]], Callable[[Any, str], None]]:
    """Make a line magic of a method that shows the result of a verb."""

    def magic_of(show: Callable[[Any, Result], None]) -> Callable[[Any, str], None]:
        @functools.wraps(show)
        def magic(self: Any, line: str) -> None:
            with as_usage_errors():
                words = split_line(line)
                if HELP & set(words):
                    print(verb.help(NOTEBOOK))
                else:
                    show(self, verb(words, _HERE))

        magic.__doc__ = verb.help(NOTEBOOK)
        line_magic(magic)
        return magic

    return magic_of


@magics_class
class VerbMagics(Magics):
    """A line magic for each verb."""

    def __init__(self, **more: Any) -> None:
        super().__init__(**more)
        self._monitor: Monitor | None = None

    @_shows(verbs.STATUS)
    def dist_status(self, listed: Listed) -> None:
        # an import that only this verb needs
        from nbdist.magics.monitor import show_monitor

        earlier, self._monitor = self._monitor, None
        if earlier is not None:
            earlier.end()
        self._monitor = show_monitor(shell_of(self), listed)

    @_shows(verbs.LOGS)
    def dist_logs(self, logs: Logs) -> None:
        for rank in logs.ranks:
            print("\n".join(f"[{rank}] {harmless(text)}" for text in logs.lines(rank)))

    @_shows(verbs.EXPLAIN)
    def dist_explain(self, explained: Explained) -> None:
        print(harmless(explained.report.rstrip("\n") if explained.copy else str(explained.explanation)))

    @_shows(verbs.COMPARE)
    def dist_compare(self, beside: Beside) -> None:
        language = config.language()
        display(panel.comparison_bundle(beside.comparison, language, all_rows=beside.all_rows), raw=True)

    @_shows(verbs.STOP)
    def dist_stop(self, stopped: Stopped) -> None:
        for run in stopped.ended:
            print(panel.stopped_text(run))
        for view in stopped.sweeps:
            print(panel.sweep_headline(view, config.language()))
        tell(*stopped.going_on, stopped.note)

    @_shows(verbs.STACKS)
    def dist_stacks(self, stacks: Stacks) -> None:
        # an import that only this verb needs
        from nbdist.diagnosis.stack_text import stacks_text

        text = stacks_text(stacks.report, config.language(), all_threads=stacks.threads, paint=_paint)
        print(harmless(text))
        for rank, frames in (stacks.native or {}).items():
            print(harmless(f"\n[{rank}] {frames.rstrip()}"))

    @_shows(verbs.PROFILE)
    def dist_profile(self, profile: Profile) -> None:
        print("\n".join(profile.lines(config.language())))

    @_shows(verbs.ATTACH)
    def dist_attach(self, handle: runner.RunHandle | runner.SweepHandle) -> None:
        shell = shell_of(self)
        if isinstance(handle, runner.SweepHandle):
            show_sweep_again(shell, handle)
            return
        if draws_widgets(shell):
            show_again(shell, handle)
            return
        label = handle.run.label
        try:
            run = show_as_text(handle)
        except KeyboardInterrupt:
            tell(say("runs.left", config.language(), label=label))
            return
        show_outputs(shell, handle, run)
        if run.state is not RunState.FINISHED and not run.stopped_as_asked:
            print(panel.run_report(run, handle.directory, config.language()))

    @_shows(verbs.RESUME)
    def dist_resume(self, again: Again) -> None:
        resume_and_show(shell_of(self), again.handle, again.changes)

    @_shows(verbs.SCALE)
    def dist_scale(self, scale: runner.Scale) -> None:
        shell = shell_of(self)
        with interrupts() as taken:
            planned = runner.plan_scale(scale, namespace=notebook_names(shell), **place_of(shell))
            run_sweep(shell, Options(), planned, taken)

    @_shows(verbs.BOARD)
    def dist_board(self, shown: Curves | Report | bool) -> None:
        if isinstance(shown, Curves):
            _show_curves(shown)
        elif isinstance(shown, bool):
            tell("ended" if shown else "no server was there")
        else:
            tell(shown.text)

    @_shows(verbs.EXPORT)
    def dist_export(self, exported: runner.Export) -> None:
        print(harmless("\n".join(runner.export_text(exported))))

    @_shows(verbs.DOCTOR)
    def dist_doctor(self, examined: Examined) -> None:
        # an import that only this verb needs
        from nbdist.doctor import report_bundle

        tell(*examined.mended)
        display(report_bundle(examined.report, config.language()), raw=True)

    @_shows(verbs.DEBUG)
    def dist_debug(self, prompt: DebugPrompt) -> None:
        prompt.run()

    @_shows(verbs.EVAL)
    def dist_eval(self, lines: Sequence[str]) -> None:
        print(harmless("\n".join(lines)))

    @_shows(verbs.SESSION)
    def dist_session(self, lines: Sequence[str]) -> None:
        tell(*lines)

    @_shows(verbs.WARM)
    def dist_warm(self, state: runner.WarmState) -> None:
        tell(*(runner.describe_warm(state) or [f"warm: {state.mode}, no ranks are ready"]))


def _paint(text: str, shade: str) -> str:
    return f"\x1b[1m{text}\x1b[0m" if shade == "bold" else text


def _show_curves(curves: Curves) -> None:
    reach, charts = curves.reach, ""
    # the browser may not reach the server
    if reach.direct or not reach.url:
        runs = [(handle.run, handle.directory) for handle in curves.handles]
        charts = panel.curves_html(runs, config.language())
    if not reach.url:
        tell(f"VisualDL cannot be shown here: {reach.problem}")
        display(HTML(charts))
        return
    display(HTML(_frame(reach.url, curves.height, charts)))
    tell(f"VisualDL: {reach.url}")


def _frame(url: str, height: int, charts: str) -> str:
    frame = (
        f'<iframe src="{html.escape(url)}" width="100%" height="{height}" style="border:0" '
        'allowfullscreen title="VisualDL"></iframe>'
    )
    frame = f'<div class="nbdist-board-frame" style="container-type:inline-size">{_NARROWER}{frame}</div>'
    if not charts:
        return frame
    name = f"nbdist-board-{secrets.token_hex(4)}"
    away = say("runs.board-away", config.language())
    return (
        f'<div id="{name}">{frame}<div data-away hidden><p>{html.escape(away)}</p>{charts}</div>'
        f"{_FIND_OUT.replace('NAME', name)}</div>"
    )
