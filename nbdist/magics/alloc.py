"""``%dist_alloc``: nodes of Slurm that are kept for the next cells."""

from __future__ import annotations

from IPython.core.magic import Magics, line_magic, magics_class

from nbdist import options, runner
from nbdist.magics.presentation import as_usage_errors
from nbdist.panel.ansi import harmless

_USAGE = "%dist_alloc --nodes 2 -n 1 [--gpus N] [--slurm K=V,…] [--idle 15m] [--keep]  or  %dist_alloc off"


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
    asked = runner.wanted_nodes(words, _USAGE)
    if asked.nodes is not None:
        runner.allocate(asked.nodes, idle=asked.idle, keep=asked.keep, wait=asked.patience, say=_say)
    elif asked.wait is not None:
        for one in runner.held_allocations():
            runner.await_allocation(one, wait=asked.wait, say=_say)
    _say_all(runner.describe_allocations() or [f"no nodes are kept: {_USAGE}"])


def _say(text: str) -> None:
    print(harmless(f"[nbdist] {text}"), flush=True)


def _say_all(lines: list[str]) -> None:
    for line in lines:
        _say(line)
