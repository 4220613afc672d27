"""Charts in a notebook's output, where no VisualDL can be shown."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from nbdist.model import Run
from nbdist.panel.report.plot import chart_html
from nbdist.panel.report.series import drawings, read_charts
from nbdist.panel.style import sheet
from nbdist.store import RunDirectory

_CHARTS = 12
_LOOK = Path(__file__).with_name("charts.css")


def charts_html(runs: Sequence[tuple[Run, RunDirectory]], language: str) -> str:
    """The metrics of the runs as still pictures; empty when they logged none."""
    drawn = drawings([(run.label, read_charts(run, directory)) for run, directory in runs])
    shown = [drawing for drawing in drawn if drawing.group == "metric"][:_CHARTS]
    if not shown:
        return ""
    charts = "".join(chart_html(drawing, language, data=False) for drawing in shown)
    rules = sheet("nbdist-charts", _LOOK.read_text(encoding="utf-8"))
    return f'{rules}<div class="nbdist-charts"><div class="r-grid-of">{charts}</div></div>'
