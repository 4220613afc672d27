"""Shows a run in the front end that asks: as a panel where widgets are drawn, else as text."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from IPython.core.getipython import get_ipython
from IPython.core.interactiveshell import InteractiveShell
from IPython.display import DisplayHandle, display

from nbdist import config, panel, runner
from nbdist.errors import UnknownRun
from nbdist.magics.presentation import kernel_id, widgets_reach_outputs
from nbdist.model import Run
from nbdist.store.control import request_interrupt, request_stacks

if TYPE_CHECKING:
    from nbdist.panel.charts import Charts
    from nbdist.panel.widget import WidgetSurface

_REPEAT_PERIOD = 0.25
_BACKLOG_PERIOD = 0.05


def show_as_text(
    handle: runner.RunHandle,
    *,
    plain: bool = False,
    show_ranks: Collection[int] | None = None,
    pause: Callable[[float], None] = time.sleep,
) -> Run:
    """Follow the run in text until it ends; how it ended. Raises UnknownRun.

    On a terminal a block below the lines says how the run stands, unless ``plain`` asks for lines alone.
    ``show_ranks`` are the local ranks whose lines are shown. ``pause`` waits between two looks, in seconds.
    """
    watch, language = panel.UsageWatch(), config.language()
    # IPython's own setting holds for what its magics show, too
    colours = str(getattr(get_ipython(), "colors", "")).lower() != "nocolor"
    terminal = panel.Terminal(sys.stdout, colours=colours, plain=plain)
    with panel.on_text_screen(_write, terminal, language=language) as surface:
        # a notebook must stay small, and a terminal has room for every line
        shown = panel.only_ranks(surface, handle.run.spec, show_ranks)
        run = panel.follow(handle.directory, shown, watch=watch, whole=terminal.drawable, wait=pause)
    print(panel.summary_text(run, handle.directory, language, watch.report(language)))
    return run


def show_as_panel(
    shell: InteractiveShell, handle: runner.RunHandle, *, pause: Callable[[float], None] = time.sleep
) -> Run:
    """Follow the run in a panel until it ends; how it ended. ``pause`` waits between two looks, in seconds.
    Raises UnknownRun."""
    surface, output = _open_panel(shell, handle, foreground=True)
    return _follow_in_panel(handle, surface, output, pause)


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
    from disk. The output is the static summary, which is what a notebook keeps; where the page allows it,
    the panel takes its place there.
    """

    def __init__(self, shell: InteractiveShell, handle: runner.RunHandle) -> None:
        self._handle = handle
        self._guard = threading.Lock()
        self._sending = False
        self._asked = threading.Event()
        run, language = handle.run, config.language()
        placed = widgets_reach_outputs(shell)
        self._surface = surface = _surface(shell, handle, foreground=False, placed=placed, pulled=self.wanted)
        summary = panel.summary_bundle(run, handle.directory, language)
        display(surface.placed(summary) if placed else surface.bundle(summary), raw=True)

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
                panel.follow(
                    self._handle.directory,
                    self._surface,
                    charts=charts,
                    room=self._surface.room,
                    bite=lambda: self._surface.bite,
                )
            except UnknownRun:
                continue  # deleted meanwhile: the page keeps what it has
            # the page may only now have loaded the widget, and then knows of nothing to ask for
            while (waits := self._surface.waiting) or self._surface.early:
                if self._asked.wait(_BACKLOG_PERIOD if waits else _REPEAT_PERIOD):
                    break
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
    placed: bool = False,
    pulled: Callable[[], None] = lambda: None,
) -> WidgetSurface:
    # the widget stack takes a while to import and is not needed for text
    from nbdist.panel.widget import PanelWidget, WidgetSurface

    def stop() -> None:
        # a run whose directory is deleted is stopped by its supervisor
        with contextlib.suppress(UnknownRun):
            runner.request_stop_of(handle, "stopped from the panel")

    return WidgetSurface(
        PanelWidget(kernel_id=kernel_id(shell), foreground=foreground, placed=placed),
        stop=stop,
        board=lambda: runner.board_url([handle]),
        charts=_charts(handle),
        cell=_program(handle),
        pulled=pulled,
        stacks=lambda: _ask(lambda: request_stacks(handle.directory)),
        interrupt=lambda rank: _ask(lambda: request_interrupt(handle.directory, rank)),
    )


def _ask(request: Callable[[], object]) -> None:
    # a run whose directory was deleted is stopped by its supervisor
    with contextlib.suppress(OSError):
        request()


def _charts(handle: runner.RunHandle) -> Charts:
    # for panels alone, as the widget stack
    from nbdist.panel.charts import Charts

    spec = handle.run.spec
    return Charts(created=spec.created, ranks=[rank.rank for rank in spec.ranks])


def _program(handle: runner.RunHandle) -> str:
    """The cell, or the script that the run is of; empty when it cannot be read."""
    path = handle.directory.program(handle.run.spec.program)
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _follow_in_panel(
    handle: runner.RunHandle,
    surface: WidgetSurface,
    output: DisplayHandle,
    pause: Callable[[float], None] = time.sleep,
) -> Run:
    watch = panel.UsageWatch()
    try:
        # the summary takes the panel's place: what the page has not got by then, nobody would see
        run = panel.follow(
            handle.directory,
            surface,
            watch=watch,
            charts=surface.charts,
            room=surface.room,
            bite=lambda: surface.bite,
            finish=False,
            wait=pause,
        )
    finally:
        surface.close()
    language = config.language()
    output.update(panel.summary_bundle(run, handle.directory, language, watch.report(language)), raw=True)
    return run


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
