"""Stacks of ranks as text: which frames are the user's, and what native code waits for.

Stacks with the frames of native code in them, by py-spy where it is installed and allowed.

py-spy halts a process for as long as it reads, some 10 ms, so these are only taken when asked for.
"""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from nbdist.diagnosis.places import Place, Sources, entry_of, package_of, place_of
from nbdist.model import ProcessId, RankState, Run
from nbdist.processes import alive
from nbdist.store import RunDirectory, snapshot
from nbdist.store.control import request_stacks
from nbdist.store.reports import Call, Collective, RankAnswer, TakenStacks, ThreadStack, read_stacks

_POLL = 0.01
_FARTHER = 6.0
"""More seconds for an answer that comes from other machines, by the files that they share."""

_ALL_GROUPS = "0"
_DEVICE_WAITS = frozenset({"item", "tolist", "cpu", "numpy", "synchronize", "float", "int", "bool", "print"})
"""Calls that wait for what a device is to do, and with it for other ranks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StackRow:
    """One line of a stack as it is shown. ``own`` are those of the user's files; ``here`` is the innermost of
    them. ``place`` is ``cell line 9``, ``pkg/models.py line 3``, ``torch/distributed`` or ``built-in``."""

    function: str
    place: str
    source: str
    own: bool = False
    here: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StackGroup:
    """Ranks with the same stack. ``place`` says where that is; ``problem`` why there is no stack
    (``store.reports.RankAnswer``). ``collective`` is what they last began, where that is known."""

    ranks: tuple[int, ...]
    place: Place
    rows: tuple[StackRow, ...]
    problem: str = ""
    blocked: bool = False
    collective: Collective | None = None
    threads: tuple[tuple[StackRow, ...], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StackReport:
    """The stacks of a run: ``time`` is when they were taken (Unix seconds), ``after`` how long after its
    start. ``behind`` are the ranks that the others wait for, as far as that can be told; ``apart`` the names
    of the collectives that ranks wait in where all of them should call the same. ``problem`` says why there
    are no stacks: ``none``, ``no answer``."""

    label: str
    time: float = 0.0
    after: float = 0.0
    groups: tuple[StackGroup, ...] = ()
    behind: tuple[int, ...] = ()
    apart: tuple[str, ...] = ()
    script: str = ""
    live: bool = True
    problem: str = ""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def take_stacks(
    directory: RunDirectory,
    timeout: float = 2.0,
    *,
    wait: Callable[[float], object] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> StackReport:
    """Where the ranks of a run are now; of a run that has ended, or whose supervisor does not answer
    within ``timeout`` seconds (more from other machines), where they were last. Never raises for what is on
    disk."""
    run = snapshot(directory)
    if run is None:
        return StackReport(label=directory.run_id, problem="none", live=False)
    if run.state.terminal:
        return _report(read_stacks(directory), run, directory)
    try:
        name = request_stacks(directory)
    except OSError:
        return replace(_report(read_stacks(directory), run, directory), problem="no answer")
    deadline = clock() + timeout + (_FARTHER if run.spec.engine else 0.0)
    while True:
        taken = read_stacks(directory)
        if taken is not None and name in taken.asked:
            return _report(taken, run, directory)
        if clock() >= deadline:
            return replace(_report(taken, run, directory), problem="no answer")
        wait(_POLL)


def last_stacks(run: Run, directory: RunDirectory) -> StackReport | None:
    """The stacks that were taken last, of the attempt that the run is at; None where there are none."""
    taken = read_stacks(directory)
    if taken is None or taken.attempt != run.attempt:
        return None
    return _report(taken, run, directory)


def _report(taken: TakenStacks | None, run: Run, directory: RunDirectory) -> StackReport:
    sources, live = Sources.of(run, directory), not run.state.terminal
    if taken is None:
        return StackReport(label=run.label, script=sources.script, live=live, problem="none")
    groups = _groups(taken, sources)
    return StackReport(
        label=run.label,
        time=taken.time,
        after=max(0.0, taken.time - (run.started or taken.time)),
        groups=groups,
        behind=_behind(groups),
        apart=_apart(taken),
        script=sources.script,
        live=live,
    )


def _groups(taken: TakenStacks, sources: Sources) -> tuple[StackGroup, ...]:
    """The ranks by their main threads; first those that hold the others up."""
    alike: dict[object, list[RankAnswer]] = {}
    for answer in taken.ranks:
        threads = answer.threads
        calls = threads[0].calls if threads else ()
        number = _last_begun(answer)
        key = (answer.problem, answer.blocked, calls, number and (number.name, number.number))
        alike.setdefault(key, []).append(answer)
    groups = [_group(answers, sources) for answers in alike.values()]
    return tuple(sorted(groups, key=lambda group: (group.place.waits, len(group.ranks), group.ranks)))


def _group(answers: Sequence[RankAnswer], sources: Sources) -> StackGroup:
    first = answers[0]
    threads = first.threads
    calls = threads[0].calls if threads else ()
    collective = _last_begun(first)
    place = place_of(calls, sources)
    if collective is not None and not collective.over and _waits_for_device(place):
        place = replace(place, waits=True, on_device=True)
    return StackGroup(
        ranks=tuple(answer.rank for answer in answers),
        place=place,
        rows=_rows(calls, place, sources),
        problem=first.problem,
        blocked=first.blocked,
        collective=collective,
        threads=tuple(_rows(thread.calls, None, sources) for thread in _others(threads)),
    )


def _others(threads: Sequence[ThreadStack]) -> list[ThreadStack]:
    return [thread for thread in threads if not thread.main and thread.calls]


def _waits_for_device(place: Place) -> bool:
    """Whether a rank that has a collective under way waits there for it: a computation would not."""
    return not place.waits and place.what.rpartition(".")[2] in _DEVICE_WAITS


def _last_begun(answer: RankAnswer) -> Collective | None:
    """What is waited for in any group, else the last that was begun in the group of all ranks."""
    waited = [one for one in answer.collectives.values() if not one.over]
    if waited:
        return min(waited, key=lambda one: one.begun)
    return answer.collectives.get(_ALL_GROUPS)


def _behind(groups: Sequence[StackGroup]) -> tuple[int, ...]:
    """Those that do not wait while others do; where all wait, those that have begun fewer collectives."""
    waiting = [group for group in groups if group.place.waits]
    held = [group for group in groups if not group.place.waits and group.problem != "ended"]
    if waiting and held:
        return tuple(sorted(rank for group in held for rank in group.ranks))
    numbers = {group.collective.number for group in waiting if group.collective is not None}
    if len(numbers) < 2 or any(group.collective is None for group in waiting):
        return ()
    last = min(numbers)
    return tuple(
        sorted(rank for g in waiting if g.collective and g.collective.number == last for rank in g.ranks)
    )


def _apart(taken: TakenStacks) -> tuple[str, ...]:
    """The names of the collectives, where ranks are in different ones at the same place of the order in which
    the group of all ranks does them; else none."""
    names: dict[int, set[str]] = {}
    for answer in taken.ranks:
        one = answer.collectives.get(_ALL_GROUPS)
        # a send and its receive have numbers of their own
        if one is not None and not one.over and one.name and not one.name.startswith(("send", "recv")):
            names.setdefault(one.number, set()).add(one.name)
    return next((tuple(sorted(names[number])) for number in sorted(names) if len(names[number]) > 1), ())


def _rows(calls: Sequence[Call], place: Place | None, sources: Sources) -> tuple[StackRow, ...]:
    """Innermost first; what libraries call among themselves is one row."""
    rows: list[StackRow] = []
    if place is not None and place.built_in:
        rows.append(StackRow(function=place.what, place="built-in", source=""))
    hidden: list[Call] = []
    here = True
    for call in calls:
        if not sources.is_own(call.file):
            hidden.append(call)
            continue
        rows += _folded(hidden, sources)
        hidden = []
        rows.append(
            StackRow(
                function=call.function,
                place=f"{sources.name(call.file) or 'cell'} line {call.line}",
                source=sources.line(call.file, call.line),
                own=True,
                here=here,
            )
        )
        here = False
    return (*rows, *_folded(hidden, sources))


def _folded(calls: Sequence[Call], sources: Sources) -> list[StackRow]:
    if not calls:
        return []
    entry = entry_of(calls)
    inner = calls[0]
    return [
        StackRow(
            function=entry.function,
            place=package_of(entry.file),
            source=sources.line(inner.file, inner.line),
        )
    ]


_LIMIT = 20.0
_MISSING = "py-spy is not installed: %pip install py-spy, and ask again"


def native_stacks(
    run: Run,
    *,
    find: Callable[[str], str | None] = shutil.which,
    call: Callable[[Sequence[str]], tuple[int, str]] | None = None,
) -> Mapping[int, str]:
    """What py-spy says of each rank that runs; where it says nothing, why not."""
    program = find("py-spy")
    running = [rank for rank in run.ranks if rank.state is RankState.RUNNING and rank.process is not None]
    if program is None:
        return {rank.rank: _MISSING for rank in running}
    call = call or _call
    return {rank.rank: _stack(program, rank.process, call) for rank in running if rank.process is not None}


def _stack(program: str, process: ProcessId, call: Callable[[Sequence[str]], tuple[int, str]]) -> str:
    if not alive(process):
        return "it has exited"
    code, said = call([program, "dump", "--native", "--pid", str(process.pid)])
    if code == 0:
        return said
    last = said.strip().splitlines()[-1:] or [f"exit {code}"]
    hint = ": ask as root, or allow ptrace (kernel.yama.ptrace_scope)" if "ermission" in said else ""
    return f"py-spy: {last[0]}{hint}"


def _call(command: Sequence[str]) -> tuple[int, str]:
    try:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=_LIMIT, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return 1, str(error)
    return done.returncode, done.stdout.decode(errors="replace")
