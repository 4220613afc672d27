"""How a run is shown: a widget, plain text, a static summary; all drawn from one view model."""

from nbdist.panel.follow import Surface, follow
from nbdist.panel.outcome import run_report, stopped_text
from nbdist.panel.status import status_html, status_text, status_views
from nbdist.panel.summary import summary_html, summary_text
from nbdist.panel.text import LogSurface, TextSurface, rank_prefix
from nbdist.panel.usage import UsageWatch

__all__ = [
    "LogSurface",
    "Surface",
    "TextSurface",
    "UsageWatch",
    "follow",
    "rank_prefix",
    "run_report",
    "status_html",
    "status_text",
    "status_views",
    "stopped_text",
    "summary_html",
    "summary_text",
]
