"""How a run is shown: a widget, plain text, a static summary; all drawn from one view model."""

from nbdist.panel.follow import Surface, follow
from nbdist.panel.status import status_html, status_text, status_views
from nbdist.panel.summary import summary_html, summary_text
from nbdist.panel.text import TextSurface
from nbdist.panel.usage import UsageWatch

__all__ = [
    "Surface",
    "TextSurface",
    "UsageWatch",
    "follow",
    "status_html",
    "status_text",
    "status_views",
    "summary_html",
    "summary_text",
]
