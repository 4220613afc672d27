"""A sweep in a notebook: its start from a cell, and one panel of its points."""

from __future__ import annotations

import contextlib

from IPython.core.interactiveshell import InteractiveShell
from IPython.display import display

from nbdist import config, options, panel, runner
from nbdist.errors import RunFailed, UnknownRun
from nbdist.feed.sweep_state import SweepTable, SweepView
from nbdist.magics.cell_check import name_origins
from nbdist.magics.presentation import (
    cell_id,
    draws_widgets,
    kernel_id,
    stopped,
    stopped_with_its_cell,
    tell,
    widgets_reach_outputs,
    without_frames,
    write,
)
from nbdist.magics.showing import ended_panels, follow_beside
from nbdist.model import Reason, RunState
from nbdist.text import say

_LOOK = 1.0  # seconds between two looks for a page, which receives the whole sweep each time


def run_sweep(
    shell: InteractiveShell | None,
    chosen: options.Options,
    planned: runner.SweepPlan,
    taken: runner.Interrupts,
    *,
    typed: str = "",
    raises: bool = True,
) -> runner.SweepHandle | None:
    """Start a sweep, and show it until it ends unless it is detached. Return it if it is detached or not
    ``raises``. Raises UsageMistake or LaunchError before the start; if ``raises``, RunFailed for a failed
    point and RunStopped for a stop."""
    handle, notes = runner.launch_sweep(
        planned, taken, check=chosen.check, origin=name_origins(shell), typed=typed
    )
    with stopped_with_its_cell(handle, taken):
        tell(*notes, runner.pruner.removed())
        drawing = shell if shell is not None and chosen.panel and draws_widgets(shell) else None
        if chosen.detach:
            _show_detached(drawing, handle)
            return handle
        view = show_sweep_as_text(handle) if drawing is None else _show(drawing, handle)
    if raises:
        _raise(view, drawn=drawing is not None)
    return None if raises else handle


def show_sweep_as_text(handle: runner.SweepHandle) -> SweepView:
    """Write a line for each ended point, then the table. Raises RunFailed when the directory disappears."""
    language = config.language()
    lines = panel.SweepLines(write, language)
    try:
        view = panel.follow_sweep(handle.look, lines.show)
    except UnknownRun as gone:
        raise without_frames(RunFailed(str(gone))) from None
    write(f"{panel.sweep_text(view, language)}\n")
    return view


def show_sweep_again(shell: InteractiveShell, handle: runner.SweepHandle) -> None:
    """Show a live or ended sweep."""
    if not draws_widgets(shell):
        show_sweep_as_text(handle)
    elif handle.look().live:
        _show_detached(shell, handle)
    else:
        _show(shell, handle)


def _raise(view: SweepView, *, drawn: bool) -> None:
    state, language = view.state, config.language()
    if state is RunState.FINISHED:
        return
    if state is RunState.STOPPED:
        raise stopped(panel.sweep_headline(view, language))
    describe = panel.sweep_failures if view.counts["failed"] else panel.sweep_headline
    raise without_frames(RunFailed(describe(view, language)), brief=drawn)


def _show_detached(shell: InteractiveShell | None, handle: runner.SweepHandle) -> None:
    """Show the sweep in a panel, if there is a ``shell`` to draw it."""
    if shell is None:
        tell(say("runs.sweep-detached", config.language(), label=handle.label))
        return
    follow_beside(_SweepPanel(shell, handle, foreground=False).follow, f"nbdist sweep {handle.label}")


def _show(shell: InteractiveShell, handle: runner.SweepHandle) -> SweepView:
    try:
        return _SweepPanel(shell, handle, foreground=True).follow()
    except UnknownRun as gone:
        raise without_frames(RunFailed(str(gone))) from None


class _SweepPanel:
    """A sweep in a panel. The notebook then keeps the static table; in the page, where possible, the panel
    replaces it while page and kernel live."""

    def __init__(self, shell: InteractiveShell, handle: runner.SweepHandle, *, foreground: bool) -> None:
        # the widget stack is slow to import, and for panels alone
        from nbdist.panel.widget import SweepWidget

        self._handle = handle
        self._table = SweepTable(config.language())
        self._stays = widgets_reach_outputs(shell)
        self._cell = cell_id(shell)
        self._widget = SweepWidget(kernel_id=kernel_id(shell), foreground=foreground, stop=self._stop)
        self._send(handle.look())
        ended_panels.leave(self._cell)
        data, _ = self._widget._repr_mimebundle_() or ({}, {})
        output = display({**data, "text/plain": handle.label}, raw=True, display_id=True)
        assert output is not None, "display with an id gives a handle"
        self._output = output

    def follow(self) -> SweepView:
        """Show the sweep until it ends; return its last view. Raises UnknownRun."""
        try:
            view = panel.follow_sweep(self._handle.look, self._send, least=_LOOK)
        except BaseException:
            self.close()
            raise
        bundle = panel.sweep_bundle(view, config.language())
        if self._stays:
            self._widget.placed = True
            page = f'<div data-nbdist-panel="{self._widget.panel_id}">{bundle["text/html"]}</div>'
            bundle |= {"text/html": page}
            ended_panels.add(self._cell, len(str(self._widget.sweep)), self)
        else:
            self.close()
        self._output.update(bundle, raw=True)
        return view

    def close(self) -> None:
        self._widget.close()

    def _send(self, view: SweepView) -> None:
        self._widget.sweep = self._table.data(view)

    def _stop(self) -> None:
        # a deleted sweep is stopped already
        with contextlib.suppress(OSError):
            self._handle.request_stop(Reason("stopped-from-panel"))
