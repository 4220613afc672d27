"""The reports of ranks besides their logs: errors, and their stacks when they were last asked.

``stacks.json`` is the supervisor's. The stacks in it are the words of ``faulthandler``, as the ranks wrote
them; they are read here.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from nbdist.model.decoding import MALFORMED, as_int, build
from nbdist.store.journal import load_object
from nbdist.store.logs import is_listed
from nbdist.store.paths import RunDirectory, write_private


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorFrame:
    """One frame of a traceback, outermost first; ``line`` counts from 1."""

    file: str
    line: int
    function: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Operand:
    """A name in a line of the program, and what it stood for: ``Tensor (1, 3) float32``."""

    file: str
    line: int
    name: str
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorReport:
    """An exception that left a program, or a cell of a session, and what its rank could tell of it."""

    type: str  # the class, with its module unless that is built in
    message: str
    frames: tuple[ErrorFrame, ...]
    text: str  # the traceback
    time: float
    full: tuple[str, ...] = ()  # the disks that were full then
    workers: tuple[tuple[int, int], ...] = ()  # pid and exit code of DataLoader workers that had failed
    operands: tuple[Operand, ...] = ()  # of the user's innermost line
    values: tuple[Operand, ...] = ()  # of the ifs and loops around it, and the variables that were not finite
    log: int = 0  # where in its log the rank printed what left a cell of a session


# a pattern that begins with a word takes the square of its length
_LONG_WORD = re.compile(r"(\S{200})\S{201,}(?<=(\S{200}))")


def read_error(path: Path) -> ErrorReport | None:
    """Return the report at ``path``, its longest words without their middle; None where there is none or it
    cannot be read."""
    try:
        report = build(ErrorReport, load_object(path))
        return replace(
            report,
            message=_LONG_WORD.sub(r"\1…\2", report.message),
            text=_LONG_WORD.sub(r"\1…\2", report.text),
        )
    except (OSError, *MALFORMED):
        return None


_FORMAT = 1
_THREAD = re.compile(
    r"^(?:Current thread|Thread) 0x[0-9a-f]+(?: \[(?P<name>.*)\])? \(most recent call first\):$"
)
_CALL = re.compile(r'^  File "(?P<file>.+)", line (?P<line>\d+|\?\?\?) in (?P<function>.+)$')
_WORKER = "nbdist/worker/"
_START = f"{_WORKER}__main__.py"


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One frame of a stack."""

    file: str
    line: int
    function: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Issued:
    """A collective that a rank has called: its number in the process group, its name with the backend
    (``gloo:all_reduce``), what it was ``given`` (``float32 (4, 2)``), the calls that led to it, outermost
    first."""

    number: int
    name: str
    given: str
    way: tuple[Call, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadStack:
    """A thread's stack, innermost call first. ``name`` is known from Python 3.14 on."""

    calls: tuple[Call, ...]
    main: bool = False
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Collective:
    """The last collective of a rank in a process group: its name ("" when it is not known), its number in the
    group, whether it is over, and when it was begun (Unix seconds). ``last`` is the number of the last one
    that the rank has begun in the group, ``members`` its ranks (none: unknown). ``on_device``: it is NCCL's,
    and the rank goes on while its device waits."""

    name: str
    number: int
    over: bool
    begun: float = 0.0
    last: int = 0
    members: tuple[int, ...] = ()
    on_device: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Handled:
    """An exception that the main thread handles: its text, and the files and lines that it came through,
    outermost first."""

    text: str
    places: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RankAnswer:
    """The answer of one rank: the text of faulthandler, else the ``problem``, one of

    ``not ready`` (it has not come to its program), ``replaced`` (its program has taken the signal, or
    closed the file), ``stopped`` (by a signal, until SIGCONT), ``silent`` (no answer in time), ``ended``.
    ``blocked``: its main thread sits in an uninterruptible call of the kernel. ``beats``, which is not kept,
    grows between two glances when the main thread executes Python; None where that is not known.
    ``handling`` is the exception in whose ``except`` or ``finally`` the main thread is, ``values`` are those
    of the ifs and loops of its functions and of its innermost line, ``workers`` the texts of faulthandler in
    its DataLoader workers.
    """

    rank: int
    text: str = ""
    problem: str = ""
    blocked: bool = False
    collectives: Mapping[str, Collective] = field(default_factory=dict)
    beats: int | None = None
    handling: Handled | None = None
    values: tuple[Operand, ...] = ()
    workers: tuple[str, ...] = ()

    @property
    def threads(self) -> tuple[ThreadStack, ...]:
        """Return the threads of the program, the main thread first."""
        return parse_dump(self.text)


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenStacks:
    """``time`` is in Unix seconds; ``asked`` are the names of the requests that this answers."""

    time: float
    attempt: int
    ranks: tuple[RankAnswer, ...]
    asked: tuple[str, ...] = ()


def parse_dump(text: str) -> tuple[ThreadStack, ...]:
    """Return the threads in what faulthandler wrote, the main thread first, without those and the calls of
    nbdist. It names no main thread, but writes it last, and only that one begins in the file of the worker.
    """
    threads: list[tuple[re.Match[str], list[Call]]] = []
    for line in text.splitlines():
        if (head := _THREAD.match(line)) is not None:
            threads.append((head, []))
        elif threads and (call := _CALL.match(line)) is not None:
            number = 0 if call["line"] == "???" else int(call["line"])
            threads[-1][1].append(Call(file=call["file"], line=number, function=call["function"]))
    main = next(
        (at for at, (_, calls) in enumerate(threads) if calls and calls[-1].file.endswith(_START)), None
    )
    if main is None and threads:
        main = len(threads) - 1
    stacks = []
    for at, (head, calls) in enumerate(threads):
        if calls and at != main and calls[-1].file.endswith(f"{_WORKER}stacks.py"):
            continue
        own = tuple(call for call in calls if _WORKER not in call.file)
        stacks.append(ThreadStack(calls=own, main=at == main, name=head["name"] or ""))
    return tuple(sorted(stacks, key=lambda thread: not thread.main))


def calls_of_worker(text: str) -> tuple[Call, ...]:
    """Return the calls of a DataLoader worker in what faulthandler wrote there, innermost first, without
    those of the rank that it was forked in."""
    calls = next((thread.calls for thread in parse_dump(text)), ())
    begin = next((at for at, call in enumerate(calls) if call.function == "_bootstrap"), 0)
    return calls[:begin]


def is_whole(text: str) -> bool:
    """Return whether faulthandler has written all: it ends with where the main thread began."""
    call = _CALL.match(text.rstrip("\n").rpartition("\n")[2])
    return text.endswith("\n") and call is not None and call["file"].endswith(_START)


def write_stacks(run: RunDirectory, taken: TakenStacks) -> None:
    """Raises OSError."""
    kept = replace(taken, ranks=tuple(replace(answer, beats=None) for answer in taken.ranks))
    write_private(run.stacks, json.dumps({"format": _FORMAT} | asdict(kept)))


def read_stacks(run: RunDirectory) -> TakenStacks | None:
    """Return the stacks that were taken last; None where there are none, or they cannot be read."""
    if is_listed(run.stacks):
        with contextlib.suppress(OSError, *MALFORMED):
            return build(TakenStacks, load_object(run.stacks))
    return None


def stacks_stamp(run: RunDirectory) -> tuple[int, int] | None:
    """Return what changes when other stacks have been taken; None while there are none."""
    if is_listed(run.stacks):
        with contextlib.suppress(OSError):
            status = os.stat(run.stacks)
            return status.st_ino, status.st_mtime_ns
    return None


def read_history(path: Path) -> dict[str, tuple[Issued, ...]]:
    """Return by process group what a rank has called there, as far as it remembered; empty where it left no
    history."""
    if not is_listed(path):
        return {}
    try:
        data = load_object(path)
        ways = [tuple(build(Call, call) for call in way) for way in data["ways"]]
        return {
            str(group): tuple(
                Issued(number=as_int(number), name=str(name), given=str(given), way=ways[way])
                for number, name, given, way in calls
            )
            for group, calls in data["groups"].items()
        }
    except (OSError, IndexError, *MALFORMED):
        return {}


def collectives_from(data: Mapping[str, Any]) -> dict[str, Collective]:
    """Return by process group what the rank wrote. Raises one of MALFORMED."""
    return {str(group): build(Collective, value) for group, value in data.items()}
