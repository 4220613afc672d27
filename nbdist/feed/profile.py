"""The profile of a run: the traces of its ranks on one clock, merged, and how the time of each divides.

A process of its own asks the ranks (``worker.profiler``) and merges what they write, at a low priority.
"""

from __future__ import annotations

import fcntl
import gzip
import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from nbdist.errors import UsageMistake
from nbdist.model import Run
from nbdist.model.decoding import MALFORMED, as_time, build, loads
from nbdist.store import RunDirectory, look
from nbdist.store.control import RanksRequest, request_of_ranks, wake
from nbdist.store.journal import load_object
from nbdist.store.paths import open_to_append, write_private
from nbdist.text import messages, say
from nbdist.worker.profiler import BY_STEPS

PARTS = ("compute", "communication", "overlapped", "idle")

SPAN = 2.0
"""Seconds of a profile from a button."""

_PATIENCE = 5.0  # seconds behind the window in which a rank answers
_AFTER_END = 1.0  # the same behind the end of the run
_MOST, _CELLS = 600, 8000  # cells of a line, and of all lines
_ON_DEVICE = {"kernel"}
_ON_HOST = {"cpu_op", "operator", "operatorinner", "dygraphkernellaunch"}
# paddle exchanges gradients where it accumulates them
_COMMUNICATION = re.compile("gloo:|nccl|c10d::|Global_GradNodeAccumulation", re.IGNORECASE)
_ENCLOSING = "autograd::engine"  # around what computes


_Change = tuple[float, bool, int]


@dataclass(frozen=True, slots=True)
class RankProfile:
    """The profile of one rank: shares of 1 by the names in PARTS, and the main part of each of many moments,
    by its number in PARTS; or else the ``problem``."""

    rank: int
    parts: Mapping[str, float]
    line: str
    problem: str = ""
    problem_zh: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """The profile of a run at ``time`` (Unix seconds), of so many ``seconds``. ``trace`` is the path of the
    whole; empty for none."""

    time: float
    seconds: float
    trace: str
    ranks: tuple[RankProfile, ...]

    def lines(self, language: str) -> list[str]:
        """Return a text with a line for each rank."""
        lines = [say("profile.head", language, seconds=self.seconds)]
        for each in self.ranks:
            shares = [f"{say(f'profile.{part}', language)} {share:.0%}" for part, share in each.parts.items()]
            problem = each.problem_zh if language == "zh" else each.problem
            lines.append(f"[{each.rank}] {problem or ' · '.join(shares)}")
        return [*lines, *([say("profile.trace", language, path=self.trace)] if self.trace else [])]


def read_profile(directory: RunDirectory, *, complete: bool = False) -> Profile | None:
    """Return the last profile of a run, once that which is being made is ``complete``."""
    with suppress(OSError, *MALFORMED):
        if complete:
            with open(directory.profile, "rb") as made:
                fcntl.flock(made, fcntl.LOCK_EX)
        return build(Profile, load_object(directory.profile))
    return None


def read_trace(directory: RunDirectory) -> bytes | None:
    """Return the merged trace of that."""
    with suppress(OSError):
        return directory.trace.read_bytes()
    return None


