"""One run as a page opens it: its row, the panel's view of it, its program, and what was asked for."""

from __future__ import annotations

from typing import Any

from nbdist.panel.glance import glance
from nbdist.panel.measures import FailureWatch
from nbdist.panel.stalling import StallReader
from nbdist.panel.view import view_of
from nbdist.server.rows import row_of
from nbdist.server.streams import program_of
from nbdist.store import RunDirectory, look


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
