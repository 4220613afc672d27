"""One run as a page opens it: its row, the panel's view of it, its program, and what was asked for; and what
a notebook keeps of it when it has ended."""

from __future__ import annotations

from typing import Any

from nbdist.errors import UsageMistake
from nbdist.panel.glance import glance
from nbdist.panel.measures import FailureWatch
from nbdist.panel.stalling import StallReader
from nbdist.panel.view import view_of
from nbdist.server.rows import row_of
from nbdist.server.streams import program_of
from nbdist.store import RunDirectory, look

LANGUAGES = ("en", "zh")


def detail_of(directory: RunDirectory, now: float) -> dict[str, Any] | None:
    """``RunDetail`` in openapi.yaml; None when the run cannot be read."""
    run = look(directory)
    if run is None:
        return None
    seen = glance(run, directory, now)
    view = view_of(
        run,
        now=now,
        last_lines=seen.last_lines,
        system=seen.system,
        rates=seen.rates,
        progress=seen.progress,
        failure=FailureWatch(directory).look(run),
        stall=StallReader(directory).look(run),
        slow=seen.slow,
    )
    return {
        "row": row_of(run, directory, now).to_dict(),
        "view": view.to_dict(),
        "cell": program_of(directory),
        "spec": run.spec.shown().to_dict(),
    }


def summary_of(directory: RunDirectory, language: str) -> dict[str, str] | None:
    """The static summary, by the type of its content; None when the run cannot be read. Raises UsageMistake
    while the run goes on."""
    # it reads programs, and a page asks for it seldom
    from nbdist.panel import summary_bundle

    run = look(directory)
    if run is None:
        return None
    if not run.state.terminal:
        raise UsageMistake(f"run {run.label} goes on")
    return summary_bundle(run, directory, language)
