"""The display of a run in this front end: a panel where it draws widgets, else text."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from IPython.core.getipython import get_ipython
from IPython.core.interactiveshell import InteractiveShell
from IPython.display import display

from nbdist import config, panel, runner
from nbdist.errors import LaunchError, UnknownRun
from nbdist.feed.ansi import harmless
from nbdist.feed.report_text import report_text
from nbdist.magics.presentation import cell_id, in_marimo, kernel_id, widgets_reach_outputs, write
from nbdist.model import Reason, Run
from nbdist.options import first_line
from nbdist.panel.debug_prompt import CellPrompt
from nbdist.store import LogStream
from nbdist.store.control import request_interrupt, request_stacks
from nbdist.store.results import read_media

if TYPE_CHECKING:
    from nbdist.feed.charts import Charts
    from nbdist.feed.measures import Measures
    from nbdist.panel.widget import WidgetSurface

_REPEAT_PERIOD = 0.25
_BACKLOG_PERIOD = 0.05
# a page keeps some megabytes for each, and the logs compressed
_ENDED_PANELS = 10
_ENDED_BYTES = 512 * 1024 * 1024


def show_as_text(
    handle: runner.RunHandle,
    *,
    plain: bool = False,
    show_ranks: Collection[int] | None = None,
    pause: Callable[[float], None] = time.sleep,
) -> Run:
    """Follow the run in text until it ends; return its last state. Raises UnknownRun.

    A terminal has a block with the run's state below the lines, unless ``plain``. ``show_ranks`` are local
    ranks; ``pause`` waits between two looks, in seconds.
    """
    watch, language = panel.UsageWatch(), config.language()
    # IPython's own setting
    colours = str(getattr(get_ipython(), "colors", "")).lower() != "nocolor"
    terminal = panel.Terminal(sys.stdout, colours=colours, plain=plain)
    asks = getattr(get_ipython(), "kernel", None) is not None
    with (
        contextlib.closing(CellPrompt(handle.directory, handle.keep_watched, asks=asks)) as prompt,
        panel.on_text_screen(write, terminal, language=language) as surface,
    ):
        # a notebook must stay small; a terminal has room for every line
        run = panel.follow(
            handle.directory,
            surface,
            watch=watch,
            local_ranks=show_ranks,
            whole=terminal.drawable,
            attend=prompt.attend,
            wait=pause,
        )
    print(panel.summary_text(run, handle.directory, language, watch.report(language)))
    return run


def show_as_panel(
    shell: InteractiveShell | None, handle: runner.RunHandle, *, pause: Callable[[float], None] = time.sleep
) -> Run:
    """Follow the run in a panel until it ends; return its last state. Raises UnknownRun."""
    return _Panel(shell, handle, foreground=True).follow(pause)


def show_last(handle: runner.RunHandle) -> None:
    """Show the value of the cell's last expression in rank 0 as text."""
    if text := handle.results.last_text:
        display({"text/plain": harmless(text)}, raw=True)


def show_in_background(shell: InteractiveShell | None, handle: runner.RunHandle) -> None:
    """Show the run in a panel that stays live while other cells run."""
    follow_beside(_Panel(shell, handle, foreground=False).follow, f"nbdist panel {handle.run_id}")


def follow_beside(follow: Callable[[], object], name: str) -> None:
    """Keep a panel up to date in a thread of this name, while other cells run."""

    def follow_it() -> None:
        # until its directory is deleted
        with contextlib.suppress(UnknownRun):
            follow()

    threading.Thread(target=follow_it, name=name, daemon=True).start()


def show_again(shell: InteractiveShell, handle: runner.RunHandle) -> None:
    """Show the live or ended run in a panel."""
    if handle.run.state.terminal:
        _Panel(shell, handle, foreground=False, ended=True)
        show_outputs(shell, handle, handle.run)
    else:
        show_in_background(shell, handle)


