"""A prompt for held ranks, by lines: in a terminal, and in a notebook by ``input()``."""

from __future__ import annotations

import codeop
import contextvars
import ctypes
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from nbdist import config
from nbdist.diagnosis.exits import rank_names
from nbdist.feed.ansi import harmless
from nbdist.feed.labels import held_text
from nbdist.model import RankHeld, Run
from nbdist.store import RunDirectory, snapshot
from nbdist.store.held_ranks import ask, grouped, held_ranks

_GOES_ON = 2.0  # seconds until the next stop of a rank after which the prompt is that of another one
_LOOKS, _PAUSE = 10, 0.05  # looks, and seconds between two, after which no rank is held


class DebugPrompt:
    """The prompt of one run, first of ``rank``."""

    def __init__(self, directory: RunDirectory, rank: int | None = None) -> None:
        self._directory = directory
        self._chosen = rank
        self._shown: dict[int, Path] = {}
        self._before: RankHeld | None = None
        self._words: list[str] = []

    def run(self) -> None:
        """Send lines to held ranks until none is held, or the user leaves. Raises as ``input``."""
        looks = 0
        with suppress(EOFError, KeyboardInterrupt):
            while looks < _LOOKS and (asked := self.step()) is not False:
                # the supervisor hears of a rank's next stop a moment later than who has asked for it
                looks = 0 if asked else looks + 1
                time.sleep(0.0 if asked else _PAUSE)

    def step(self) -> bool | None:
        """Send a line; return False when it ends the run, None when no rank is held. Raises as ``input``."""
        run = snapshot(self._directory)
        if run is None or not (prompts := held_ranks(self._directory, run)):
            return None
        rank = next((each for each in (self._chosen, *self._shown) if each in prompts), min(prompts))
        self._shown, hold = {rank: prompts[rank]}, run.held[rank]
        # the answer to a step says where it led
        if hold.why != "step" and hold != self._before:
            _say([rank], "\n  ".join([held_text(hold, config.language()), *hold.values]))
        self._before = hold
        text = self._read_block(f"(rank {rank}) ")
        return not self._execute(text, held_ranks(self._directory, snapshot(self._directory) or run))

    def complete(self, line: str, state: int) -> str | None:
        """Return the word number ``state`` that may end a line, as readline asks for it."""
        if not state:
            self._words = "".join(ask(self._shown, f"\t{line}", _GOES_ON).values()).split("\n")
        return self._words[state] if state < len(self._words) else None

    def _read(self, prompt: str) -> str:
        return input(prompt)

    def _read_block(self, prompt: str) -> str:
        text = self._read(prompt)
        # most of pdb's commands are no Python
        with suppress(SyntaxError, ValueError, OverflowError):
            while codeop.compile_command(text, symbol="single") is None:
                text += "\n" + self._read("...   ")
        return text

    def _execute(self, text: str, prompts: Mapping[int, Path]) -> bool:
        """Execute ``rank N``, which chooses another one, ``all COMMAND``, also of ranks that came after
        the prompt, or a command of the rank that is shown; return whether it ends the run."""
        word, _, rest = text.partition(" ")
        if word == "rank" and rest.strip().isdecimal():
            self._chosen = int(rest)
            return False
        asked, command = (prompts, rest) if word == "all" else (self._shown, text)
        for ranks, answer in grouped(ask(asked, command, _GOES_ON if len(prompts) > len(asked) else None)):
            if answer:
                _say(ranks if word == "all" else (), answer)
        return command.strip() in ("q", "quit", "exit")


class CellPrompt(DebugPrompt):
    """The same in a thread, if it ``asks``, beside a cell that goes on to show its run: it ends when others
    have let the ranks go on. ``watch`` gets the run at each look."""

    def __init__(
        self, directory: RunDirectory, watch: Callable[[Run], object] = lambda _: None, *, asks: bool
    ) -> None:
        super().__init__(directory)
        self._watch = watch
        self._asks = asks
        self._thread = threading.Thread()
        self._reads = False

    def attend(self, run: Run) -> None:
        """Look at a run."""
        self._watch(run)
        self.look(run.held)

    def look(self, held: Collection[int]) -> None:
        """Begin to ask when a rank is held, and end when none is."""
        alive = self._thread.is_alive()
        if held and self._asks and not alive:
            run, name = contextvars.copy_context().run, "nbdist debugger"
            self._thread = threading.Thread(target=run, args=(self._ask,), name=name, daemon=True)
            self._thread.start()
        elif alive and not held and self._reads:
            thread = ctypes.c_ulong(self._thread.ident or 0)
            # the kernel's input() looks for it a hundred times a second
            ctypes.pythonapi.PyThreadState_SetAsyncExc(thread, ctypes.py_object(KeyboardInterrupt))
            self._thread.join(1.0)

    def close(self) -> None:
        self.look(())

    def _ask(self) -> None:
        try:
            self.run()
        except RuntimeError:
            # input() has no front end, as under nbclient: who wants to come from elsewhere says --debug
            run = snapshot(self._directory)
            self._asks = run is not None and not run.spec.debug
            if self._asks and run is not None:
                ask(held_ranks(self._directory, run), "c", 0.0)

    def _read(self, prompt: str) -> str:
        self._reads = True
        try:
            return super()._read(prompt)
        finally:
            self._reads = False


def _say(ranks: Sequence[int], text: str) -> None:
    names = rank_names(ranks, config.language())
    print(harmless(f"{names}: {text}" if names else text))
