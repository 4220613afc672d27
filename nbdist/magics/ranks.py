"""``%%ranks``: cells in ranks that keep their variables from cell to cell."""

from __future__ import annotations

import contextlib
import inspect
import os
import secrets
import signal
import sys
import threading
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic import Magics, cell_magic, magics_class
from IPython.display import display

from nbdist import config, options, panel, runner
from nbdist.diagnosis.exits import rank_names
from nbdist.errors import RunFailed, UnknownRun, UsageMistake
from nbdist.feed.ansi import harmless
from nbdist.feed.view import duration
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
from nbdist.panel.debug_prompt import CellPrompt
from nbdist.store.paths import make_private
from nbdist.store.run_store import read_spec
from nbdist.text import reason_text, say

if TYPE_CHECKING:
    from IPython.core.display_functions import DisplayHandle

    from nbdist.diagnosis.stack_groups import StackGroup

_LOOK = 0.05
_SHOWN_AFTER = 2.0  # seconds until a cell has a line
_ASKED_AFTER, _ASKED_AGAIN = 4.0, 10.0  # seconds until its ranks are asked where they are
_TOLD_AFTER = 5.0
_STAYS = 3.0  # seconds after an interrupt until busy ranks are named, and may be killed


@magics_class
class RanksMagics(Magics):
    """The cell magic, by two names."""

    _started: options.RanksLine | None = None  # the line that started the session of this kernel

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
        """Run ``%%ranks``, by a name that reads better for one rank: ``%%rank 0``."""
        self._run(line, cell)

    def _run(self, line: str, cell: str) -> None:
        if line.strip() in ("-h", "--help", "?"):
            print(options.ranks_help())
            return
        shell = shell_of(self)
        with as_usage_errors():
            request = options.parse_ranks(line)
            runner.check_pulled(request.options.pull, notebook_names(shell))
            _execute(shell, self._session(shell, request, cell), request, cell)

    def _session(self, shell: InteractiveShell, request: options.RanksLine, cell: str) -> runner.RunHandle:
        """Return the session for the cell; without one, start one. Raises UsageMistake."""
        notebook = os.environ.get("JPY_SESSION_NAME", "")
        if (ended := runner.sessions.ended) is not None:
            runner.sessions.mine = None
            if not request.starts:
                # the variables that the cell may need are gone
                raise UsageMistake(
                    f"session {_label(ended)} has ended ({_why(ended)}), its variables are lost: the next "
                    "cell with  %%ranks  starts another one"
                )
        known = runner.sessions.mine
        handle = runner.sessions.current(notebook, os.getcwd())
        if handle is None:
            if self._started is not None and not request.starts:
                request = replace(self._started, ranks=request.ranks)
            return self._start(shell, request, cell)
        if known is None:
            run = handle.run
            tell(say("runs.session-found", config.language(), label=run.label, cells=run.cell))
        if request.starts or request.ranks is not None:
            self._check(request, handle)
        return handle

    def _check(self, request: options.RanksLine, handle: runner.RunHandle) -> None:
        """Raise UsageMistake for a live session that does not match the request."""
        # not from its journal, which may be long
        count = read_spec(handle.directory).world_size
        label = _label(handle)
        same = request.options.nproc in (None, count)
        if self._started is not None and request.starts:
            same &= _of_session(request) == _of_session(self._started)
        if not same:
            raise UsageMistake(
                f"session {label} runs with {count} ranks and the options of its start: write  %%ranks  "
                "alone, or end it first with  %dist_session end"
            )
        if beyond := [rank for rank in request.ranks or () if rank >= count]:
            raise UsageMistake(f"session {label} has no rank {beyond[0]}: it has 0 to {count - 1}")

    def _start(self, shell: InteractiveShell, request: options.RanksLine, cell: str) -> runner.RunHandle:
        """Start a session. Raises UsageMistake, LaunchError and KeyboardInterrupt."""
        chosen = replace(request.options, push=(), pull=(), detach=True, name=request.options.name or "ranks")
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
            if beyond := [rank for rank in request.ranks or () if rank >= count]:
                raise UsageMistake(
                    f"%%ranks starts ranks 0 to {count - 1}, and no rank {beyond[0]}: add  -n {beyond[0] + 1}"
                )
            handle, notes = runner.launch(
                runner.session_plan(planned, request.idle or runner.IDLE),
                taken,
                check=False,
                warm=chosen.warm,
            )
            runner.sessions.mine = handle
            self._started = request
            label = handle.run.label
            tell(*notes, say("runs.session-begun", config.language(), label=label, ranks=count))
        return handle


