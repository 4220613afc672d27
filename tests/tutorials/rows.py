"""The systems of the tutorials: a program, its options, and the output that its ranks must print.

A row is run with its notebook, as the cell of that name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tests.notebooks.course import read

# the seeds are the tutorials' own, which is none: far from chance is enough, where few steps are made
ACCURATE = r"acc_top1: (0\.[5-9]|1\.0)"
NEARLY = r"batch_id: 40, loss is: .*, acc is: (0\.[789]|1\.0)"
GLOBAL = r"all ranks: (\d+) of 357 = (0\.[789]|1\.0)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One system. ``{r}`` in a pattern is the rank, and patterns are searched in the rank's log."""

    name: str
    framework: str
    notebook: str
    each: tuple[str, ...] = ()
    first: tuple[str, ...] = ()


def program_of(name: str, notebook: str) -> str:
    """Return the program of a run in a notebook: its cell without the line of the magic."""
    sources = [cell.source for cell in read(notebook).cells]
    [cell] = [source for source in sources if re.match(rf"%%.* --name {name}(\s|$)", source)]
    return str(cell).partition("\n")[2]


def _paddle(name: str, notebook: str, **patterns: tuple[str, ...]) -> Row:
    return Row(name=name, framework="paddle", notebook=notebook, **patterns)


def _torch(name: str, notebook: str, **patterns: tuple[str, ...]) -> Row:
    return Row(name=name, framework="torch", notebook=notebook, **patterns)


LAUNCH, FLEET = "03-from-paddle-launch", "04-fleet"
TORCHRUN, DEPTH, MACHINES = "02-from-torchrun", "05-ddp-in-depth", "07-several-machines"
LAST_STEP = r"step:19\tloss:"
SPAWN = program_of("spawn", LAUNCH)

ROWS: tuple[Row, ...] = (
    _paddle("hapi-single", LAUNCH, each=(ACCURATE, r"Eval samples: 357")),
    _paddle("hapi", LAUNCH, first=(ACCURATE, r"Eval samples: 357")),
    _paddle("basic-single", LAUNCH, each=(NEARLY,)),
    _paddle("basic", LAUNCH, each=(NEARLY,)),
    _paddle("spawn", LAUNCH, each=(rf"(?s){NEARLY}.*{NEARLY}",)),
    _paddle("logs", LAUNCH, each=(LAST_STEP,)),
    _paddle("fluid-port", LAUNCH, each=(r"epoch: 0, batch: 10, loss is: \d+\.\d",)),
    _paddle("linear-single", FLEET, each=(LAST_STEP,)),
    _paddle("fleet-linear", FLEET, each=(LAST_STEP,)),
    _paddle("fleet-scaled-loss", FLEET, each=(LAST_STEP,)),
    _paddle("fleet-basic", FLEET, each=(NEARLY,)),
    _paddle("fleet-hapi", FLEET, first=(r"step 23/23 - loss: .* acc_top1: 0\.[2-9]",)),
    _paddle("resnet", FLEET, each=(r"\[Epoch 1, batch 5\] loss: \d+\.\d+, acc1: ",)),
    _paddle(
        "learning-rate",
        FLEET,
        each=(r"step 0: lr 0\.0050", r"step 5: lr 0\.0525", r"step 40: lr 0\.1000, loss \d+\.\d"),
    ),
    _paddle(
        "uneven",
        FLEET,
        each=(
            r"rank {r} padded: 3 steps, 10 samples",
            r"rank {r} dropped: 2 steps, 8 samples",
            r"rank {r}: steps of the ranks \[3, 3\]",
        ),
    ),
    _paddle("ips", MACHINES, each=(LAST_STEP,)),
    _torch("single", TORCHRUN, each=(r"Step \[20/29\], Loss: 0\.\d", r"Training complete")),
    _torch(
        "mp-spawn",
        TORCHRUN,
        each=(r"(?s)initialised on rank .*initialised on rank ", r"Step \[15/15\], Loss: [01]\.\d"),
    ),
    _torch("ddp", TORCHRUN, each=(rf"rank {{r}}: \d+ of 17[89]; {GLOBAL}",), first=("Training",)),
    _torch("sync-batch-norm", DEPTH, each=(r"over the batches of all ranks: True",)),
    _torch("amp", DEPTH, first=(r"Step \[15/15\].*outputs torch.bfloat16, weights torch.float32",)),
    _torch("inside", DEPTH, each=(r"rank {r}: the gradient of two batches of 8 is that of one of 16: True",)),
    _torch(
        "set-epoch",
        DEPTH,
        each=(
            r"without set_epoch, epoch 0: (\[.*\])\n.*without set_epoch, epoch 1: \1",
            r"with set_epoch, epoch 0: (\[.*\])\n.*with set_epoch, epoch 1: (?!\1)",
        ),
    ),
    _torch(
        "join", DEPTH, each=(r"drop_last=False: 10 samples", r"drop_last=True: 9 samples", "no rank waits")
    ),
    _torch(
        "warm-up",
        DEPTH,
        each=("loaded the same weights: True",),
        first=("step 0: lr 0.0040", "step 10: lr 0.0400"),
    ),
    _torch("machine-1", MACHINES, each=(r"rank 1 of 2: the sum over both machines is 3",)),
    *(
        _torch(
            name, MACHINES, each=(rf"initialised on rank {rank}", r"Step \[15/15\]", r"Training complete in")
        )
        for rank, name in enumerate(("spawn-0", "spawn-1"))
    ),
)
