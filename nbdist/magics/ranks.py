"""``%%ranks``: a cell in ranks that live on, with their variables from the cells before."""

from __future__ import annotations

import contextlib
import inspect
import os
import secrets
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic import Magics, cell_magic, magics_class
from IPython.display import display

from nbdist import config, options, panel, runner
from nbdist.diagnosis.exits import rank_names
from nbdist.errors import RunFailed, UsageMistake
from nbdist.feed.ansi import harmless
from nbdist.magics.cell_check import as_in_editor, notebook_names
from nbdist.magics.presentation import (
    as_usage_errors,
    interrupts,
    place_of,
    shell_of,
    tell,
    without_frames,
    write,
)
from nbdist.model.plan import Program
from nbdist.store.paths import make_private
from nbdist.store.run_store import read_spec
from nbdist.text import reason_text, say

_LOOK = 0.05
_STAYS = 3.0
"""Seconds after an interrupt after which ranks that have not come back are named, and may be ended."""


@magics_class
class RanksMagics(Magics):
    """The cell magic, by two names."""

    _started: options.RanksLine | None = None
    """The line that started the session of this kernel."""

    @cell_magic
    def ranks(self, line: str, cell: str) -> None:
        """Run the cell in ranks that live on: ``%%ranks -n 2`` starts two, ``%%ranks`` is for all of them,
        ``%%ranks 0``, ``0,2`` and ``1-3`` for some.

        The names of a cell are there in the next. A rank that raises keeps what it has, and so do those that
        waited for it. ``%dist_session`` says how they are.
        """
        self._run(line, cell)

    @cell_magic
    def rank(self, line: str, cell: str) -> None:
        """``%%ranks``, by the name that one rank reads better with: ``%%rank 0``."""
        self._run(line, cell)

    def _run(self, line: str, cell: str) -> None:
        if line.strip() in ("-h", "--help", "?"):
            print(options.ranks_help())
            return
        shell = shell_of(self)
        with as_usage_errors():
            asked = options.parse_ranks(line)
            runner.check_pulled(asked.options.pull, notebook_names(shell))
            _execute(shell, self._session(shell, asked, cell), asked, cell)

    def _session(self, shell: InteractiveShell, asked: options.RanksLine, cell: str) -> runner.RunHandle:
        """Return the session that is to execute the cell; start one where there is none. Raises
        UsageMistake."""
        notebook = os.environ.get("JPY_SESSION_NAME", "")
        if (ended := runner.sessions.ended) is not None:
            runner.sessions.mine = None
            if not asked.starts:
                # what the cell expects of the ones before is gone
                raise UsageMistake(
                    f"the session {_label(ended)} has ended ({_why(ended)}), and with it its variables: the "
                    "next cell with  %%ranks  starts another one"
                )
        known = runner.sessions.mine
        handle = runner.sessions.current(notebook, os.getcwd())
        if handle is None:
            if self._started is not None and not asked.starts:
                # as the last one
                asked = replace(self._started, ranks=asked.ranks)
            return self._start(shell, asked, cell)
        if known is None:
            run = handle.run
            tell(say("runs.session-found", config.language(), label=run.label, cells=run.cell))
        if asked.starts or asked.ranks is not None:
            self._check(asked, handle)
        return handle

    def _check(self, asked: options.RanksLine, handle: runner.RunHandle) -> None:
        """Refuse a session that goes on and is not what was asked for. Raises UsageMistake."""
        # its journal may be long
        count = read_spec(handle.directory).world_size
        label = _label(handle)
        same = asked.options.nproc in (None, count)
        if self._started is not None and asked.starts:
            same &= _of_session(asked) == _of_session(self._started)
        if not same:
            raise UsageMistake(
                f"the session {label} goes on, with {count} ranks and what it was started with: write  "
                "%%ranks  alone, or first  %dist_session end"
            )
        if beyond := [rank for rank in asked.ranks or () if rank >= count]:
            raise UsageMistake(
                f"%%ranks: the session {label} has no rank {beyond[0]}: it has 0 to {count - 1}"
            )

    def _start(self, shell: InteractiveShell, asked: options.RanksLine, cell: str) -> runner.RunHandle:
        """Start a session. Raises UsageMistake, LaunchError and KeyboardInterrupt."""
        chosen = replace(asked.options, push=(), pull=(), detach=True, name=asked.options.name or "ranks")
        with interrupts() as taken:
            planned = runner.plan(
                chosen,
                cell=_as_python(shell, cell),
                cwd=os.getcwd(),
                python_path=sys.path,
                environ={key: value for key, value in os.environ.items() if key != "NBDIST_PUSH"},
                **place_of(shell),
            )
            count = len(planned.spec.ranks)
            if beyond := [rank for rank in asked.ranks or () if rank >= count]:
                raise UsageMistake(
                    f"%%ranks: this starts ranks 0 to {count - 1}, and no rank {beyond[0]}: add  "
                    f"-n {beyond[0] + 1}"
                )
            handle, notes = runner.launch(
                runner.session_plan(planned, asked.idle or runner.IDLE),
                taken,
                check=False,
                warm=chosen.warm,
            )
            runner.sessions.mine = handle
            self._started = asked
            label = handle.run.label
            tell(*notes, say("runs.session-begun", config.language(), label=label, ranks=count))
        return handle


# %%ranks? shows it
RanksMagics.ranks.__doc__ = f"{inspect.cleandoc(RanksMagics.ranks.__doc__ or '')}\n\n{options.ranks_help()}"