# %%ranks? shows it
RanksMagics.ranks.__doc__ = f"{inspect.cleandoc(RanksMagics.ranks.__doc__ or '')}\n\n{options.ranks_help()}"


def _of_session(request: options.RanksLine) -> options.RanksLine:
    """Return the line without the options of its cell."""
    return replace(request, ranks=None, options=replace(request.options, push=(), pull=()))


def _label(handle: runner.RunHandle) -> str:
    return handle.run_id.split("-", 2)[2]


def _why(handle: runner.RunHandle) -> str:
    run = handle.run
    return reason_text(run.reason, config.language()) or run.state.value


def _as_python(shell: InteractiveShell, cell: str) -> str:
    """Return the cell as Python; empty for a syntax error, which its ranks will raise."""
    text: str = shell.transform_cell(cell)
    with contextlib.suppress(SyntaxError):
        return Program.parse(text).text
    return ""


def _execute(
    shell: InteractiveShell, handle: runner.RunHandle, request: options.RanksLine, cell: str
) -> None:
    """Execute the cell in the ranks, and show it. Raises UsageMistake, LaunchError, RunFailed and
    KeyboardInterrupt."""
    language, label = config.language(), _label(handle)

    def about_ranks(code: str, ranks: Sequence[int], **facts: object) -> str:
        names = rank_names(ranks, language)
        return say(f"panel.{code}", language, ranks=names, count=len(ranks), label=label, **facts)

    inputs = _push(shell, handle, request.options)
    text = as_in_editor(shell, cell)
    with (
        _presses() as presses,
        runner.LiveCell(handle, text, request.ranks, inputs=inputs, pull=request.options.pull) as live,
    ):
        if live.gone and request.ranks is None:
            tell(about_ranks("session-gone", live.gone))
        draws = getattr(shell, "kernel", None) is not None
        output = panel.CellOutput(
            handle.directory,
            live.number,
            language=language,
            write=write,
            show=(lambda bundle: display(bundle, raw=True)) if draws else None,
        )
        with (
            contextlib.closing(_LiveLine(live, handle, draws=draws)) as line,
            contextlib.closing(CellPrompt(handle.directory, asks=draws)) as prompt,
        ):
            interrupted = _watch(live, output, presses, handle, line, prompt)
    if live.lost and not live.ended.keys() >= live.logs.keys():
        over = runner.settled(handle).state.terminal
        code = "panel.session-ended" if over else "panel.session-unheard"
        raise without_frames(RunFailed(harmless(say(code, language, label=label, why=_why(handle)))))
    report = panel.cell_report(handle.directory, live.number, live.ended, live.exits, language)
    if interrupted:
        ended = about_ranks("cell-interrupted", panel.ranks_kept(live.ended), number=live.number)
        raise without_frames(KeyboardInterrupt(harmless("\n".join(filter(None, [ended, report])))))
    if report:
        raise without_frames(RunFailed(harmless(report)))
    for name in request.options.pull:
        shell.push({name: handle.results.of(live.ranks[0])[name]})


def _watch(
    live: runner.LiveCell,
    output: panel.CellOutput,
    presses: list[int],
    handle: runner.RunHandle,
    line: _LiveLine,
    prompt: CellPrompt,
) -> bool:
    """Show the cell until it ends; return whether the user interrupted it. Raises KeyboardInterrupt for an
    interrupt before it begins: it will not begin."""
    language = config.language()
    waits = stalls = named = False
    taken, since, pressed = 0, 0.0, 0.0
    while not live.over:
        live.listen(_LOOK)
        output.look(live.logs, live.ended)
        line.look()
        prompt.look(live.held)
        if live.stalled and not stalls:
            stalls = True
            tell(say("panel.cell-stalled", language))
        if live.behind and not live.logs and not waits:
            waits = True
            tell(say("panel.cell-waits", language, number=live.number, before=live.behind))
        if len(presses) > taken:
            taken, before, pressed = len(presses), pressed, time.monotonic()
            if before and pressed - before < config.AS_ONE:
                continue  # both are one: a second would end what a finally saves
            if not live.logs:
                not_begun = say("panel.cell-not-begun", language, number=live.number)
                raise without_frames(KeyboardInterrupt(not_begun))
            since = since or time.monotonic()
            (live.kill if named else live.interrupt)()
        if since and not named and time.monotonic() - since >= _STAYS:
            named = True
            tell(_stays(live, handle))
    output.look(live.logs, live.ended, last=True)
    # or from the prompt of a debugger
    return taken > 0 or any(end.outcome == "interrupted" for end in live.ended.values())


