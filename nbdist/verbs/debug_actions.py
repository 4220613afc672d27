"""The actions of the verbs ``debug`` and ``eval``: which ranks are held, and values in those that go on."""

from __future__ import annotations

import time
from collections.abc import Collection

from nbdist import config, runner
from nbdist.diagnosis.exits import rank_names
from nbdist.errors import UsageMistake
from nbdist.panel.debug_prompt import DebugPrompt
from nbdist.runner import RunHandle
from nbdist.store.control import RanksRequest, request_of_ranks, wake
from nbdist.store.held_ranks import grouped, held_ranks, live_ranks, values
from nbdist.text import say
from nbdist.verbs.verb import Frontend

_STOPS = 2.0  # seconds for ranks to be held
_ANSWERS = 5.0  # and to evaluate an expression


def debug(frontend: Frontend, *, run: str | None, rank: int | None, pause: bool) -> DebugPrompt:
    """Hold ranks if asked, and return their prompt. Raises UnknownRun, and UsageMistake where none is."""
    handle = runner.attach(run)
    directory, now = handle.directory, handle.run
    if pause:
        wanted = tuple(each for each in live_ranks(now) if rank in (each, None))
        request_of_ranks(directory, RanksRequest(ranks=wanted))
        wake(now)
        deadline = time.monotonic() + _STOPS
        while (late := {*wanted} - {*held_ranks(directory, handle.run)}) and time.monotonic() < deadline:
            time.sleep(0.02)
        if late:
            frontend.say(_late(handle, late))
    if not held_ranks(directory, handle.run):
        command = f"{frontend.prefix}debug"
        raise UsageMistake(say("panel.not-held", config.language(), label=now.label, command=command))
    return DebugPrompt(directory, rank)


def evaluate(_: Frontend, *, expression: str | None, run: str | None) -> list[str]:
    """Return the value of an expression in the ranks, by lines. Raises UnknownRun and UsageMistake."""
    if not expression:
        raise UsageMistake('there is no expression: write  %dist_eval "loss.item()"')
    handle, language = runner.attach(run), config.language()
    answers = values(handle.directory, handle.run, expression, _ANSWERS)
    lines = [f"{rank_names(ranks, language)}: {text}" for ranks, text in grouped(answers)]
    late = {*live_ranks(handle.run)} - answers.keys()
    return [*lines, _late(handle, late)] if late else lines


def _late(handle: RunHandle, ranks: Collection[int]) -> str:
    """Return which ranks do not answer, and the native code that they are in."""
    from nbdist.diagnosis.stacks import take_stacks  # rarely needed, and slow to import

    groups = take_stacks(handle.directory).groups
    calls = {group.place.what for group in groups if {*group.ranks} & {*ranks}}
    language, what = config.language(), ", ".join(sorted(filter(None, calls)))
    names = rank_names(sorted(ranks), language)
    return say("panel.not-heard", language, ranks=names, count=len(ranks), what=what)
