"""The processes that look at a run of many ranks, and the one that is its ranks.

    python scale_cases.py ranks RUN_DIR SECONDS     what so many ranks write: lines, points, measurements
    python scale_cases.py panel RUN_DIR SECONDS     a notebook's panel, with a page that only counts
    python scale_cases.py status RUN_DIR SECONDS    %dist_status, once a second
    python scale_cases.py board RUN_DIR SECONDS     what VisualDL reads, made as the board server does

Each prints what it saw as one line of JSON.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from nbdist.board.scalars import Feed
from nbdist.feed.charts import Charts
from nbdist.feed.following import follow
from nbdist.feed.measures import Measures
from nbdist.panel.status import StatusReader, status_text
from nbdist.panel.widget import WidgetSurface
from nbdist.store import RunDirectory, RunReader

LINES = 2.0
"""Lines a second of each rank; half as many points, and a measurement every two seconds."""


def ranks(directory: RunDirectory, seconds: float) -> dict[str, float]:
    """Write like the recorded ranks, each at their pace."""
    count = len(list((directory.path / "ranks").iterdir()))
    period = 1.0 / LINES / count
    lines = directory.rank(0).log.read_bytes().splitlines(keepends=True)
    begun, number = time.monotonic(), 0
    while (now := time.monotonic()) < begun + seconds:
        if (ahead := begun + number * period - now) > 0:
            time.sleep(min(ahead, 0.02))
            continue
        turn, rank = divmod(number, count)
        files, moment = directory.rank(rank), time.time()
        _append(files.log, lines[turn % len(lines)])
        if turn % 2 == 0:
            _append_json(
                files.metrics, {"t": moment, "step": 1000 + turn, "v": {"loss": 0.1, "accuracy": 0.9}}
            )
        if turn % 4 == 1:
            used = {"cpu": 99.0, "memory": 1e9, "memory_total": 64e9}
            _append_json(files.system, {"t": moment, "v": used})
        number += 1
    return {"lines": number / (time.monotonic() - begun)}


def _append(path: Path, data: bytes) -> None:
    with open(path, "ab", buffering=0) as file:
        file.write(data)


def _append_json(path: Path, value: dict[str, Any]) -> None:
    _append(path, json.dumps(value).encode() + b"\n")


class CountingPage:
    """Widget whose page counts its messages."""

    panel_id = "0"
    placed = False

    def __init__(self) -> None:
        self.size = 0

    def send(self, content: Any, buffers: Any = None) -> None:
        self.size += len(json.dumps(content)) + sum(len(buffer) for buffer in buffers or ())

    def on_msg(self, callback: Callable[[Any, Any, Any], None]) -> None:
        pass

    def close(self) -> None:
        pass

    def _repr_mimebundle_(self, **_: Any) -> None:
        return None


class Enough(Exception):
    """End of a look."""


class Gauge:
    """Cost of the first look, and of each second after the page has loaded."""

    settle = 6.0  # until then a panel repeats what a page may have missed

    def __init__(self, seconds: float) -> None:
        self._begun, self._cpu = time.monotonic(), time.process_time()
        self._seconds = seconds
        self._since: tuple[float, float, int] | None = None
        self.first = self.first_cpu = 0.0

    def shown(self) -> None:
        if not self.first:
            self.first = time.monotonic() - self._begun
            self.first_cpu = time.process_time() - self._cpu

    def enough(self, size: int) -> dict[str, float] | None:
        now = time.monotonic()
        if self._since is None and now - self._begun >= self.settle:
            self._since = now, time.process_time(), size
        if self._since is None or now - self._since[0] < self._seconds:
            return None
        wall, cpu, sent = (
            end - start for end, start in zip((now, time.process_time(), size), self._since, strict=True)
        )
        return {"first": self.first, "first_cpu": self.first_cpu, "cpu": cpu / wall, "bytes": sent / wall}


def panel(directory: RunDirectory, seconds: float) -> dict[str, float]:
    run = RunReader(directory).look()
    assert run is not None, "the run was written before"
    charts = Charts(created=run.spec.created, ranks=[rank.rank for rank in run.ranks])
    page = CountingPage()
    gauge = Gauge(seconds)
    surface = WidgetSurface(page, stop=lambda: None, board=lambda: "", charts=charts)
    figures: dict[str, float] = {}

    def wait(pause: float) -> None:
        if page.size:
            gauge.shown()
        figures.update(gauge.enough(page.size) or {})
        if figures:
            raise Enough
        time.sleep(pause)
        surface.repeat()

    with contextlib.suppress(Enough):
        follow(
            directory,
            surface,
            measures=Measures(directory, charts),
            budget=lambda: surface.budget,
            wait=wait,
        )
    return figures


def status(directory: RunDirectory, seconds: float) -> dict[str, float]:
    gauge = Gauge(seconds)
    gauge.settle = 1.0
    reader, size = StatusReader([directory]), 0
    while True:
        size += len(status_text(reader.look(time.time()), "en").encode())
        gauge.shown()
        if figures := gauge.enough(size):
            return figures
        time.sleep(1.0)


def board(directory: RunDirectory, seconds: float) -> dict[str, float]:
    """Read the feed every two seconds, like the board server with a page."""
    gauge = Gauge(seconds)
    gauge.settle = 1.0
    feed = Feed()
    while True:
        feed.advance(directory)
        gauge.shown()
        size = sum(file.stat().st_size for file in directory.board.rglob("*") if file.is_file())
        if figures := gauge.enough(size):
            return figures
        time.sleep(2.0)


CASES = {"ranks": ranks, "panel": panel, "status": status, "board": board}


def main(words: list[str]) -> None:
    match words:
        case [name, directory, seconds] if name in CASES:
            print(json.dumps(CASES[name](RunDirectory(Path(directory)), float(seconds))))
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