def show_outputs(shell: InteractiveShell | None, handle: runner.RunHandle, run: Run) -> None:
    """Display the outputs of the ranks below the current cell."""
    if getattr(shell, "kernel", None) is not None or in_marimo():
        for bundle in panel.output_bundles(run, handle.directory, config.language()):
            display(bundle, raw=True)


class _Panel:
    """A run in a panel, which stays when the run has ended.

    The notebook then keeps the static summary; in the page, where possible, the panel replaces it. A reloaded
    page requests everything again, from disk. Raises UnknownRun when the run's directory disappears.
    """

    def __init__(
        self,
        shell: InteractiveShell | None,
        handle: runner.RunHandle,
        *,
        foreground: bool,
        ended: bool = False,
    ) -> None:
        self._handle = handle
        self._prompt = CellPrompt(handle.directory, handle.keep_watched, asks=foreground)
        self._guard = threading.Lock()
        self._sending = False
        self._asked = threading.Event()
        # marimo changes no output of an ended cell: there the panel of a detached run stays
        self._stays = widgets_reach_outputs(shell) or (in_marimo() and not foreground)
        self._cell = cell_id(shell)
        self._run = run = handle.run
        self._measures, charts = _measures(handle, run)
        self._surface = _surface(
            shell, handle, charts, foreground=foreground, opened=ended, pulled=self._wanted
        )
        ended_panels.leave(self._cell)
        if not ended:
            bundle = self._surface.bundle({"text/html": panel.initial_html(run, config.language())})
            output = display(bundle, raw=True, display_id=True)
            assert output is not None, "display with an id gives a handle"
            self._output = output
            return
        last, notes = panel.ending(run, handle.directory, config.language())
        display(self._stay(last, notes) if self._stays else self._surface.bundle(last), raw=True)
        self._wanted()

    def follow(self, pause: Callable[[float], None] = time.sleep) -> Run:
        """Show the run until it ends; return its last state."""
        watch, surface = panel.UsageWatch(), self._surface
        try:
            with contextlib.closing(self._prompt) as prompt:
                # the page gets its backlog after the end of the cell
                run = self._follow(watch=watch, finish=False, attend=prompt.attend, wait=pause)
        except BaseException:
            surface.close()
            raise
        self._run, language = run, config.language()
        last, notes = panel.ending(run, self._handle.directory, language, watch.report(language))
        if self._stays:
            self._output.update(self._stay(last, notes), raw=True)
            self._send(whole=surface.skipped)
        else:
            surface.close()
            self._output.update(last, raw=True)
        return run

    def _follow(self, **how: Any) -> Run:
        return panel.follow(
            self._handle.directory,
            self._surface,
            measures=self._measures,
            room=self._surface.room,
            budget=lambda: self._surface.budget,
            **how,
        )

    def close(self) -> None:
        self._surface.close()

    def _stay(self, last: dict[str, str], notes: Sequence[str]) -> dict[str, Any]:
        """Return the output of an ended run."""
        directory, run = self._handle.directory, self._run
        logs = (LogStream(directory.rank(rank.rank, run.attempt).log) for rank in run.ranks)
        ended_panels.add(self._cell, min(sum(log.size for log in logs), self._surface.room), self)
        return self._surface.placed(last, notes)

    def _wanted(self) -> None:
        if self._run.state.terminal:
            self._send(whole=True)

    def _send(self, *, whole: bool) -> None:
        """Send the backlog, or the ``whole`` run again."""
        with self._guard:
            if whole:
                self._asked.set()
            if not self._sending:
                self._sending = True
                name = f"nbdist panel {self._handle.run_id}"
                threading.Thread(target=self._send_all, name=name, daemon=True).start()

    def _send_all(self) -> None:
        surface = self._surface
        if not self._asked.is_set():
            self._measures.finish(self._run)
            surface.finish()
            self._repeat()
        while self._go_on():
            # of a deleted run the page keeps the lines so far
            with contextlib.suppress(UnknownRun):
                self._follow()
                self._repeat()

    def _repeat(self) -> None:
        # a page that has just loaded the widget does not know what it misses
        while (waits := self._surface.waiting) or self._surface.early:
            if self._asked.wait(_BACKLOG_PERIOD if waits else _REPEAT_PERIOD):
                return
            self._surface.repeat()

    def _go_on(self) -> bool:
        with self._guard:
            self._sending = self._asked.is_set()
            self._asked.clear()
            # keep nothing in memory
            self._measures, charts = _measures(self._handle, self._run)
            self._surface.begin(charts)
            return self._sending


