"""Ways to write a scalar, each in a process of its own.

    python metrics_cases.py CASE DIRECTORY POINTS kill|close

What was measured is printed as one line of JSON. With `kill` the process kills itself after the last point,
and what the files then hold is counted by whoever started it.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import struct
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Log = Callable[[int, float], object]
Close = Callable[[], object]

TAG = "train/loss"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Writer. `open` imports, and returns functions that log a point and close; `count` returns the points in
    a directory, None for an unknown format."""

    name: str
    module: str
    open: Callable[[Path], tuple[Log, Close]]
    count: Callable[[Path], int] | None


def open_log(directory: Path) -> tuple[Log, Close]:
    import nbdist

    log = nbdist.log
    return (lambda step, value: log(step=step, loss=value)), lambda: None


def open_mapping(directory: Path) -> tuple[Log, Close]:
    import nbdist

    log = nbdist.log
    return (lambda step, value: log({TAG: value}, step=step)), lambda: None


def open_ours(directory: Path) -> tuple[Log, Close]:
    import nbdist

    writer = nbdist.SummaryWriter(str(directory / "ours"))
    return (lambda step, value: writer.add_scalar(TAG, value, step)), writer.close


def open_visualdl(directory: Path) -> tuple[Log, Close]:
    import visualdl

    writer = visualdl.LogWriter(str(directory / "visualdl"))
    return (lambda step, value: writer.add_scalar(TAG, value, step)), writer.close


def open_visualdl_in_a_rank(directory: Path) -> tuple[Log, Close]:
    from nbdist.worker import adaptations
    from nbdist.worker.framework_hooks import after_import

    after_import("visualdl.writer.writer", adaptations.copy_visualdl)
    return open_visualdl(directory)


def open_torch(directory: Path) -> tuple[Log, Close]:
    from torch.utils.tensorboard import SummaryWriter

    writer = SummaryWriter(str(directory / "torch"))
    return (lambda step, value: writer.add_scalar(TAG, value, step)), writer.close


def open_wandb(directory: Path) -> tuple[Log, Close]:
    import wandb

    run: Any = wandb.init(mode="offline", dir=str(directory), project="bench", settings={"console": "off"})
    return (lambda step, value: run.log({TAG: value}, step=step)), run.finish


def count_lines(directory: Path) -> int:
    return sum(file.read_bytes().count(b"\n") for file in directory.rglob("metrics.jsonl"))


def count_records(directory: Path) -> int:
    from nbdist.board.record_files import split

    # the first one is the name
    return sum(len(list(split(file.read_bytes()))) - 1 for file in directory.rglob("*vdlrecords*"))


def count_events(directory: Path) -> int:
    return sum(len(list(events(file.read_bytes()))) - 1 for file in directory.rglob("*tfevents*"))


def events(content: bytes) -> Iterator[bytes]:
    """Yield TensorFlow's records: a length, its checksum, the event, its checksum."""
    at = 0
    while at + 12 <= len(content):
        (length,) = struct.unpack_from("<Q", content, at)
        end = at + 12 + length + 4
        if end > len(content):
            return
        yield content[at + 12 : end - 4]
        at = end


CASES = (
    Case(name="nbdist.log", module="nbdist", open=open_log, count=count_lines),
    Case(name="nbdist.log of a mapping", module="nbdist", open=open_mapping, count=count_lines),
    Case(name="nbdist.SummaryWriter", module="nbdist", open=open_ours, count=count_lines),
    Case(name="visualdl.LogWriter", module="visualdl", open=open_visualdl, count=count_records),
    Case(
        name="visualdl.LogWriter, in a rank",
        module="visualdl",
        open=open_visualdl_in_a_rank,
        count=count_records,
    ),
    Case(name="torch SummaryWriter", module="tensorboard", open=open_torch, count=count_events),
    Case(name="wandb, offline", module="wandb", open=open_wandb, count=None),
)


def main(name: str, directory: Path, points: int, end: str) -> None:
    case = next(case for case in CASES if case.name == name)
    memory = resident()
    begun = time.perf_counter()
    log, close = case.open(directory)
    opened = time.perf_counter()
    taken = resident() - memory
    first = time.perf_counter()
    for step in range(points):
        log(step, 1 / (step + 1))
    logged = time.perf_counter()
    result = {
        "opened": opened - begun,
        "memory": taken,
        "calls": logged - first,
        "most_memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }
    if end == "close":
        close()
        result["all"] = time.perf_counter() - first
    print(json.dumps(result), flush=True)
    if end == "kill":
        os.kill(os.getpid(), signal.SIGKILL)


def resident() -> float:
    """Return the MB of memory of this process (proc(5): statm, in pages)."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 1e6


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
