"""Errors and stacks of ranks; the supervisor writes the stacks as ``faulthandler`` printed them."""

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
    """A name in a line of the program, and its value: ``Tensor (1, 3) float32``."""

    file: str
    line: int
    name: str
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorReport:
    """An exception that left a program, or a cell of a session, with the rank's facts about it."""

    type: str  # the class, with its module unless that is built in
    message: str
    frames: tuple[ErrorFrame, ...]
    text: str  # the traceback
    time: float
    full: tuple[str, ...] = ()  # the disks that were full then
    workers: tuple[tuple[int, int], ...] = ()  # pid and exit code of DataLoader workers that had failed
    operands: tuple[Operand, ...] = ()  # of the user's innermost line
    values: tuple[Operand, ...] = ()  # of the ifs and loops around it, and the variables that were not finite
    log: int = 0  # the offset in the rank's log at which it printed an exception of a session's cell
    printed: str = ""  # the words of a failed process that the program had started, where it captured them


# patterns that begin with a word take the square of its length
_LONG_WORD = re.compile(r"(\S{200})\S{201,}(?<=(\S{200}))")


def read_error(path: Path) -> ErrorReport | None:
    """Return the report at ``path``, its longest words without their middle; None for no readable one."""
    try:
        report = build(ErrorReport, load_object(path))
    except (OSError, *MALFORMED):
        return None
    message, text = (_LONG_WORD.sub(r"\1…\2", long) for long in (report.message, report.text))
    return replace(report, message=message, text=text)


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


@dataclass(frozen=True, slots=True)
class Issued:
    """A collective that a rank called: its number in the process group, its name with the backend
    (``gloo:all_reduce``), its arguments (``float32 (4, 2)``), and the calls to it, outermost first. ``made``
    counts the groups of that name until then: one may be destroyed and made again."""

    number: int
    name: str
    given: str
    way: tuple[Call, ...]
    made: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadStack:
    """A thread's stack, innermost call first, with its name from Python 3.14 on."""

    calls: tuple[Call, ...]
    main: bool = False
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Collective:
    """The last collective of a rank in a process group: its name ("": unknown), its number in the group,
    whether it is over, and the Unix time of its begin. ``last`` is the number of the last collective that the
    rank began there, ``members`` are the group's ranks (none: unknown). ``on_device``: it is NCCL's, and the
    rank goes on while its device waits."""

    name: str
    number: int
    over: bool
    begun: float = 0.0
    last: int = 0
    members: tuple[int, ...] = ()
    on_device: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Handled:
    """An exception that the main thread handles, with the files and lines of its frames, outermost first."""

    text: str
    places: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RankAnswer:
    """The answer of one rank: the text of faulthandler, else the ``problem``, one of

    ``not ready`` (before its program), ``replaced`` (its program handles the signal, or closed the file),
    ``stopped`` (by a signal, until SIGCONT), ``silent`` (no answer in time), ``ended``. ``blocked``: its main
    thread is in an uninterruptible call of the kernel. ``beats``, which no file keeps, grows between two
    looks when the main thread executes Python (None: unknown). ``handling`` is the exception in whose
    ``except`` or ``finally`` the main thread is; ``values`` belong to the ifs and loops of its functions and
    to its innermost line; ``workers`` are the texts of faulthandler in its DataLoader workers.
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
    """The stacks of all ranks at a Unix ``time``; ``asked`` are the names of the answered requests."""

    time: float
    attempt: int
    ranks: tuple[RankAnswer, ...]
    asked: tuple[str, ...] = ()


def parse_dump(text: str) -> tuple[ThreadStack, ...]:
    """Return the threads in a text of faulthandler, the main thread first, without threads and calls of
    nbdist. faulthandler writes the main thread last, and only that one begins in the file of the worker."""
    threads: list[tuple[re.Match[str], list[Call]]] = []
    for line in text.splitlines():
        if (head := _THREAD.match(line)) is not None:
            threads.append((head, []))
        elif threads and (call := _CALL.match(line)) is not None:
            number = 0 if call["line"] == "???" else int(call["line"])
            threads[-1][1].append(Call(file=call["file"], line=number, function=call["function"]))
    main = next(
        (at for at, (_, calls) in enumerate(threads) if calls and calls[-1].file.endswith(_START)),
        len(threads) - 1,
    )
    stacks = []
    for at, (head, calls) in enumerate(threads):
        if calls and at != main and calls[-1].file.endswith(f"{_WORKER}stacks.py"):
            continue
        own = tuple(call for call in calls if _WORKER not in call.file)
        stacks.append(ThreadStack(calls=own, main=at == main, name=head["name"] or ""))
    return tuple(sorted(stacks, key=lambda thread: not thread.main))


def calls_of_worker(text: str) -> tuple[Call, ...]:
    """Return the calls of a DataLoader worker, innermost first, without those of the rank that forked it."""
    calls = next((thread.calls for thread in parse_dump(text)), ())
    begin = next((at for at, call in enumerate(calls) if call.function == "_bootstrap"), 0)
    return calls[:begin]


def is_whole(text: str) -> bool:
    """Return whether a text of faulthandler is complete: it ends with the begin of the main thread."""
    call = _CALL.match(text.rstrip("\n").rpartition("\n")[2])
    return text.endswith("\n") and call is not None and call["file"].endswith(_START)


def write_stacks(run: RunDirectory, taken: TakenStacks) -> None:
    """Write the stacks, without ``beats``. Raises OSError."""
    kept = replace(taken, ranks=tuple(replace(answer, beats=None) for answer in taken.ranks))
    write_private(run.stacks, json.dumps({"format": _FORMAT} | asdict(kept)))


def read_stacks(run: RunDirectory) -> TakenStacks | None:
    """Return the stacks of the last request; None where none are readable."""
    if is_listed(run.stacks):
        with contextlib.suppress(OSError, *MALFORMED):
            return build(TakenStacks, load_object(run.stacks))
    return None


def stacks_stamp(run: RunDirectory) -> tuple[int, int] | None:
    """Return a stamp that changes with the file of the stacks; None while there is none."""
    if is_listed(run.stacks):
        with contextlib.suppress(OSError):
            status = os.stat(run.stacks)
            return status.st_ino, status.st_mtime_ns
    return None


def read_history(file: Path) -> dict[str, tuple[Issued, ...]]:
    """Return the recorded calls of a rank by process group; empty where it left no history."""
    if not is_listed(file):
        return {}
    try:
        data = load_object(file)
        paths = [tuple(build(Call, call) for call in path) for path in data["ways"]]
        return {
            str(group): tuple(
                Issued(as_int(number), str(name), str(given), paths[index], *map(as_int, made))
                for number, name, given, index, *made in calls
            )
            for group, calls in data["groups"].items()
        }
    except (OSError, IndexError, *MALFORMED):
        return {}


def collectives_from(data: Mapping[str, Any]) -> dict[str, Collective]:
    """Return a rank's collectives by process group. Raises one of MALFORMED."""
    return {str(group): build(Collective, value) for group, value in data.items()}
