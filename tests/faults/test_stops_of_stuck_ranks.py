"""Runs whose ranks are stuck are stopped, as often as NBDIST_STUCK_ROUNDS says (``make test-stuck``): how
many get to their ``finally``, how long a stop takes, what is left, and whether a rank is blamed.

``test_stuck_ranks`` ends each situation once, in one of four ways.
"""

from __future__ import annotations

import math
import os
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest

from nbdist.model import RunState
from tests.conftest import RunCell
from tests.faults.test_stuck_ranks import (
    MODEL,
    PADDLE,
    PADDLE_JOIN,
    PROGRAM,
    PYTHON,
    TORCH,
    TORCH_JOIN,
    until_it_waits,
)
from tests.programs import left_of, ranks_of, until_ready

ROUNDS = int(os.environ.get("NBDIST_STUCK_ROUNDS", "0"))
FRAMEWORKS = {"torch": (TORCH_JOIN, PYTHON | TORCH), "paddle": (PADDLE_JOIN, PYTHON | PADDLE)}

SAVED = 0.99
"""The share of the stops after which every rank has saved its work, at the least."""

SECONDS = 2.5
"""The most that 95 of 100 stops may take; the programs save for 0.2 of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """A stop and its result. ``left`` are processes, ``blamed`` is the failure that nbdist names; ``output``
    is the ranks' output and the journal of a run that did not end as it should."""

    seconds: float
    saved: bool
    left: int
    blamed: str
    output: str


def cases() -> Iterator[object]:
    for framework, (join, situations) in FRAMEWORKS.items():
        absent = find_spec(framework) is None
        missing = pytest.mark.skipif(absent, reason=f"{framework} is not installed")
        for name, situation in situations.items():
            model = MODEL if "model(" in situation else ""
            program = PROGRAM.format(join=join + model, situation=situation)
            yield pytest.param(program, id=f"{framework} {name}", marks=missing)


def stop_once(start_cell: RunCell, program: str, folder: Path) -> Stop:
    """Start the program, wait until its ranks are stuck, and stop them."""
    folder.mkdir()
    handle = until_ready(start_cell("-n 2", program, folder), limit=60)
    until_it_waits(handle)
    known = ranks_of(handle)

    begun = time.monotonic()
    status = handle.stop("enough")
    seconds = time.monotonic() - begun

    files = [folder / f"saved-{rank}" for rank in range(2)]
    saved = all(file.exists() and file.read_text() == "all of it" for file in files)
    left = len(left_of(handle, known))
    failure = handle.failure
    blamed = "" if failure is None else failure.headline
    output = ""
    if not saved or left or blamed or status != RunState.STOPPED:
        logs = [f"rank {rank}: {handle.logs(rank)[-2000:]}" for rank in range(2)]
        output = "\n".join([f"{status} after {seconds:.2f} s", *logs, handle.directory.journal.read_text()])
    return Stop(seconds=seconds, saved=saved, left=left, blamed=blamed, output=output)


def at_share(seconds: list[float], share: float) -> float:
    """Return the seconds that such a share of the stops does not exceed."""
    return sorted(seconds)[math.ceil(share * len(seconds)) - 1]


@pytest.mark.skipif(not ROUNDS, reason="make test-stuck stops them, NBDIST_STUCK_ROUNDS times each")
@pytest.mark.timeout(120 + 60 * ROUNDS)
@pytest.mark.parametrize("program", [*cases()])
def test_a_stop_brings_every_rank_to_its_finally(start_cell: RunCell, tmp_path: Path, program: str) -> None:
    stops = [stop_once(start_cell, program, tmp_path / str(number)) for number in range(ROUNDS)]

    seconds = [stop.seconds for stop in stops]
    saved = sum(stop.saved for stop in stops)
    left, blamed = sum(stop.left for stop in stops), sum(bool(stop.blamed) for stop in stops)
    output = "\n".join(stop.output for stop in stops if stop.output)
    print(
        f"{len(stops)} stops: {saved} with all saved, p50 {statistics.median(seconds):.2f} s, "
        f"p95 {at_share(seconds, 0.95):.2f} s, longest {max(seconds):.2f} s, "
        f"processes left {left}, ranks blamed {blamed}"
    )
    print("seconds", *(f"{taken:.2f}" for taken in sorted(seconds)))
    assert (left, blamed) == (0, 0), output
    assert saved >= SAVED * len(stops), output
    assert at_share(seconds, 0.95) <= SECONDS, output
