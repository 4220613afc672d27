"""Stacks of ranks: taken, grouped by position, and the reason why some wait."""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from types import MappingProxyType
from typing import Any

from nbdist.diagnosis.exits import ranks_in_words
from nbdist.diagnosis.hangs.causes import MESSAGE, are_unlike, await_ended, cause_of, ended_before, waits_long
from nbdist.diagnosis.hangs.deadlocks import concerned, fewest, first_of
from nbdist.diagnosis.hangs.divergence import History, begun_at, histories_of, parting_of
from nbdist.diagnosis.hangs.held import of_threads
from nbdist.diagnosis.known import Hint
from nbdist.diagnosis.positions import Side, values_at
from nbdist.diagnosis.stack_groups import StackGroup, groups_of, main_calls
from nbdist.diagnosis.stragglers import Paces
from nbdist.diagnosis.tracebacks import Traceback, ended_by, gave_up, raised_in_logs
from nbdist.model import ProcessId, RankState, Run
from nbdist.processes import alive
from nbdist.programs.sources import Sources
from nbdist.store import RunDirectory, snapshot
from nbdist.store.control import request_stacks
from nbdist.store.metrics import last_points
from nbdist.store.reports import (
    Call,
    Collective,
    RankAnswer,
    TakenStacks,
    ThreadStack,
    calls_of_worker,
    read_error,
    read_stacks,
)
from nbdist.text import Both, both

_POLL = 0.01
_FARTHER = 6.0  # further seconds for an answer that comes from other machines through shared files
_STANDS, _POINTS_ROOM = 0.97, 4096
"""The share of its time that a hung rank waits, and the bytes of its measurements to read."""

_FEW_LINES = 2  # the most lines whose values are shown
_TELLS = re.compile(r"\d|^(?:None|True|False)$")
"""A number, a size or a shape: a kind alone adds nothing to the line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StackReport:
    """The stacks of a run, taken at ``time`` (Unix seconds), ``after`` seconds from its start; ``problem``:
    "none", "no answer". ``behind`` are the ranks that others wait for, as far as known, ``ended`` those that
    finished their program. ``hint`` explains the wait; ``raised`` are tracebacks of threads or processes in
    the logs of awaited ranks, ``values`` those in the lines that block them."""

    label: str
    time: float = 0.0
    after: float = 0.0
    groups: tuple[StackGroup, ...] = ()
    behind: tuple[int, ...] = ()
    ended: tuple[int, ...] = ()
    hint: Hint | None = None
    raised: tuple[Traceback, ...] = ()
    values: tuple[Both, ...] = ()
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
    """Return the ranks' present positions, or their last: after the run, or without an answer for ``timeout``
    seconds (more from other machines). Never raises for the content of files."""
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
    """Return the last stacks of the run's present attempt; None without any."""
    taken = read_stacks(directory)
    if taken is None or taken.attempt != run.attempt:
        return None
    return _report(taken, run, directory)


def last_sides(run: Run, directory: RunDirectory) -> tuple[Side, ...]:
    """Return the last known positions in the run's present attempt."""
    taken = read_stacks(directory)
    if taken is None or taken.attempt != run.attempt:
        return ()
    return sides_of(_completed(taken, directory), Sources.of(run, directory))


def last_values(
    file: str, line: int, run: Run, directory: RunDirectory, *, after: float
) -> dict[int, dict[str, str]]:
    """Return by rank the values in a line, of ranks last in it after ``after`` (Unix seconds)."""
    taken, sources = read_stacks(directory), Sources.of(run, directory)
    if taken is None or taken.attempt != run.attempt or taken.time < after:
        return {}
    ways = [(answer, _own_ways(answer, sources)[0]) for answer in _completed(taken, directory).ranks]
    return {
        answer.rank: values_at(answer.values, file, line)
        for answer, way in ways
        if way and (way[-1].file, way[-1].line) == (file, line)
    }


def _completed(taken: TakenStacks, directory: RunDirectory) -> TakenStacks:
    """Add the values of loops to a rank that was interrupted later, from its traceback."""
    answers = []
    for answer in taken.ranks:
        error = read_error(directory.rank(answer.rank, taken.attempt).error) if not answer.values else None
        interrupted = error is not None and error.type == "KeyboardInterrupt" and error.time >= taken.time
        answers.append(replace(answer, values=error.values) if error is not None and interrupted else answer)
    return replace(taken, ranks=tuple(answers))


