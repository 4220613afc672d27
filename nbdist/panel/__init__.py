"""The display of a run: a widget, plain text, a static summary, all drawn from one view model.

Its modules load when something is shown: the extension must load quickly.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nbdist.feed.following import follow as follow
    from nbdist.feed.summary import run_report as run_report
    from nbdist.feed.summary import stopped_text as stopped_text
    from nbdist.feed.view import UsageWatch as UsageWatch
    from nbdist.panel.cells import CellOutput as CellOutput
    from nbdist.panel.cells import cell_report as cell_report
    from nbdist.panel.cells import ranks_kept as ranks_kept
    from nbdist.panel.comparison_view import SweepLines as SweepLines
    from nbdist.panel.comparison_view import comparison_bundle as comparison_bundle
    from nbdist.panel.comparison_view import comparison_text as comparison_text
    from nbdist.panel.comparison_view import follow_sweep as follow_sweep
    from nbdist.panel.comparison_view import sweep_bundle as sweep_bundle
    from nbdist.panel.comparison_view import sweep_failures as sweep_failures
    from nbdist.panel.comparison_view import sweep_headline as sweep_headline
    from nbdist.panel.comparison_view import sweep_text as sweep_text
    from nbdist.panel.outputs import output_bundles as output_bundles
    from nbdist.panel.overview import Overview as Overview
    from nbdist.panel.report_file import write_report as write_report
    from nbdist.panel.status import StatusReader as StatusReader
    from nbdist.panel.status import status_text as status_text
    from nbdist.panel.summary_view import curves_html as curves_html
    from nbdist.panel.summary_view import ending as ending
    from nbdist.panel.summary_view import initial_html as initial_html
    from nbdist.panel.summary_view import summary_bundle as summary_bundle
    from nbdist.panel.summary_view import summary_text as summary_text
    from nbdist.panel.terminal import Terminal as Terminal
    from nbdist.panel.terminal import on_text_screen as on_text_screen
    from nbdist.panel.text import LogSurface as LogSurface

_LATER = {
    "nbdist.feed.following": "follow",
    "nbdist.feed.summary": "run_report stopped_text",
    "nbdist.feed.view": "UsageWatch",
    "nbdist.panel.cells": "CellOutput cell_report ranks_kept",
    "nbdist.panel.comparison_view": "SweepLines comparison_bundle comparison_text follow_sweep"
    " sweep_bundle sweep_failures sweep_headline sweep_text",
    "nbdist.panel.outputs": "output_bundles",
    "nbdist.panel.overview": "Overview",
    "nbdist.panel.report_file": "write_report",
    "nbdist.panel.status": "StatusReader status_text",
    "nbdist.panel.summary_view": "curves_html ending initial_html summary_bundle summary_text",
    "nbdist.panel.terminal": "Terminal on_text_screen",
    "nbdist.panel.text": "LogSurface",
}


def __getattr__(name: str) -> Any:
    for module, names in _LATER.items():
        if name in names.split():
            return getattr(import_module(module), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
