"""What somebody wants of the nodes that are kept, as words: ``%dist_alloc``, ``nbdist alloc``. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

from nbdist import options
from nbdist.errors import UsageMistake
from nbdist.options import LineParser, Options

_OURS = frozenset({"engine", "nodes", "nproc", "gpus", "slurm"})
_WAIT = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """``nodes`` is None where none are asked for. ``wait`` is how long those that are asked for, or are
    in the queue already, are awaited; None where nobody said."""

    nodes: Options | None
    idle: float
    keep: bool
    wait: float | None

    @property
    def patience(self) -> float:
        return _WAIT if self.wait is None else self.wait


def wanted_nodes(words: Sequence[str], usage: str) -> Wanted:
    """Raises UsageMistake, which says ``usage``."""
    parser = LineParser(usage)
    parser.add_argument("--idle")
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--wait")
    own, rest = parser.parse_known_args(list(words))
    if not rest and (own.keep or own.idle is not None):
        raise UsageMistake(f"say how many nodes of what:  {usage}")
    return Wanted(
        nodes=_nodes(rest, usage) if rest else None,
        idle=options.parse_duration(own.idle or "15m"),
        keep=own.keep,
        wait=None if own.wait is None else options.parse_duration(own.wait),
    )


def _nodes(words: list[str], usage: str) -> Options:
    """What the words of ``%%distributed`` say about nodes."""
    if not words[0].startswith("-"):
        raise UsageMistake(f"there is no {words[0]} here: write  {usage}")
    given = options.parse_words(words if _names_engine(words) else [*words, "--on", "slurm"])
    plain = Options()
    for field in fields(Options):
        if field.name not in _OURS and getattr(given, field.name) != getattr(plain, field.name):
            raise UsageMistake(f"nodes have no --{field.name}: it belongs to the run: write  {usage}")
    if given.engine != "slurm":
        raise UsageMistake(f"only Slurm has nodes to keep, {given.engine} has none: write  --on slurm")
    return given


def _names_engine(words: list[str]) -> bool:
    return any(word == "--on" or word.startswith("--on=") for word in words)
