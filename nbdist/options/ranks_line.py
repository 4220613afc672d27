"""The line of ``%%ranks``: its ranks, and options of ``%%distributed`` for the session that it starts."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import partial

from nbdist.errors import UsageMistake
from nbdist.options.parser import LineParser, Options, parse_words
from nbdist.options.table import OPTIONS, Option, described, help_text, parse_duration
from nbdist.options.typed_line import split_line

_WITHOUT = frozenset(
    {"detach", "timeout", "retries", "args", "sweep", "each", "metric", "keep_inputs", "nodes", "node_rank"}
    | {"master", "ips", "host", "wait", "engine", "slurm", "ray", "panel", "check", "show_ranks"}
)
"""The options of ``%%distributed`` without a meaning for ranks which live on, on one machine."""

_IDLE = "--idle"
_OWN = Option((_IDLE,), "idle", "TIME", partial(parse_duration, flag=_IDLE))


@dataclass(frozen=True, slots=True, kw_only=True)
class RanksLine:
    """The ``ranks`` that execute the cell (None: all), and ``idle`` in seconds (None where not typed)."""

    ranks: tuple[int, ...] | None
    options: Options
    idle: float | None = None

    @property
    def starts(self) -> bool:
        """Return whether it has options that only a session's start needs."""
        plain = replace(self.options, push=(), pull=(), notes=(), any_device=False)
        return plain != Options() or self.idle is not None


def parse_ranks(line: str) -> RanksLine:
    """Parse the line. Raises UsageMistake."""
    # nbdistributed writes them in brackets
    match = re.match(r"\s*(\[[^\]]*\]|[^-#\s]\S*)", line)
    which = match[1] if match is not None else ""
    words = split_line(line[match.end() :] if match is not None else line)
    parser = LineParser(f"{_IDLE} 30m")
    parser.add_argument(_IDLE, type=_OWN.parse)
    own, words = parser.parse_known_args(words)
    options = parse_words(words)
    plain = Options()
    for option in OPTIONS:
        if option.field in _WITHOUT and getattr(options, option.field) != getattr(plain, option.field):
            raise UsageMistake(
                f"{option.flags[-1]} does not work with %%ranks: leave it out, or write  %%distributed  "
                "above the cell"
            )
    if options.push == ("auto",):
        raise UsageMistake("--push auto does not work with %%ranks: write the names, as in  --push df")
    return RanksLine(ranks=_numbers(which) if which else None, options=options, idle=own.idle)


def _numbers(text: str) -> tuple[int, ...] | None:
    """Parse ``0``, ``0,2``, ``1-3``, ``[0, 1]``; None for ``all``."""
    if text == "all":
        return None
    numbers: list[int] = []
    for part in text.strip("[]").split(","):
        match = re.fullmatch(r"(\d{1,4})(?:-(\d{1,4}))?", part.strip())
        if match is None:
            raise UsageMistake(
                f"%%ranks {text}: write ranks without spaces, as in  %%ranks 0,2  or  %%ranks 1-3 , or start "
                "them with  %%ranks -n 2"
            )
        numbers += range(int(match[1]), int(match[2] or match[1]) + 1)
    return tuple(sorted(set(numbers)))


def ranks_help() -> str:
    """Return the text of ``%%ranks --help``."""
    idle = f"  {_IDLE} {_OWN.metavar}  {_OWN.help.en}"
    return help_text(f"%%ranks [0|0,2|1-3] [options]\n{idle}", without=_WITHOUT)


def option_list() -> list[dict[str, object]]:
    """Return ``OptionList`` in openapi.yaml, for pages that complete options, or make a form of them."""
    both = [
        described(option)
        | {"magics": ["distributed"] if option.field in _WITHOUT else ["distributed", "ranks"]}
        for option in OPTIONS
    ]
    return [*both, described(_OWN) | {"magics": ["ranks"]}]