def start_profile(run: Run, directory: RunDirectory, seconds: float) -> subprocess.Popen[bytes]:
    """Start the process that makes the profile; without ``seconds`` it waits for that of ``--profile``.
    Raises UsageMistake for a run that has ended or has one already, and OSError."""
    if run.state.terminal:
        raise UsageMistake(f"{run.label} has already ended: start it with  --profile 10:13")
    entry = str(Path(__file__).parents[1] / "entry.py")
    # the process keeps the lock, until it has replaced the file
    with open(open_to_append(directory.profile), "ab") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageMistake(f"{run.label} is being profiled already: wait for that") from None
        process = subprocess.Popen(
            [sys.executable, entry, "feed.profile", str(directory.path), str(seconds)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            pass_fds=[lock.fileno()],
        )
    threading.Thread(target=process.wait, daemon=True).start()
    return process


def main(arguments: Sequence[str]) -> int:
    """Make the profile of a run: its directory, and the seconds (0: the steps of ``--profile``)."""
    os.nice(5)
    directory, seconds = RunDirectory(Path(arguments[0])), float(arguments[1])
    if (run := look(directory)) is None:
        return 1
    ranks = tuple(rank.rank for rank in run.ranks if run.spec.engine or run.spec.is_here(rank.spec))
    name, limit = BY_STEPS, float("inf")
    if seconds:
        name, limit = os.urandom(4).hex(), time.monotonic() + seconds + _PATIENCE
        request_of_ranks(directory, RanksRequest(name=name, seconds=seconds, ranks=ranks))
        wake(run)
    files = {rank: directory.rank(rank, run.attempt).answer(name) for rank in ranks}
    while not all(path.exists() for path in files.values()) and time.monotonic() < limit:
        time.sleep(0.05)
        if (run := look(directory)) is None or run.state.terminal:
            limit = min(limit, time.monotonic() + _AFTER_END)
    profile = _merged(files, directory.trace)
    write_private(directory.profile, json.dumps(asdict(profile)))
    for path in files.values():
        path.unlink(missing_ok=True)
    return 0


def _merged(files: Mapping[int, Path], to: Path) -> Profile:
    """Merge the traces of ranks, whose events have their processes; return how their times divide."""
    times: dict[int, list[_Change]] = {}
    problems: dict[int, str] = {}
    draft = to.with_suffix(".draft")
    with (
        open(draft, "wb", opener=lambda path, flags: os.open(path, flags, 0o600)) as file,
        gzip.open(file, "wb", compresslevel=1) as merged,
    ):
        for rank, path in files.items():
            problems[rank] = "silent"
            with suppress(OSError, *MALFORMED):
                text = path.read_bytes()
                trace = loads(text)
                problems[rank] = str(trace.get("problem", "no-events"))
                # paddle has empty ones, too
                events = [event for event in trace["traceEvents"] if event.get("ph") == "X"]
                times[rank] = _changes(events)
                # as text, which takes a tenth of the time; kineto's numbers count from this one
                head = b'{"baseTimeNanoseconds": %d, "traceEvents": [' % trace.get("baseTimeNanoseconds", 0)
                merged.write(b"," if len(times) > 1 else head)
                merged.write(text[text.index(b"[", text.index(b'"traceEvents"')) + 1 : text.rindex(b"]")])
                about = {"ph": "M", "name": "process_name", "args": {"name": f"rank {rank}"}}
                for process in {event["pid"] for event in events}:
                    merged.write(b"," + json.dumps({**about, "pid": process}).encode())
        merged.write(b"]}")
    os.replace(draft, to)
    begin = min((changes[0][0] for changes in times.values()), default=0.0)
    length = max((changes[-1][0] for changes in times.values()), default=0.0) - begin
    cells = max(40, min(_MOST, _CELLS // len(files)))
    return Profile(
        time=time.time(),
        seconds=round(length, 3),
        trace=str(to) if times else "",
        ranks=tuple(
            _divided(rank, times[rank], begin, length, cells)
            if rank in times
            # an exception of the framework as it is
            else RankProfile(rank, {}, "", *messages("profile").get(code := problems[rank], (code, code)))
            for rank in files
        ),
    )


def _changes(events: Sequence[Mapping[str, Any]]) -> list[_Change]:
    """Return when (s) one operator more or less computes, or communicates (True), between the begin and the
    end of a trace. Raises one of MALFORMED."""
    kinds = [str(event.get("cat", "")).lower() for event in events]
    counted = _ON_HOST if _ON_DEVICE.isdisjoint(kinds) else _ON_DEVICE
    changes, marks = list[_Change](), list[float]()
    for event, kind in zip(events, kinds, strict=True):
        begin = as_time(event["ts"] / 1e6)
        end = begin + as_time(event.get("dur", 0) / 1e6)
        marks += begin, end
        sends = kind == "communication" or _COMMUNICATION.match(event["name"]) is not None
        counts = kind in counted or (sends and counted is _ON_HOST)
        if counts and not event["name"].startswith(_ENCLOSING):
            changes += [(begin, sends, 1), (end, sends, -1)]
    end = max(min(marks) + 1e-6, *marks)
    return sorted([(min(marks), False, 0), *changes, (end, False, 0)])


def _divided(rank: int, changes: list[_Change], begin: float, length: float, count: int) -> RankProfile:
    """Divide the time between the changes of a rank, of which ``count`` cells have a ``length`` together."""
    cells = [[0.0, 0.0, 0.0, 1e-9] for _ in range(count + 1)]
    width, running = length / count, [0, 0]  # operators that compute, and that communicate
    for (first, sends, step), (last, _, _) in pairwise(changes):
        running[sends] += step
        part = ((running[0] > 0) + 2 * (running[1] > 0) - 1) % len(PARTS)
        for cell in range(int((first - begin) / width), int((last - begin) / width) + 1):
            at = begin + cell * width
            cells[cell][part] += min(last, at + width) - max(first, at)
    sums = [sum(cell[part] for cell in cells) for part in range(len(PARTS))]
    parts = {name: round(share / sum(sums), 4) for name, share in zip(PARTS, sums, strict=True)}
    return RankProfile(rank, parts, "".join(str(cell.index(max(cell))) for cell in cells[:count]))
