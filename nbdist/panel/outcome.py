"""How a run came out, as text: why it did not succeed, and what a stop has ended."""

from __future__ import annotations

from nbdist.diagnosis import diagnose, failure_report
from nbdist.model import Run, RunState
from nbdist.panel.ansi import harmless
from nbdist.panel.stalling import StallReader, hung_lines
from nbdist.store import RunDirectory
from nbdist.text import reason_text, say


def run_report(run: Run, directory: RunDirectory, language: str = "en") -> str:
    """Why the run did not succeed: the first failure where a rank has failed, else its reason. Of a run that
    was stopped because that was asked for, one line."""
    return harmless(_report(run, directory, language))


def _report(run: Run, directory: RunDirectory, language: str) -> str:
    diagnosis = diagnose(run, directory)
    if run.state is RunState.FAILED and diagnosis is not None and run.reason.of_ranks:
        report = f"{run.label}: {failure_report(diagnosis, language)}"
        return report if run.spec.nodes == 1 else f"{run.label} failed: {reason_text(run.reason)}\n{report}"
    if run.stopped_as_asked:
        reason = reason_text(run.reason, language)
        return say("panel.ended-early", language, label=run.label, reason=reason)
    text = f"{run.label} {run.state.value}"
    if run.reason:
        text += f": {reason_text(run.reason)}"
    if run.state is RunState.LOST:
        text += f"; see {directory.supervisor_log}"
    stall = StallReader(directory).look(run)
    return text if stall is None else "\n".join([text, *hung_lines(stall, language)])


def stopped_text(run: Run) -> str:
    """``lenet-k3f9 cancelled: 2 processes ended``: what is said of a run that was asked to stop."""
    here = (run.ranks[spec.rank] for spec in run.spec.here)
    ended = sum(rank.exited is not None for rank in here) + run.leftover
    return f"[nbdist] {run.label} {run.state.value}: {ended} process{'' if ended == 1 else 'es'} ended"
