"""Shows a run in the front end that asks: as a panel where widgets are drawn, else as text."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from IPython.core.getipython import get_ipython
from IPython.core.interactiveshell import InteractiveShell
from IPython.display import DisplayHandle, display

from nbdist import config, panel, runner
from nbdist.errors import UnknownRun
from nbdist.magics.presentation import kernel_id
from nbdist.model import Run

if TYPE_CHECKING:
    from nbdist.panel.charts import Charts
    from nbdist.panel.widget import WidgetSurface

_REPEAT_PERIOD = 0.25


def show_as_text(handle: runner.RunHandle, *, plain: bool = False) -> Run:
    """Follow the run in text until it ends; how it ended. Raises UnknownRun.

    On a terminal a block below the lines says how the run stands, unless ``plain`` asks for lines alone.
    """
    watch, language = panel.UsageWatch(), config.language()
    # IPython's own setting holds for what its magics show, too
    colours = str(getattr(get_ipython(), "colors", "")).lower() != "nocolor"
    terminal = panel.Terminal(sys.stdout, colours=colours, plain=plain)
    with panel.on_text_screen(_write, terminal, language=language) as surface:
        # a notebook must stay small, and a terminal has room for every line
        run = panel.follow(handle.directory, surface, watch=watch, whole=terminal.drawable)
    print(panel.summary_text(run, handle.directory, language, watch.report(language)))
    return run


def show_as_panel(shell: InteractiveShell, handle: runner.RunHandle) -> Run:
    """Follow the run in a panel until it ends; how it ended. Raises UnknownRun."""
    surface, output = _open_panel(shell, handle, foreground=True)
    return _follow_in_panel(handle, surface, output)


def show_in_background(shell: InteractiveShell, handle: runner.RunHandle) -> None:
    """Show the run in a panel that lives on while other cells run."""
    surface, output = _open_panel(shell, handle, foreground=False)

    def follow_it() -> None:
        # a run whose directory is deleted has nothing more to show
        with contextlib.suppress(UnknownRun):
            _follow_in_panel(handle, surface, output)

    threading.Thread(target=follow_it, name=f"nbdist panel {handle.run_id}", daemon=True).start()


def show_again(shell: InteractiveShell, handle: runner.RunHandle) -> None:
    """Show the run in a panel that somebody asked for: one that stays when the run has ended before."""
    if handle.run.state.terminal:
        _EndedPanel(shell, handle).wanted()
    else:
        show_in_background(shell, handle)


class _EndedPanel:
    """A run that has ended, in a panel that stays: every line, searchable, and its charts.

    The page keeps what it got. One that came late, or was loaded again, asks for all of it, and gets it
    from disk. In a notebook that was saved, the static summary stands in for the panel.
    """

    def __init__(self, shell: InteractiveShell, handle: runner.RunHandle) -> None:
        self._handle = handle
        self._guard = threading.Lock()
        self._sending = False
        self._asked = threading.Event()
        run, language = handle.run, config.language()
        self._surface = _surface(shell, handle, foreground=False, pulled=self.wanted)
        summary = panel.summary_bundle(run, handle.directory, language)
        display(self._surface.bundle(summary), raw=True)

    def wanted(self) -> None:
        """Send everything to the page, for the first time or again."""
        with self._guard:
            self._asked.set()
            if not self._sending:
                self._sending = True
                name = f"nbdist panel {self._handle.run_id}"
                threading.Thread(target=self._send, name=name, daemon=True).start()

    def _send(self) -> None:
        while self._go_on():
            try:
                charts = _charts(self._handle)
                self._surface.begin(charts)
                panel.follow(self._handle.directory, self._surface, charts=charts, room=self._surface.room)
            except UnknownRun:
                continue  # deleted meanwhile: the page keeps what it has
            # the page may only now have loaded the widget, and then knows of nothing to ask for
            while self._surface.early and not self._asked.wait(_REPEAT_PERIOD):
                self._surface.repeat()

    def _go_on(self) -> bool:
        with self._guard:
            self._sending = self._asked.is_set()
            self._asked.clear()
            return self._sending


def _open_panel(
    shell: InteractiveShell, handle: runner.RunHandle, *, foreground: bool
) -> tuple[WidgetSurface, DisplayHandle]:
    surface = _surface(shell, handle, foreground=foreground)
    bundle = surface.bundle({"text/html": panel.initial_html(handle.run, config.language())})
    output = display(bundle, raw=True, display_id=True)
    assert output is not None, "display with an id gives a handle"
    return surface, output


def _surface(
    shell: InteractiveShell,
    handle: runner.RunHandle,
    *,
    foreground: bool,
    pulled: Callable[[], None] = lambda: None,
) -> WidgetSurface:
    # the widget stack takes a while to import and is not needed for text
    from nbdist.panel.widget import PanelWidget, WidgetSurface

    def stop() -> None:
        # a run whose directory is deleted is stopped by its supervisor
        with contextlib.suppress(UnknownRun):
            runner.request_stop_of(handle, "stopped from the panel")

    return WidgetSurface(
        PanelWidget(kernel_id=kernel_id(shell), foreground=foreground),
        stop=stop,
        board=lambda: runner.board_url([handle]),
        charts=_charts(handle),
        cell=_program(handle),
        pulled=pulled,
    )


def _charts(handle: runner.RunHandle) -> Charts:
    # for panels alone, as the widget stack
    from nbdist.panel.charts import Charts

    spec = handle.run.spec
    return Charts(created=spec.created, ranks=[rank.rank for rank in spec.ranks])


def _program(handle: runner.RunHandle) -> str:
    """The cell, or the script that the run is of; empty when it cannot be read."""
    program = handle.run.spec.program
    path = handle.directory.cell if handle.directory.is_cell(program) else Path(program)
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _follow_in_panel(handle: runner.RunHandle, surface: WidgetSurface, output: DisplayHandle) -> Run:
    watch = panel.UsageWatch()
    try:
        # the summary takes the panel's place: what the page has not got by then, nobody would see
        run = panel.follow(
            handle.directory,
            surface,
            watch=watch,
            charts=surface.charts,
            room=surface.room,
            finish=False,
        )
    finally:
        surface.close()
    language = config.language()
    output.update(panel.summary_bundle(run, handle.directory, language, watch.report(language)), raw=True)
    return run


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
