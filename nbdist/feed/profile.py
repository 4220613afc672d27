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
from pathlib import Path
from typing import Any

from nbdist.errors import UsageMistake
from nbdist.model import Run
from nbdist.model.decoding import MALFORMED, as_time, build, loads
from nbdist.store import RunDirectory, look
from nbdist.store.control import RanksRequest, request_of_ranks, wake
from nbdist.store.journal import load_object
from nbdist.store.paths import write_private
from nbdist.text import Both, both, say
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
    """The profile of a run at ``time`` (Unix seconds), of so many ``seconds``. ``on_host``: no device
    computed, so that what is idle may be Python. ``trace`` is the path of the whole; empty for none."""

    time: float
    seconds: float
    on_host: bool
    trace: str
    ranks: tuple[RankProfile, ...]

    def lines(self, language: str) -> list[str]:
        """Return a text with a line for each rank."""
        names = [*PARTS[:-1], "other" if self.on_host else "idle"]
        lines = [say("profile.head", language, seconds=self.seconds)]
        for each in self.ranks:
            shares = zip(names, each.parts.values(), strict=False)
            text = " · ".join(f"{say(f'profile.{name}', language)} {share:.0%}" for name, share in shares)
            problem = each.problem_zh if language == "zh" else each.problem
            lines.append(f"[{each.rank}] {problem or text}")
        return [*lines, *([say("profile.trace", language, path=self.trace)] if self.trace else [])]


def read_profile(directory: RunDirectory, *, complete: bool = False) -> Profile | None:
    """Return the last profile of a run, once that which is being made is ``complete``."""
    with suppress(OSError, *MALFORMED):
        if complete:
            lock = os.open(directory.control, os.O_RDONLY | os.O_CLOEXEC)
            fcntl.flock(lock, fcntl.LOCK_EX)
            os.close(lock)
        return build(Profile, load_object(directory.profile))
    return None


def read_trace(directory: RunDirectory) -> bytes | None:
    """Return the merged trace of that."""
    with suppress(OSError):
        return directory.trace.read_bytes()
    return None