class _LiveLine:
    """A line about a cell that lasts, where the front end draws it anew: its time, and which ranks work, wait
    or are idle. A note says when they wait for ranks that have not got the cell."""

    def __init__(self, live: runner.LiveCell, handle: runner.RunHandle, *, draws: bool) -> None:
        self._live, self._handle, self._draws = live, handle, draws
        self._begun = time.monotonic()
        self._next, self._asks = self._begun + _SHOWN_AFTER, self._begun + _ASKED_AFTER
        self._output: DisplayHandle | None = None
        self._groups: Sequence[StackGroup] = ()
        self._told = False

    def look(self) -> None:
        now = time.monotonic()
        if now >= self._asks and self._live.logs:
            self._asks = now + _ASKED_AGAIN
            # an answer may take seconds
            threading.Thread(target=self._ask, name="nbdist stacks", daemon=True).start()
        if now >= self._next and self._live.logs:
            self._next = now + 1.0
            waiting, idle = self._waiting(), self._say("idle", self._idle)
            self._show([*self._working(), *waiting, self._say("done", self._live.ended), idle])
            if waiting and idle and now - self._begun >= _TOLD_AFTER and not self._told:
                self._told = True
                text = say("panel.cell-alone", config.language(), waiting=waiting[0], idle=idle)
                tell(text)

    def close(self) -> None:
        if self._output is not None:
            self._show([self._say("done", self._live.ended)])

    def _ask(self) -> None:
        from nbdist.diagnosis.stacks import take_stacks  # rarely needed, and slow to import

        with contextlib.suppress(UnknownRun, OSError):
            self._groups = take_stacks(self._handle.directory).groups

    def _show(self, parts: Sequence[str]) -> None:
        seconds = duration(time.monotonic() - self._begun)
        bundle = {"text/plain": harmless(" · ".join(filter(None, [seconds, *parts])))}
        if self._output is not None:
            self._output.update(bundle, raw=True)
        elif self._draws:
            self._output = display(bundle, raw=True, display_id=True)

    @property
    def _idle(self) -> list[int]:
        everyone = range(read_spec(self._handle.directory).world_size)
        return sorted({*everyone} - {*self._live.ranks, *self._live.gone})

    def _waiting(self) -> list[str]:
        found = ((self._busy(group), group.place) for group in self._groups if group.place.waits)
        return [
            self._say("waiting", ranks, what=place.what, line=place.line or "")
            for ranks, place in found
            if ranks
        ]

    def _working(self) -> list[str]:
        places = [(self._busy(group), group.place) for group in self._groups]
        known = {rank for ranks, _ in places for rank in ranks}
        texts = [
            self._say("works", ranks, line=place.line or "") for ranks, place in places if not place.waits
        ]
        return [*texts, self._say("works", sorted({*self._live.busy} - known), line="")]

    def _busy(self, group: StackGroup) -> list[int]:
        return sorted({*group.ranks} & {*self._live.busy})

    def _say(self, code: str, ranks: Collection[int], **facts: object) -> str:
        language = config.language()
        names = rank_names(sorted(ranks), language)
        return say(f"panel.cell-{code}", language, ranks=names, count=len(ranks), **facts) if ranks else ""


def _stays(live: runner.LiveCell, handle: runner.RunHandle) -> str:
    """Return the ranks that are still busy after an interrupt, and their calls."""
    from nbdist.diagnosis.stacks import take_stacks  # rarely needed, and slow to import

    groups = take_stacks(handle.directory).groups
    calls = {group.place.what for group in groups if set(group.ranks) & set(live.busy)}
    language, what = config.language(), ", ".join(sorted(filter(None, calls)))
    ranks = rank_names(live.busy, language)
    return say("panel.cell-stays", language, ranks=ranks, count=len(live.busy), what=what)


def _push(shell: InteractiveShell, handle: runner.RunHandle, chosen: options.Options) -> Path | None:
    """Write the inputs of the cell; return their file. Raises UsageMistake."""
    if not chosen.push:
        return None
    packed = runner.pack_inputs(chosen, Program.parse(""), notebook_names(shell), path=sys.path, environ={})
    if packed is None:
        return None
    tell(runner.describe_inputs(packed))
    # perhaps before the supervisor does
    path = make_private(handle.directory.cells) / f"{secrets.token_hex(8)}.box"
    packed.write(path)
    return path


@contextlib.contextmanager
def _presses() -> Iterator[list[int]]:
    """Collect the interrupts of the kernel, which are for the ranks."""
    taken: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield taken
        return
    before: Any = signal.signal(signal.SIGINT, lambda number, _: taken.append(number))
    try:
        yield taken
    finally:
        signal.signal(signal.SIGINT, before)
