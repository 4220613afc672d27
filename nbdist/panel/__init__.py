"""How a run is shown: a widget, plain text, a static summary; all drawn from one view model.

What is only needed once something is shown is imported then: loading the extension must be quick.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nbdist.feed.following import Surface, follow, only_ranks
    from nbdist.feed.summary import run_report, stopped_text
    from nbdist.feed.view import UsageWatch
    from nbdist.panel.cells import CellOutput, cell_report
    from nbdist.panel.comparison import comparison_bundle, comparison_text
    from nbdist.panel.outputs import output_bundles
    from nbdist.panel.report import write_report
    from nbdist.panel.status import (
        StatusReader,
        status_bundle,
        status_html,
        status_text,
        status_views,
        watch_status,
    )
    from nbdist.panel.summary import (
        curves_html,
        ending,
        initial_html,
        summary_bundle,
        summary_html,
        summary_text,
    )
    from nbdist.panel.sweeps import (
        SweepLines,
        follow_sweep,
        sweep_bundle,
        sweep_failures,
        sweep_headline,
        sweep_text,
    )
    from nbdist.panel.terminal import Block, Line, Terminal, on_text_screen
    from nbdist.panel.text import LogSurface, TextSurface, rank_prefix

__all__ = [
    "Block",
    "CellOutput",
    "Line",
    "LogSurface",
    "StatusReader",
    "Surface",
    "SweepLines",
    "Terminal",
    "TextSurface",
    "UsageWatch",
    "cell_report",
    "comparison_bundle",
    "comparison_text",
    "curves_html",
    "ending",
    "follow",
    "follow_sweep",
    "initial_html",
    "on_text_screen",
    "only_ranks",
    "output_bundles",
    "rank_prefix",
    "run_report",
    "status_bundle",
    "status_html",
    "status_text",
    "status_views",
    "stopped_text",
    "summary_bundle",
    "summary_html",
    "summary_text",
    "sweep_bundle",
    "sweep_failures",
    "sweep_headline",
    "sweep_text",
    "watch_status",
    "write_report",
]

_LATER = {
    "nbdist.feed.following": ("Surface", "follow", "only_ranks"),
    "nbdist.feed.summary": ("run_report", "stopped_text"),
    "nbdist.feed.view": ("UsageWatch",),
    "nbdist.panel.cells": ("CellOutput", "cell_report"),
    "nbdist.panel.comparison": ("comparison_bundle", "comparison_text"),
    "nbdist.panel.outputs": ("output_bundles",),
    "nbdist.panel.report": ("write_report",),
    "nbdist.panel.status": (
        "StatusReader",
        "status_bundle",
        "status_html",
        "status_text",
        "status_views",
        "watch_status",
    ),
    "nbdist.panel.summary": (
        "curves_html",
        "ending",
        "initial_html",
        "summary_bundle",
        "summary_html",
        "summary_text",
    ),
    "nbdist.panel.sweeps": (
        "SweepLines",
        "follow_sweep",
        "sweep_bundle",
        "sweep_failures",
        "sweep_headline",
        "sweep_text",
    ),
    "nbdist.panel.terminal": ("Block", "Line", "Terminal", "on_text_screen"),
    "nbdist.panel.text": ("LogSurface", "TextSurface", "rank_prefix"),
}


def __getattr__(name: str) -> Any:
    for module, names in _LATER.items():
        if name in names:
            return getattr(import_module(module), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
