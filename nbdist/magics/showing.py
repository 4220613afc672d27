"""Shows a run in the front end that asks: as a panel where widgets are drawn, else as text."""

from __future__ import annotations

import contextlib
import sys
import threading
from typing import TYPE_CHECKING

from IPython.core.interactiveshell import InteractiveShell
from IPython.display import HTML, DisplayHandle, display

from nbdist import config, runner
from nbdist.errors import UnknownRun
from nbdist.magics.presentation import kernel_id
from nbdist.model import Run
from nbdist.panel import TextSurface, UsageWatch, follow, summary_html, summary_text

if TYPE_CHECKING:
    from nbdist.panel.widget import WidgetSurface


def show_as_text(handle: runner.RunHandle) -> Run:
    """Follow the run in text until it ends; how it ended. Raises UnknownRun."""
    watch = UsageWatch()
    run = follow(handle.directory, TextSurface(_write), watch=watch)
    language = config.language()
    print(summary_text(run, handle.directory, language, watch.report(language)))
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


def _open_panel(
    shell: InteractiveShell, handle: runner.RunHandle, *, foreground: bool
) -> tuple[WidgetSurface, DisplayHandle]:
    # the widget stack takes a while to import and is not needed for text
    from nbdist.panel.widget import WidgetSurface

    surface = WidgetSurface(
        kernel_id=kernel_id(shell),
        foreground=foreground,
        stop=lambda: runner.request_stop_of(handle, "stopped from the panel"),
    )
    bundle = surface.bundle(handle.run, config.language())
    output = display(bundle, raw=True, display_id=True)
    assert output is not None, "display with an id gives a handle"
    return surface, output


def _follow_in_panel(handle: runner.RunHandle, surface: WidgetSurface, output: DisplayHandle) -> Run:
    watch = UsageWatch()
    try:
        run = follow(handle.directory, surface, watch=watch)
    finally:
        surface.close()
    language = config.language()
    output.update(HTML(summary_html(run, handle.directory, language, watch.report(language))))
    return run


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
