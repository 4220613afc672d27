"""The profile of a run: the traces of its ranks on one clock, merged, and how the time of each divides.

A process of its own asks the ranks (``worker.profiler``), merges what they write, and works at the lowest
priority, since it shares the machine with them.
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
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from nbdist.errors import UsageMistake
from nbdist.model import Run
from nbdist.model.decoding import MALFORMED, build, loads
from nbdist.store import RunDirectory, look
from nbdist.store.control import ProfileRequest, request_profile, wake
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
_ON_DEVICE = {"kernel", "gpu_memcpy", "gpu_memset", "memcpy", "memset"}
_ON_HOST = {"cpu_op", "operator", "operatorinner", "dygraphkernellaunch"}
_COMMUNICATION = re.compile("gloo:|nccl|c10d::", re.IGNORECASE)
_ENCLOSING = "autograd::engine"  # around what computes

Interval = tuple[float, float]


@dataclass(frozen=True, slots=True)
class RankProfile:
    """The profile of one rank: shares of 1 by the names in PARTS, and the main part of each of many moments,
    by its first letter; or else the ``problem``."""

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
        lines = [say("profile.head", language, seconds=self.seconds)]
        for each in self.ranks:
            problem = each.problem_zh if language == "zh" else each.problem
            idle = "other" if self.on_host else "idle"
            names = {part: say(f"profile.{idle if part == 'idle' else part}", language) for part in PARTS}
            shares = (f"{names[part]} {share:.0%}" for part, share in each.parts.items())
            lines.append(f"[{each.rank}] {problem or ' · '.join(shares)}")
        return [*lines, *([say("profile.trace", language, path=self.trace)] if self.trace else [])]


def read_profile(directory: RunDirectory) -> Profile | None:
    """Return the last profile of a run."""
    with suppress(OSError, *MALFORMED):
        return build(Profile, load_object(directory.profile))
    return None


def start_profile(
    run: Run, directory: RunDirectory, seconds: float, ranks: Sequence[int] = ()
) -> subprocess.Popen[bytes]:
    """Start the process that makes the profile; without ``seconds`` it waits for that of ``--profile``.
    Raises UsageMistake for a run that has ended or has one already, and OSError."""
    if run.state.terminal:
        raise UsageMistake(f"{run.label} has already ended: start it with  --profile 10:13")
    known = [rank.rank for rank in run.ranks if run.spec.engine or run.spec.is_here(rank.spec)]
    asked = [rank for rank in ranks or known if rank in known]
    if not asked:
        raise UsageMistake(f"{run.label} has no rank {ranks[0]} on this machine")
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
        request_profile(directory, ProfileRequest(name=name, seconds=seconds, ranks=ranks))
        wake(run)
    limit = time.monotonic() + seconds + _PATIENCE if seconds else float("inf")
    files = {rank: directory.rank(rank, run.attempt).profile(name) for rank in ranks}
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
    known: dict[int, _Division] = {}
    problems: dict[int, str] = {}
    draft = to.with_suffix(".draft")
    with gzip.open(draft, "wb", compresslevel=1) as merged:
        for rank, path in files.items():
            try:
                text = path.read_bytes()
                trace = loads(text)
                problems[rank] = trace.get("problem", "no-events")
                known[rank] = _divide([event for event in trace["traceEvents"] if event["ph"] == "X"])
            except FileNotFoundError:
                problems[rank] = "silent"
            except (OSError, *MALFORMED):
                continue
            else:
                # as text, which takes a tenth of the time; kineto's numbers count from this one
                head = b'{"baseTimeNanoseconds": %d, "traceEvents": [' % trace.get("baseTimeNanoseconds", 0)
                merged.write(b"," if len(known) > 1 else head)
                merged.write(text[text.index(b"[", text.index(b'"traceEvents"')) + 1 : text.rindex(b"]")])
                about = {"ph": "M", "name": "process_name", "args": {"name": f"rank {rank}"}}
                for process in {event["pid"] for event in trace["traceEvents"] if event["ph"] == "X"}:
                    merged.write(b"," + json.dumps({**about, "pid": process}).encode())
        merged.write(b"]}")
    os.replace(draft, to)
    begin = min((division.begin for division in known.values()), default=0.0)
    length = max((division.end for division in known.values()), default=0.0) - begin
    cells = max(40, min(_MOST, _CELLS // len(files)))
    return Profile(
        time=time.time(),
        seconds=round(length / 1e6, 3),
        on_host=not any(division.on_device for division in known.values()),
        trace=str(to) if known else "",
        ranks=tuple(
            RankProfile(rank, known[rank].shares(), known[rank].line(begin, length / cells, cells))
            if rank in known
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


@dataclass(frozen=True, slots=True)
class _Division:
    """The time of a rank from ``begin`` to ``end`` (µs): when it computed, communicated, did both."""

    begin: float
    end: float
    on_device: bool
    intervals: tuple[list[Interval], ...]

    def shares(self) -> dict[str, float]:
        """Return the shares of PARTS."""
        sums = [sum(end - begin for begin, end in each) for each in self.intervals]
        return dict(zip(PARTS, _apart(sums, self.end - self.begin), strict=True))

    def line(self, begin: float, width: float, cells: int) -> str:
        """Return for each cell the number of the part that fills most of it."""
        filled = [[0.0, 0.0, 0.0] for _ in range(cells)]
        for number, intervals in enumerate(self.intervals):
            for first, last in intervals:
                for cell in range(int((first - begin) / width), min(cells, int((last - begin) / width) + 1)):
                    at = begin + cell * width
                    filled[cell][number] += min(last, at + width) - max(first, at)
        shares = (_apart(sums, width) for sums in filled)
        return "".join(str(max(range(len(PARTS)), key=each.__getitem__)) for each in shares)


def _apart(sums: Sequence[float], whole: float) -> list[float]:
    """Return the shares of what only computes, only communicates, does both, and neither."""
    computes, communicates, both_at_once = sums
    alone = computes - both_at_once, communicates - both_at_once, both_at_once
    return [round(part / whole, 4) for part in (*alone, max(0.0, whole - sum(alone)))]


def _divide(events: Sequence[Mapping[str, Any]]) -> _Division:
    """Return the division of a rank's time. Raises one of MALFORMED, as for no events."""
    kinds = [str(event.get("cat", "")).lower() for event in events]
    on_device = not _ON_DEVICE.isdisjoint(kinds)
    computing: list[Interval] = []
    sending: list[Interval] = []
    for event, kind in zip(events, kinds, strict=True):
        sends = kind == "communication" or _COMMUNICATION.match(event["name"])
        if sends and (kind in _ON_DEVICE or not on_device):
            sending.append(_times(event))
        elif kind in (_ON_DEVICE if on_device else _ON_HOST) and not event["name"].startswith(_ENCLOSING):
            computing.append(_times(event))
    united = _union(computing), _union(sending)
    begin, end = min(map(_times, events))[0], max(end for _, end in map(_times, events))
    return _Division(begin, end, on_device, (*united, _common(*united)))


def _times(event: Mapping[str, Any]) -> Interval:
    begin = float(event["ts"])
    return begin, begin + float(event.get("dur", 0))


def _union(intervals: Iterable[Interval]) -> list[Interval]:
    united: list[Interval] = []
    for begin, end in sorted(intervals):
        if united and begin <= united[-1][1]:
            united[-1] = united[-1][0], max(united[-1][1], end)
        else:
            united.append((begin, end))
    return united


def _common(first: Sequence[Interval], second: Sequence[Interval]) -> list[Interval]:
    """Return where both of these unions are."""
    common, here, there = [], 0, 0
    while here < len(first) and there < len(second):
        begin, end = max(first[here][0], second[there][0]), min(first[here][1], second[there][1])
        if begin < end:
            common.append((begin, end))
        if first[here][1] < second[there][1]:
            here += 1
        else:
            there += 1
    return common
