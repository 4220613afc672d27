"""The action of the verb ``session``: describe, interrupt, rejoin, reset or end live ranks."""

from __future__ import annotations

import time
from collections.abc import Callable

from nbdist import config, runner
from nbdist.diagnosis.exits import rank_names
from nbdist.errors import UsageMistake
from nbdist.feed.view import UsageWatch, bytes_text, duration
from nbdist.model import Run
from nbdist.runner import RunHandle
from nbdist.text import say
from nbdist.verbs.verb import Frontend

_END_LIMIT = 20.0
_REJOIN = "import nbdist\nnbdist.rejoin()\n"
_LONGEST_REJOIN = 60.0


def session(frontend: Frontend, *, do: str | None, run: str | None) -> list[str]:
    """Act on a session, and describe it by lines. Raises UnknownRun, UsageMistake and LaunchError."""
    if do is not None and do not in _ACTIONS:
        raise UsageMistake(f"{frontend.prefix}session {do}: write  {frontend.usage}")
    handle = runner.sessions.named(run)
    result = "" if do is None else _ACTIONS[do](handle)
    return [*filter(None, [result]), *describe(handle)]


def describe(handle: RunHandle) -> list[str]:
    """Describe a session by lines; by none when it has ended."""
    run, language = handle.run, config.language()
    if run.state.terminal or run.spec.session is None:
        return []
    now = time.time()
    seconds = max(0.0, now - (run.active or run.started or now))
    ranks = rank_names(run.busy, language)
    busy = say("panel.session-busy", language, cell=run.cell, ranks=ranks, seconds=seconds)
    lines = [
        say(
            "panel.session-line",
            language,
            label=run.label,
            state=busy if run.busy else say("panel.session-idle", language),
            ranks=len(run.ranks),
            cells=run.cell,
            age=duration(run.elapsed(now)),
            memory=_memory(run) or "?",
            idle=duration(run.spec.session),
        )
    ]
    if gone := [rank.rank for rank in run.ranks if rank.state.terminal]:
        ranks = rank_names(gone, language)
        lines.append(say("panel.session-gone", language, ranks=ranks, count=len(gone), label=run.label))
    return lines


def _memory(run: Run) -> str:
    """Return the memory of each rank: ``678 MB, 690 MB (GPU 1.1 GB, 1.2 GB)``."""
    used = [usage for _, usage in sorted(UsageWatch().look(run).items())]
    text = ", ".join(bytes_text(usage.memory) for usage in used)
    on_gpus = ", ".join(bytes_text(usage.gpu_memory) for usage in used if usage.gpu_memory is not None)
    return f"{text} (GPU {on_gpus})" if on_gpus else text


def _interrupt(handle: RunHandle) -> str:
    runner.request(handle, "interrupt")
    return ""


def _rejoin(handle: RunHandle) -> str:
    run = handle.run
    if gone := [rank.rank for rank in run.ranks if rank.state.terminal]:
        language = config.language()
        facts = {"ranks": rank_names(gone, language), "count": len(gone), "label": run.label}
        raise UsageMistake(say("panel.session-no-rejoin", language, **facts))
    with runner.LiveCell(handle, _REJOIN) as cell:
        deadline = time.monotonic() + _LONGEST_REJOIN
        while not cell.over and time.monotonic() < deadline:
            cell.listen(0.1)
        if all(end.outcome == "ok" for end in cell.ended.values()) and cell.over:
            return f"{run.label}: the ranks have joined a new process group"
    return f"{run.label}: the ranks did not join a new process group: see why with  %dist_logs {run.label}"


def _end(handle: RunHandle) -> str:
    runner.sessions.mine = None
    if handle.run.busy:
        runner.request(handle, "interrupt")
    runner.request(handle, "end")
    handle.wait(_END_LIMIT)
    run = handle.run
    if run.state.terminal:
        return f"{run.label} has ended: {run.state.value}"
    return f"{run.label} still runs: stop it with  %dist_stop {run.label}"


def _reset(handle: RunHandle) -> str:
    return f"{_end(handle)}, the next cell with  %%ranks  starts new ranks"


_ACTIONS: dict[str, Callable[[RunHandle], str]] = {
    "interrupt": _interrupt,
    "rejoin": _rejoin,
    "reset": _reset,
    "end": _end,
}