def _of_session(asked: options.RanksLine) -> options.RanksLine:
    """Return the line without what is for its cell alone."""
    return replace(asked, ranks=None, options=replace(asked.options, push=(), pull=()))


def _label(handle: runner.RunHandle) -> str:
    return handle.run_id.split("-", 2)[2]


def _why(handle: runner.RunHandle) -> str:
    run = handle.run
    return reason_text(run.reason, config.language()) or run.state.value


def _as_python(shell: InteractiveShell, cell: str) -> str:
    """Return the cell as Python; empty where it is none, which its ranks will say."""
    text: str = shell.transform_cell(cell)
    with contextlib.suppress(SyntaxError):
        return Program.parse(text).text
    return ""


def _execute(shell: InteractiveShell, handle: runner.RunHandle, asked: options.RanksLine, cell: str) -> None:
    """Let the ranks execute the cell, and show it. Raises UsageMistake, LaunchError, RunFailed and
    KeyboardInterrupt."""
    language, label = config.language(), _label(handle)

    def ranks_said(code: str, ranks: Sequence[int], **facts: object) -> str:
        names = rank_names(ranks, language)
        return say(f"panel.{code}", language, ranks=names, count=len(ranks), label=label, **facts)

    inputs = _push(shell, handle, asked.options)
    text = as_in_editor(shell, cell)
    with (
        _presses() as presses,
        runner.LiveCell(handle, text, asked.ranks, inputs=inputs, pull=asked.options.pull) as live,
    ):
        if live.gone and asked.ranks is None:
            tell(ranks_said("session-gone", live.gone))
        draws = getattr(shell, "kernel", None) is not None
        output = panel.CellOutput(
            handle.directory,
            live.number,
            language=language,
            write=write,
            show=(lambda bundle: display(bundle, raw=True)) if draws else None,
        )
        interrupted = _watch(live, output, presses, handle)
    if live.lost and not live.ended.keys() >= live.logs.keys():
        over = runner.settled(handle).state.terminal
        code = "panel.session-ended" if over else "panel.session-unheard"
        raise without_frames(RunFailed(harmless(say(code, language, label=label, why=_why(handle)))))
    report = panel.cell_report(handle.directory, live.number, live.ended, live.exits, language)
    if interrupted:
        ended = ranks_said("cell-interrupted", panel.ranks_kept(live.ended), number=live.number)
        raise without_frames(KeyboardInterrupt(harmless("\n".join(filter(None, [ended, report])))))
    if report:
        raise without_frames(RunFailed(harmless(report)))
    for name in asked.options.pull:
        shell.push({name: handle.results.of(live.ranks[0])[name]})


def _watch(
    live: runner.LiveCell, output: panel.CellOutput, presses: list[int], handle: runner.RunHandle
) -> bool:
    """Show the cell until it is over; return whether it was interrupted. Raises KeyboardInterrupt when it
    had not begun then: it will not."""
    language = config.language()
    told_to_wait = told_of_stall = named = False
    taken, since = 0, 0.0
    while not live.over:
        live.listen(_LOOK)
        output.look(live.logs, live.ended)
        if live.stalled and not told_of_stall:
            told_of_stall = True
            tell(say("panel.cell-stalled", language))
        if live.behind and not live.logs and not told_to_wait:
            told_to_wait = True
            tell(say("panel.cell-waits", language, number=live.number, before=live.behind))
        if len(presses) > taken:
            taken = len(presses)
            if not live.logs:
                not_begun = say("panel.cell-not-begun", language, number=live.number)
                raise without_frames(KeyboardInterrupt(not_begun))
            since = since or time.monotonic()
            (live.kill if named else live.interrupt)()
        if since and not named and time.monotonic() - since >= _STAYS:
            named = True
            tell(_stays(live, handle))
    output.look(live.logs, live.ended, last=True)
    return taken > 0


def _stays(live: runner.LiveCell, handle: runner.RunHandle) -> str:
    """Return which ranks have not come back after an interrupt, and from what."""
    from nbdist.diagnosis.stacks import take_stacks  # it reads programs, and is seldom needed

    groups = take_stacks(handle.directory).groups
    calls = {group.place.what for group in groups if set(group.ranks) & set(live.busy)}
    language, what = config.language(), ", ".join(sorted(filter(None, calls)))
    ranks = rank_names(live.busy, language)
    return say("panel.cell-stays", language, ranks=ranks, count=len(live.busy), what=what)


def _push(shell: InteractiveShell, handle: runner.RunHandle, chosen: options.Options) -> Path | None:
    """Write what the notebook gives the cell; return the file. Raises UsageMistake."""
    if not chosen.push:
        return None
    packed = runner.pack_inputs(chosen, Program.parse(""), notebook_names(shell), path=sys.path, environ={})
    if packed is None:
        return None
    tell(runner.describe_inputs(packed))
    # its supervisor may not have come to that
    path = make_private(handle.directory.cells) / f"{secrets.token_hex(8)}.box"
    packed.write(path)
    return path


@contextlib.contextmanager
def _presses() -> Iterator[list[int]]:
    """Collect the interrupts of the kernel meanwhile: they are for the ranks."""
    taken: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield taken
        return
    before: Any = signal.signal(signal.SIGINT, lambda number, _: taken.append(number))
    try:
        yield taken
    finally:
        signal.signal(signal.SIGINT, before)
