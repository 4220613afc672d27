"""``nbdist alloc``: nodes of Slurm that are kept for the next runs: asked for, shown, given back."""

from __future__ import annotations

import json
from collections.abc import Sequence

from nbdist import runner
from nbdist.cli.exits import INTERRUPTED
from nbdist.cli.terminal import in_a_shell, note
from nbdist.errors import UsageMistake
from nbdist.panel.ansi import harmless

ALLOC_USAGE = "nbdist alloc [options], nbdist alloc [--json] or nbdist alloc off [JOB]"
ALLOC_HELP = """\
Wait in Slurm's queue once, for many runs: nbdist run --on slurm, and cells, that need no more than these
nodes then begin in them at once. Without options: what there is.

  --nodes N       so many nodes (1)
  -n N, --gpus N  each for so many ranks
  --slurm K=V,…   options of sbatch:  --slurm partition=gpu,time=8:00:00
  --idle TIME     give them back when nothing has run in them for so long (15m)
  --wait TIME     so long are they awaited here (1m); alone: for those that are in the queue already
  --json          what there is, as a list with one object an allocation
  off [JOB]       give them back now; with its number, that of a notebook, too

A terminal that closes ends nothing: they last until nbdist alloc off, --idle, or the end of the time
that Slurm gave them (--slurm time=…). Those of a notebook end with its kernel, unless it said --keep."""

_EXAMPLE = "nbdist alloc --nodes 2 -n 1 [--gpus N] [--slurm K=V,…] [--idle 15m]"


def alloc(words: Sequence[str]) -> int:
    match words:
        case ["off"] | ["off", _]:
            return _give_back("".join(words[1:]))
        case ["--json"]:
            print(json.dumps([view.to_dict() for view in runner.allocation_views()], indent=1))
            return 0
        case ["list", *_]:
            raise UsageMistake("what there is, is shown by  nbdist alloc  alone")
    # a terminal has no kernel whose end could be theirs: --keep is what happens here anyway
    asked = runner.wanted_nodes(
        [word for word in words if word != "--keep"], f"{_EXAMPLE}  or  nbdist alloc off"
    )
    try:
        _do(asked)
    except KeyboardInterrupt:
        note("not waited for any longer: nbdist alloc shows what there is, nbdist alloc off gives it up")
        return INTERRUPTED
    _show()
    return 0


def _do(asked: runner.Wanted) -> None:
    if asked.nodes is not None:
        runner.allocate(asked.nodes, idle=asked.idle, keep=True, wait=asked.patience, say=note)
    elif asked.wait is not None:
        for one in runner.held_allocations():
            runner.await_allocation(one, wait=asked.wait, say=note)


def _show() -> None:
    there = runner.describe_allocations()
    for line in there:
        print(harmless(in_a_shell(line)))
    if not there:
        note(f"no nodes are kept: {_EXAMPLE}")


def _give_back(job: str) -> int:
    released = runner.release_allocations(job, by="nbdist alloc off")
    for line in released:
        print(harmless(line))
    theirs = [one.job for one in runner.held_allocations()]
    for other in theirs:
        note(f"allocation {other} is a notebook's, and ends with it: nbdist alloc off {other}  ends it now")
    if not released and not theirs:
        note("there is no allocation to release")
    return 0
