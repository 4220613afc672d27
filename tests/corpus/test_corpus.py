"""Runs as they were written by earlier versions, and what was shown of them: they are read as they were then.

The oldest know reasons as sentences. The files of a row are never changed, only what today's version
shows of them. A version that writes something new adds a row.
One was: of a session it is no longer asked whether each rank did the whole work, which its cells decide.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from nbdist.feed.summary import run_report
from nbdist.model import Run
from nbdist.panel.summary_view import summary_text
from nbdist.runner import RunHandle
from nbdist.store import RunDirectory, snapshot
from nbdist.store.journal import read_events
from nbdist.store.run_store import read_spec
from nbdist.text import reason_text

RUNS = [json.loads(line) for line in (Path(__file__).parent / "runs.jsonl").read_text().splitlines()]


def laid_out(home: Path, recorded: Mapping[str, Any]) -> RunDirectory:
    """The files of a run as they were, where they may be now."""
    directory = RunDirectory(home / json.loads(recorded["files"]["spec.json"])["run_id"])
    home.chmod(0o700)
    for name, text in (*recorded["files"].items(), ("events.jsonl", "\n".join(recorded["journal"]) + "\n")):
        path = directory.path / name
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.write_text(text.replace("RUN/", f"{directory.path}/"))
    return directory


def read(directory: RunDirectory) -> dict[str, object]:
    run = snapshot(directory)
    step, queued = Run.of(read_spec(directory)), []
    for event in read_events(directory.journal):
        step = step.after(event)
        if step.queued and reason_text(step.queued) not in queued[-1:]:
            queued.append(reason_text(step.queued))
    return {
        "state": run.state.value,
        "reason": reason_text(run.reason),
        "stop_reason": reason_text(run.stop_reason),
        "queued": queued,
        "failures": [reason_text(reason) for reason in run.failures],
        "timed_out": run.timed_out,
        "as_asked": run.stopped_as_asked,
        "summary": summary_text(run, directory, "en").replace(str(directory.path), "RUN"),
        "metrics": RunHandle(directory).metrics(),
        "results": dict(RunHandle(directory).results),
        "report": run_report(run, directory).replace(str(directory.path), "RUN"),
    }


@pytest.mark.parametrize("recorded", RUNS, ids=lambda recorded: recorded["name"])
def test_an_old_run_is_read_as_it_was(recorded: Mapping[str, Any], tmp_path: Path) -> None:
    contents = read(laid_out(tmp_path, recorded))

    assert {name: contents[name] for name in recorded["read"]} == recorded["read"]