def _report(taken: TakenStacks | None, run: Run, directory: RunDirectory) -> StackReport:
    sources, live = Sources.of(run, directory), not run.state.terminal
    if taken is None:
        return StackReport(label=run.label, script=sources.script, live=live, problem="none")
    ended = ended_before(run, taken)
    taken = _completed(taken, directory)
    groups = groups_of(taken, sources)
    histories = histories_of(run, directory) if run.stalled is not None or run.timed_out else {}
    hangs = run.stalled is not None or (
        run.timed_out and _will_not_meet(taken, groups, run, directory, ended, histories)
    )
    sides = concerned(sides_of(taken, sources, histories), taken.ranks) if hangs else []
    behind = _behind(groups, sides)
    # also for single ranks: their thread may have died
    may_hang = sides or (sides_of(taken, sources) if run.timed_out else ())
    held_sides = [side for side in may_hang if not side.place.waits]
    held = behind or tuple(rank for side in held_sides for rank in side.ranks)
    # an error that ended the program is no thread's
    going = [rank for rank in held if (run.ranks[rank].errored or taken.time) >= taken.time]
    raised = raised_in_logs(going, run, directory)
    if hangs:
        everyone = sides_of(taken, sources)
        hint = cause_of(sides, everyone, taken.ranks, run, ended, ended_by(raised), histories, sources)
    else:
        hint = of_threads(held_sides, ended_by(raised))
    if sides and (hint is None or len({side.call for side in sides}) == 1):
        hint = first_of(sides, hint, taken.ranks)
    return StackReport(
        label=run.label,
        time=taken.time,
        after=max(0.0, taken.time - (run.started or taken.time)),
        groups=groups,
        behind=behind,
        ended=ended,
        raised=raised,
        values=tuple(_values(held_sides)) if hangs else (),
        hint=hint.in_paddle() if hint is not None and run.spec.framework == "paddle" else hint,
        script=sources.script,
        live=live,
    )


def _will_not_meet(
    taken: TakenStacks,
    groups: Sequence[StackGroup],
    run: Run,
    directory: RunDirectory,
    ended: Sequence[int],
    histories: Mapping[int, History],
) -> bool:
    """Return whether ranks waiting at a time limit would wait for ever: a healthy run waits briefly, too."""
    parted = parting_of(histories, Sources.of(run, directory)) is not None
    if waits_long(taken) or are_unlike(taken) or parted or await_ended(taken, ended, histories):
        return True
    waiting = [rank for group in groups if group.place.waits for rank in group.ranks]
    return _stand(waiting, run, directory) or gave_up(waiting, run, directory)


def _values(held: Sequence[Side]) -> Iterator[Both]:
    for side in (side for side in held[:_FEW_LINES] if side.way):
        at = side.way[-1]
        had = [f"{name} = {what}" for name, what in side.had(at.file, at.line).items() if _TELLS.search(what)]
        if had:
            names = ", ".join(had)
            yield both("diagnosis.operands-of", line=at.line, who=ranks_in_words(side.ranks), names=names)


def _stand(ranks: Sequence[int], run: Run, directory: RunDirectory) -> bool:
    """Return whether these ranks did hardly anything but wait, for longer than a step takes."""
    paces = Paces()
    for rank in ranks:
        points = last_points(directory.rank(rank, run.attempt).system, _POINTS_ROOM)
        paces.take(rank, points)
        pace = paces.pace(rank, points[-1].time) if points else None
        if pace is None or pace.waited < _STANDS:
            return False
    return bool(ranks)


