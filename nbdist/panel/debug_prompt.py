"""A prompt for held ranks, by lines: in a terminal, and in a notebook by ``input()``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

from nbdist import config
from nbdist.diagnosis.exits import rank_names
from nbdist.feed.ansi import harmless
from nbdist.feed.labels import held_text
from nbdist.model import Run
from nbdist.store import RunDirectory, snapshot
from nbdist.store.held_ranks import ask, grouped, held_ranks, is_incomplete

_GOES_ON = 2.0
"""Seconds until the next stop of a rank after which the prompt is that of another one."""

_QUIT = ("q", "quit", "exit")


class DebugPrompt:
    """The prompt of one run, first of ``rank``. ``read`` shows a prompt and returns a line."""

    def __init__(
        self, directory: RunDirectory, rank: int | None = None, *, read: Callable[[str], str] | None = None
    ) -> None:
        self._directory = directory
        self._rank = rank
        self._read = read or input
        self._words: list[str] = []

    def run(self) -> None:
        """Send lines to held ranks until none is held, or the user leaves. Raises as ``read``."""
        with suppress(EOFError, KeyboardInterrupt):
            shown = None
            while (run := snapshot(self._directory)) and (held := held_ranks(self._directory, run)):
                rank = self._rank if self._rank in held else held[0]
                hold = run.held[rank]
                # the answer to a step says where it led
                if hold.why != "step" and hold != shown:
                    _say([rank], "\n  ".join([held_text(hold, config.language()), *hold.values]))
                shown = hold
                if self._execute(run, rank, held, self._read_block(f"(rank {rank}) ")):
                    return

    def complete(self, line: str, state: int) -> str | None:
        """Return the word number ``state`` that may end a line, as readline asks for it."""
        if not state and (run := snapshot(self._directory)) is not None:
            held = held_ranks(self._directory, run)
            rank = self._rank if self._rank in held else held[0]
            self._words = ask(self._directory, run, [rank], f"\t{line}", _GOES_ON).get(rank, "").split("\n")
        return self._words[state] if state < len(self._words) else None

    def _read_block(self, prompt: str) -> str:
        text = self._read(prompt)
        while is_incomplete(text):
            text += "\n" + self._read("...   ")
        return text

    def _execute(self, run: Run, rank: int, held: list[int], text: str) -> bool:
        """Execute ``rank N``, which chooses another one, ``all COMMAND``, or a rank's command; return whether
        it ends the run."""
        word, _, rest = text.partition(" ")
        if word == "rank" and rest.strip().isdecimal():
            self._rank = int(rest)
            return False
        chosen, command = (held, rest) if word == "all" else ([rank], text)
        patience = _GOES_ON if len(held) > len(chosen) else None
        for ranks, answer in grouped(ask(self._directory, run, chosen, command, patience)):
            if answer:
                _say(ranks if word == "all" else (), answer)
        return command.strip() in _QUIT


def _say(ranks: Sequence[int], text: str) -> None:
    names = rank_names(ranks, config.language())
    print(harmless(f"{names}: {text}" if names else text))
