"""What ``--fix`` can do by itself: put the page's extensions where this user's Jupyter looks."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from nbdist import labextension_install
from nbdist.doctor.notebook import LABEXTENSION, WIDGETS
from nbdist.doctor.report import Report
from nbdist.errors import LaunchError


def install_labextension() -> str:
    """Install it, and say what to do next. Raises LaunchError where it cannot be written."""
    try:
        place = labextension_install.install()
    except OSError as error:
        raise LaunchError(f"the JupyterLab extension could not be copied: {error}") from None
    return f"the JupyterLab extension is in {place}: reload the page"


def install_widgets() -> str:
    """Install what draws widgets, and say what to do next. Raises LaunchError where it cannot be written."""
    try:
        places = labextension_install.install_widgets()
    except OSError as error:
        raise LaunchError(f"what draws widgets could not be copied: {error}") from None
    return f"what draws widgets is in {places[-1].parent}: reload the page"


REPAIRS: Mapping[str, Callable[[], str]] = {LABEXTENSION: install_labextension, WIDGETS: install_widgets}


def repair(report: Report, repairs: Mapping[str, Callable[[], str]] = REPAIRS) -> list[str]:
    """Mend what can be mended of what was found, each once; a line for each.

    Raises LaunchError or UsageMistake for what could not be.
    """
    wanted = dict.fromkeys(entry.repair for entry in report.entries if entry.repair in repairs)
    return [repairs[name]() for name in wanted]