def sides_of(
    taken: TakenStacks, sources: Sources, histories: Mapping[int, History] = MappingProxyType({})
) -> tuple[Side, ...]:
    """Return the ranks by position; those that wait for a device stand at its call, if known."""
    answers = {answer.rank: answer for answer in taken.ranks}
    ways = {rank: _own_ways(answer, sources) for rank, answer in answers.items()}
    groups = [group for group in groups_of(taken, sources) if not group.problem]
    sides = [
        Side(
            ranks=group.ranks,
            way=ways[group.ranks[0]][0],
            calls=main_calls(answers[group.ranks[0]])[::-1],
            beside=tuple(way for way in ways[group.ranks[0]][1:] if way),
            values=answers[group.ranks[0]].values,
            workers=tuple(map(calls_of_worker, answers[group.ranks[0]].workers)),
            place=group.place,
            name=group.collective.name if group.collective is not None and not group.collective.over else "",
            handled=group.handled,
        )
        for group in groups
    ]
    return tuple(
        begun_at(side, group.collective, answers[side.ranks[0]], histories.get(side.ranks[0], {}), sources)
        if histories and group.place.waits and (group.place.on_device or is_behind(group.collective))
        else side
        for side, group in zip(sides, groups, strict=True)
    )


def is_behind(collective: Collective | None) -> bool:
    """Return whether a device waits in an earlier collective than the program's last. Not for messages."""
    if collective is None or collective.over or not collective.on_device:
        return False
    return collective.number < collective.last and not MESSAGE.search(collective.name)


def _own_ways(answer: RankAnswer, sources: Sources) -> list[tuple[Call, ...]]:
    """Return each thread's calls in the user's files, outermost first; the main thread first."""
    threads = answer.threads or (ThreadStack(calls=(), main=True),)
    return [tuple(call for call in reversed(thread.calls) if sources.is_own(call.file)) for thread in threads]


def _behind(groups: Sequence[StackGroup], sides: Sequence[Side]) -> tuple[int, ...]:
    """Return the ranks that keep others waiting: busy ones, else those with errors or fewer calls."""
    waiting = [group for group in groups if group.place.waits]
    held = [group for group in groups if not group.place.waits and group.problem != "ended"]
    if not (waiting and held):
        held = [group for group in waiting if group.handled]
    if waiting and held and held != waiting:
        return tuple(sorted(rank for group in held for rank in group.ranks))
    numbers = {group.collective.number for group in waiting if group.collective is not None}
    if len(numbers) < 2 or any(group.collective is None for group in waiting) or in_several(waiting):
        return fewest([side for side in sides if side.place.waits])
    last = min(numbers)
    return tuple(
        sorted(rank for g in waiting if g.collective and g.collective.number == last for rank in g.ranks)
    )


def in_several(groups: Sequence[StackGroup]) -> bool:
    """Return whether these are in several process groups, which count separately, as do messages."""
    known = [group.collective for group in groups if group.collective is not None]
    messages = any(MESSAGE.search(collective.name) for collective in known if not collective.over)
    return messages or len({collective.members for collective in known}) > 1


# Stacks with native frames by py-spy, which halts a process for some 10 ms.

_SPY_LIMIT = 20.0
_NO_SPY = "py-spy is not installed: %pip install py-spy"


def native_stacks(
    run: Run,
    *,
    find: Callable[[str], str | None] = shutil.which,
    call: Callable[[Sequence[str]], tuple[int, str]] | None = None,
) -> Mapping[int, str]:
    """Return py-spy's dump of each running rank, or the reason for none."""
    program = find("py-spy")
    running = [rank for rank in run.ranks if rank.state is RankState.RUNNING and rank.process is not None]
    if program is None:
        return {rank.rank: _NO_SPY for rank in running}
    call = call or _run_spy
    return {
        rank.rank: _native_stack(program, rank.process, call) for rank in running if rank.process is not None
    }


def _native_stack(program: str, process: ProcessId, call: Callable[[Sequence[str]], tuple[int, str]]) -> str:
    if not alive(process):
        return "it has exited"
    code, printed = call([program, "dump", "--native", "--pid", str(process.pid)])
    if code == 0:
        return printed
    last = printed.strip().splitlines()[-1:] or [f"exit {code}"]
    hint = " (run as root or allow ptrace by kernel.yama.ptrace_scope)" if "ermission" in printed else ""
    return f"py-spy: {last[0]}{hint}"


def _run_spy(command: Sequence[str]) -> tuple[int, str]:
    try:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=_SPY_LIMIT, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return 1, str(error)
    return done.returncode, done.stdout.decode(errors="replace")