def start_profile(
    run: Run, directory: RunDirectory, seconds: float, ranks: Sequence[int] = ()
) -> subprocess.Popen[bytes]:
    """Start the process that makes the profile; without ``seconds`` it waits for that of ``--profile``.
    Raises UsageMistake for a run that has ended or has one already, and OSError."""
    if run.state.terminal:
        raise UsageMistake(f"{run.label} has already ended: start it with  --profile 10:13")
    asked = ranks or [rank.rank for rank in run.ranks if run.spec.engine or run.spec.is_here(rank.spec)]
    lock = os.open(directory.control, os.O_RDONLY | os.O_CLOEXEC)
    try:
        # the process keeps it
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        entry = str(Path(__file__).parents[1] / "entry.py")
        words = [str(directory.path), str(seconds), ",".join(map(str, asked))]
        process = subprocess.Popen(
            [sys.executable, entry, "feed.profile", *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            pass_fds=[lock],
        )
        threading.Thread(target=process.wait, daemon=True).start()
        return process
    except BlockingIOError:
        raise UsageMistake(f"{run.label} is being profiled already: wait for that") from None
    finally:
        os.close(lock)


def main(arguments: Sequence[str]) -> int:
    """Make the profile of a run: its directory, the seconds (0: the steps of ``--profile``), its ranks."""
    os.nice(5)
    directory, seconds = RunDirectory(Path(arguments[0])), float(arguments[1])
    ranks = tuple(map(int, arguments[2].split(",")))
    name = os.urandom(4).hex() if seconds else BY_STEPS
    if (run := look(directory)) is None:
        return 1
    if seconds:
        request_of_ranks(directory, RanksRequest(name=name, seconds=seconds, ranks=ranks))
        wake(run)
    limit = time.monotonic() + seconds + _PATIENCE if seconds else float("inf")
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
    times: dict[int, _Times] = {}
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
                problems[rank] = trace.get("problem", "no-events")
                # paddle has empty ones, too
                events = [event for event in trace["traceEvents"] if event.get("ph") == "X"]
                times[rank] = _Times(events)
                # as text, which takes a tenth of the time; kineto's numbers count from this one
                head = b'{"baseTimeNanoseconds": %d, "traceEvents": [' % trace.get("baseTimeNanoseconds", 0)
                merged.write(b"," if len(times) > 1 else head)
                merged.write(text[text.index(b"[", text.index(b'"traceEvents"')) + 1 : text.rindex(b"]")])
                about = {"ph": "M", "name": "process_name", "args": {"name": f"rank {rank}"}}
                for process in {event["pid"] for event in events}:
                    merged.write(b"," + json.dumps({**about, "pid": process}).encode())
        merged.write(b"]}")
    os.replace(draft, to)
    begin = min((each.begin for each in times.values()), default=0.0)
    length = max((each.end for each in times.values()), default=0.0) - begin
    width = length / max(40, min(_MOST, _CELLS // len(files)))
    return Profile(
        time=time.time(),
        seconds=round(length, 3),
        on_host=not any(each.on_device for each in times.values()),
        trace=str(to) if times else "",
        ranks=tuple(
            RankProfile(rank, times[rank].shares(), times[rank].line(begin, begin + length, width))
            if rank in times
            else RankProfile(rank, {}, "", *_problem(problems[rank]))
            for rank in files
        ),
    )


def _problem(code: str) -> Both:
    """Return why there is no trace; an exception of the framework as it is."""
    try:
        return both(f"profile.{code}")
    except KeyError:
        return Both(code, code)


_COMPUTES, _SENDS, _BOTH, _IDLE = range(len(PARTS))


class _Times:
    """The doings of a rank from moment to moment (s), by the events of its trace. Raises one of MALFORMED."""

    def __init__(self, events: Sequence[Mapping[str, Any]]) -> None:
        kinds = [str(event.get("cat", "")).lower() for event in events]
        self.on_device = not _ON_DEVICE.isdisjoint(kinds)
        changes = []
        moments = [(as_time(each["ts"] / 1e6), as_time(each.get("dur", 0) / 1e6)) for each in events]
        for event, kind, (begin, lasted) in zip(events, kinds, moments, strict=True):
            sends = kind == "communication" or _COMMUNICATION.match(event["name"]) is not None
            counts = kind in _ON_DEVICE if self.on_device else sends or kind in _ON_HOST
            if counts and not event["name"].startswith(_ENCLOSING):
                changes += [(begin, sends, 1), (begin + lasted, sends, -1)]
        self.begin = min(begin for begin, _ in moments)
        self.end = max(self.begin + 1e-6, *(begin + lasted for begin, lasted in moments))
        self._spans: list[tuple[float, float, int]] = []
        at, computing, sending = self.begin, 0, 0
        for moment, sends, step in sorted([*changes, (self.end, False, 0)]):
            if moment > at:
                self._spans.append((at, moment, _part(computing > 0, sending > 0)))
                at = moment
            computing, sending = computing + step * (not sends), sending + step * sends

    def shares(self) -> dict[str, float]:
        """Return the shares of PARTS."""
        sums = dict.fromkeys(PARTS, 0.0)
        for begin, end, part in self._spans:
            sums[PARTS[part]] += (end - begin) / (self.end - self.begin)
        return {part: round(share, 4) for part, share in sums.items()}

    def line(self, begin: float, end: float, width: float) -> str:
        """Return for each cell the number of the part that fills most of it."""
        cells = [[0.0] * _IDLE + [1e-9] for _ in range(round((end - begin) / width))]
        for first, last, part in self._spans:
            for cell in range(int((first - begin) / width), min(len(cells), int((last - begin) / width) + 1)):
                at = begin + cell * width
                cells[cell][part] += min(last, at + width) - max(first, at)
        return "".join(str(cell.index(max(cell))) for cell in cells)


def _part(computes: bool, sends: bool) -> int:
    return (_BOTH if sends else _COMPUTES) if computes else _SENDS if sends else _IDLE
