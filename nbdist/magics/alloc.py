"""``%dist_alloc``: nodes of Slurm that are kept for the next cells."""

from __future__ import annotations

from dataclasses import fields

from IPython.core.magic import Magics, line_magic, magics_class

from nbdist import options, runner
from nbdist.errors import UsageMistake
from nbdist.magics.presentation import as_usage_errors
from nbdist.options import LineParser, Options

_USAGE = "%dist_alloc --nodes 2 -n 1 [--gpus N] [--slurm K=V,…] [--idle 15m] [--keep]  or  %dist_alloc off"
_OURS = frozenset({"engine", "nodes", "nproc", "gpus", "slurm"})


@magics_class
class AllocationMagics(Magics):
    """The line magic about nodes that are kept."""

    @line_magic
    def dist_alloc(self, line: str) -> None:
        """Wait in Slurm's queue once, for many cells: ``%dist_alloc --on slurm --nodes 2 --gpus 2``.

        A ``%%distributed --on slurm`` cell that needs no more than that then begins at once on these nodes.
        They are given back by ``%dist_alloc off``, after ``--idle 15m`` without a run, and with the kernel
        unless ``--keep``. ``%dist_alloc`` alone says what there is.
        """
        with as_usage_errors():
            try:
                _do(line)
            except KeyboardInterrupt:
                _say(
                    "not waited for any longer: %dist_alloc shows what there is, %dist_alloc off gives it up"
                )


def _do(line: str) -> None:
    words = options.split_line(line)
    if words == ["off"]:
        _say_all(runner.release_allocations() or ["there is no allocation to release"])
        return
    parser = LineParser(_USAGE)
    parser.add_argument("--idle", default="15m")
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--wait", default="1m")
    own, rest = parser.parse_known_args(words)
    wait = options.parse_duration(own.wait)
    if rest:
        runner.allocate(
            _asked(rest), idle=options.parse_duration(own.idle), keep=own.keep, wait=wait, say=_say
        )
    elif "--wait" in line:
        for one in runner.held_allocations():
            runner.await_allocation(one, wait=wait, say=_say)
    elif words:
        raise UsageMistake(f"%dist_alloc {line}: say how many nodes of what:  {_USAGE}")
    _say_all(runner.describe_allocations() or [f"no nodes are kept: {_USAGE}"])


def _asked(words: list[str]) -> Options:
    """What the words of ``%%distributed`` say about nodes. Raises UsageMistake."""
    given = options.parse_words(words if _names_engine(words) else [*words, "--on", "slurm"])
    plain = Options()
    for field in fields(Options):
        if field.name not in _OURS and getattr(given, field.name) != getattr(plain, field.name):
            raise UsageMistake(
                f"%dist_alloc knows no --{field.name}: it belongs to the cell: write  {_USAGE}"
            )
    if given.engine != "slurm":
        raise UsageMistake(f"%dist_alloc --on {given.engine}: only Slurm has nodes to keep: --on slurm")
    return given


def _names_engine(words: list[str]) -> bool:
    return any(word == "--on" or word.startswith("--on=") for word in words)


def _say(text: str) -> None:
    print(f"[nbdist] {text}", flush=True)


def _say_all(lines: list[str]) -> None:
    for line in lines:
        _say(line)