class EndedPanel(Protocol):
    def close(self) -> None:
        """Close the panel; its static output stays."""


class EndedPanels:
    """The panels of ended runs: the latest, one for each cell."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._kept: list[tuple[str, int, EndedPanel]] = []

    def add(self, cell: str, size: int, ended: EndedPanel) -> None:
        """Keep a panel of ``size`` bytes in the page; close the oldest beyond the limits."""
        gone = []
        with self._guard:
            self._kept.append((cell, size, ended))
            while len(self._kept) > _ENDED_PANELS or (
                len(self._kept) > 1 and sum(size for _, size, _ in self._kept) > _ENDED_BYTES
            ):
                gone.append(self._kept.pop(0))
        for _, _, other in gone:
            other.close()

    def leave(self, cell: str) -> None:
        """Close the panels of a cell that has new output."""
        with self._guard:
            gone = [kept for kept in self._kept if cell and kept[0] == cell]
            self._kept = [kept for kept in self._kept if kept not in gone]
        for _, _, other in gone:
            other.close()


ended_panels = EndedPanels()


def _surface(
    shell: InteractiveShell | None,
    handle: runner.RunHandle,
    charts: Charts,
    *,
    foreground: bool,
    opened: bool,
    pulled: Callable[[], None],
) -> WidgetSurface:
    # the widget stack is slow to import, and for panels alone
    from nbdist.panel.widget import PanelWidget, WidgetSurface

    directory = handle.directory
    line = first_line(handle.run.spec.shown())
    return WidgetSurface(
        PanelWidget(kernel_id=kernel_id(shell), foreground=foreground, line=line, opened=opened),
        stop=lambda: _ask(lambda: handle.request_stop(Reason("stopped-from-panel"))),
        board=lambda: _board_url(handle),
        charts=charts,
        cell=_program(handle),
        pulled=pulled,
        stacks=lambda: _ask(lambda: request_stacks(directory)),
        interrupt=lambda rank: _ask(lambda: request_interrupt(directory, rank)),
        media=lambda rank, name: read_media(directory, rank, name, handle.run.attempt),
        report=lambda language: _report(handle, language),
    )


def _report(handle: runner.RunHandle, language: str) -> str:
    """Return the run as one text; empty for a deleted directory."""
    with contextlib.suppress(UnknownRun):
        return report_text(handle.run, handle.directory, language)
    return ""


def _board_url(handle: runner.RunHandle) -> str:
    """Return the URL of VisualDL. Raises LaunchError when it does not start, or no browser reaches it."""
    reach = runner.reach_board([handle])
    if not reach.url:
        raise LaunchError(reach.problem)
    return reach.url


def _ask(request: Callable[[], object]) -> None:
    # the supervisor stops a run whose directory is deleted
    with contextlib.suppress(OSError, UnknownRun):
        request()


def _measures(handle: runner.RunHandle, run: Run) -> tuple[Measures, Charts]:
    # as the widget stack
    from nbdist.feed.charts import Charts
    from nbdist.feed.measures import Measures

    charts = Charts(created=run.spec.created, ranks=[rank.rank for rank in run.ranks])
    return Measures(handle.directory, charts), charts


def _program(handle: runner.RunHandle) -> str:
    """Return the text of the cell or script; empty for an unreadable one."""
    path = handle.directory.program(handle.run.spec.program)
    with contextlib.suppress(OSError):
        return path.read_text(encoding="utf-8", errors="replace")
    return ""
