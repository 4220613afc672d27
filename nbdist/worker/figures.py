"""matplotlib's backend in a rank whose notebook has the inline one: ``show`` passes the open figures to
``display`` and closes them, as the inline one does. Only matplotlib imports this module."""

from __future__ import annotations

from typing import Any

from matplotlib._pylab_helpers import Gcf  # type: ignore[import-not-found,unused-ignore]
from matplotlib.backend_bases import FigureManagerBase  # type: ignore[import-not-found,unused-ignore]
from matplotlib.backends.backend_agg import FigureCanvasAgg  # type: ignore[import-not-found,unused-ignore]

from nbdist.worker.display import display


class FigureManager(FigureManagerBase):  # type: ignore[misc,unused-ignore]
    def show(self) -> None:
        """Show this figure (``Figure.show``)."""
        display(self.canvas.figure)


class FigureCanvas(FigureCanvasAgg):  # type: ignore[misc,unused-ignore]
    manager_class = FigureManager


def show(*_: Any, **__: Any) -> None:
    """Show every open figure that is not empty, and close all (``pyplot.show``)."""
    for manager in Gcf.get_all_fig_managers():
        if manager.canvas.figure.get_children()[1:]:
            display(manager.canvas.figure)
    Gcf.destroy_all()
