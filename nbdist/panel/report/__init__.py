"""Runs as one HTML file to share: what they said, drew and measured, with nothing else to load."""

from nbdist.panel.report.plot import charts_html
from nbdist.panel.report.report import Report, write_report

__all__ = ["Report", "charts_html", "write_report"]
