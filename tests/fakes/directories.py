"""A run's directory that a test writes, in the place of the supervisor and the ranks."""

from __future__ import annotations

import json
from pathlib import Path

from nbdist.model import Event, Run, RunSpec, encode_event
from nbdist.store import RunStore, snapshot
from nbdist.store.logs import LogGap
from tests.fakes.runs import CREATED, a_spec


class WrittenRun:
    """One run under ``home``. Nothing of it runs; all of it can be read."""

    def __init__(self, home: Path, spec: RunSpec | None = None, *, cell: str = "import torch\n") -> None:
        self.spec = spec or a_spec()
        self.directory = RunStore(home).create(self.spec, cell)

    @property
    def run(self) -> Run:
        run = snapshot(self.directory)
        assert run is not None, "a test's own spec can be read"
        return run

    def happened(self, *events: Event) -> WrittenRun:
        with self.directory.journal.open("a") as journal:
            journal.writelines(encode_event(event) + "\n" for event in events)
        return self

    def printed(self, rank: int, output: str | bytes) -> WrittenRun:
        with self.directory.rank(rank).log.open("ab") as log:
            log.write(output.encode() if isinstance(output, str) else output)
        return self

    def shortened(self, rank: int, room: int) -> WrittenRun:
        """Shorten a log of more than ``room`` bytes as the supervisor does."""
        log = self.directory.rank(rank).log
        LogGap(str(log), room).widen(log.stat().st_size)
        return self

    def recorded(self, rank: int, **values: float) -> WrittenRun:
        with self.directory.rank(rank).metrics.open("a") as metrics:
            metrics.write(json.dumps({"t": CREATED, "v": values}) + "\n")
        return self

    def raised(
        self, rank: int, kind: str, message: str, *, time: float = CREATED + 10, **more: object
    ) -> WrittenRun:
        """Write a report; ``more`` are other fields of ``store.reports.ErrorReport``."""
        report = {"type": kind, "message": message, "time": time, "text": "", "near": ""}
        report |= dict.fromkeys(("frames", "full", "operands", "values"), ()) | more
        self.directory.rank(rank).error.write_text(json.dumps(report))
        return self
