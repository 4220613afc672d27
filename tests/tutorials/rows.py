"""What each system of the tutorials shows: a program, how it is run, and what its ranks must print.

A row whose program is a cell of a notebook is run with the notebook; every other is pasted into a kernel.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

PROGRAMS = Path(__file__).parent / "programs"
# the seeds are the tutorials' own, which is none: far from chance is enough, where few steps are made
ACCURATE = r"acc_top1: (0\.[5-9]|1\.0)"
NEARLY = r"batch_id: 40, loss is: .*, acc is: (0\.[789]|1\.0)"
GLOBAL = r"all ranks: (\d+) of 357 = (0\.[789]|1\.0)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One system. ``{r}`` in a pattern is the rank, and patterns are searched in the rank's log.

    ``written`` is the file that a notebook writes the program to, where it is no cell with ``%%distributed``;
    ``swaps`` are the words in which the pasted program differs from its file. A row with ``more`` is left to
    ``make test-more``: others go the same way through the code.
    """

    name: str
    program: str
    framework: str
    line: str
    notebook: str = ""
    run: str = ""
    each: tuple[str, ...] = ()
    first: tuple[str, ...] = ()
    written: str = ""
    swaps: tuple[tuple[str, str], ...] = ()
    more: bool = False


def _paddle(name: str, program: str, notebook: str, ranks: int, **patterns: tuple[str, ...]) -> Row:
    return _noted(name, program, "paddle", notebook, f"-n {ranks}", **patterns)


def _torch(name: str, program: str, notebook: str, ranks: int, **patterns: tuple[str, ...]) -> Row:
    return _noted(name, program, "torch", notebook, f"-n {ranks}", **patterns)


def _noted(
    name: str, program: str, framework: str, notebook: str, line: str, **patterns: tuple[str, ...]
) -> Row:
    return Row(
        name=name, program=program, framework=framework, notebook=notebook, run=name, line=line, **patterns
    )


LAUNCH, FLEET = "03-from-paddle-launch", "04-fleet"
TORCHRUN, DEPTH, MACHINES = "02-from-torchrun", "05-ddp-in-depth", "07-several-machines"
LAST_STEP = r"step:19\tloss:"

ROWS: tuple[Row, ...] = (
    _paddle("hapi-single", "hapi", LAUNCH, 1, each=(ACCURATE, r"Eval samples: 357")),
    _paddle("hapi", "hapi", LAUNCH, 2, first=(ACCURATE, r"Eval samples: 357")),
    _paddle("basic-single", "basic_single", LAUNCH, 1, each=(NEARLY,)),
    _paddle("basic", "basic_parallel", LAUNCH, 2, each=(NEARLY,)),
    _paddle("spawn", "spawn", LAUNCH, 1, each=(rf"(?s){NEARLY}.*{NEARLY}",)),
    _paddle("logs", "linear_single", LAUNCH, 2, each=(LAST_STEP,)),
    _paddle("fluid-port", "fluid_parallel", LAUNCH, 2, each=(r"epoch: 0, batch: 10, loss is: \d+\.\d",)),
    _paddle("linear-single", "linear_single", FLEET, 1, each=(LAST_STEP,)),
    _paddle("fleet-linear", "fleet_linear", FLEET, 2, each=(LAST_STEP,)),
    _paddle("fleet-scaled-loss", "fleet_scaled_loss", FLEET, 2, each=(LAST_STEP,)),
    _paddle("fleet-basic", "fleet_basic", FLEET, 2, each=(NEARLY,)),
    _paddle("fleet-hapi", "fleet_hapi", FLEET, 2, first=(r"step 23/23 - loss: .* acc_top1: 0\.[2-9]",)),
    _paddle("resnet", "resnet", FLEET, 2, each=(r"\[Epoch 1, batch 5\] loss: \d+\.\d+, acc1: ",)),
    _paddle(
        "learning-rate",
        "learning_rate",
        FLEET,
        2,
        each=(r"step 0: lr 0\.0050", r"step 5: lr 0\.0525", r"step 40: lr 0\.1000, loss \d+\.\d"),
    ),
    _paddle(
        "uneven",
        "uneven",
        FLEET,
        2,
        each=(
            r"rank {r} padded: 3 steps, 10 samples",
            r"rank {r} dropped: 2 steps, 8 samples",
            r"rank {r}: steps of the ranks \[3, 3\]",
        ),
    ),
    _paddle("ips", "fleet_linear", MACHINES, 2, each=(LAST_STEP,)),
    _torch(
        "single", "convnet_single", TORCHRUN, 1, each=(r"Step \[20/29\], Loss: 0\.\d", r"Training complete")
    ),
    _torch(
        "mp-spawn",
        "ddp_spawn",
        TORCHRUN,
        1,
        each=(r"(?s)initialised on rank .*initialised on rank ", r"Step \[15/15\], Loss: [01]\.\d"),
    ),
    _torch(
        "ddp", "ddp_env", TORCHRUN, 2, each=(rf"rank {{r}}: \d+ of 17[89]; {GLOBAL}",), first=("Training",)
    ),
    _torch("sync-batch-norm", "sync_batch_norm", DEPTH, 2, each=(r"over the batches of all ranks: True",)),
    _torch("amp", "amp", DEPTH, 2, first=(r"Step \[15/15\].*outputs torch.bfloat16, weights torch.float32",)),
    _torch(
        "inside",
        "",
        DEPTH,
        2,
        each=(r"rank {r}: the gradient of two batches of 8 is that of one of 16: True",),
    ),
    _torch(
        "set-epoch",
        "",
        DEPTH,
        2,
        each=(
            r"without set_epoch, epoch 0: (\[.*\])\n.*without set_epoch, epoch 1: \1",
            r"with set_epoch, epoch 0: (\[.*\])\n.*with set_epoch, epoch 1: (?!\1)",
        ),
    ),
    _torch(
        "join",
        "",
        DEPTH,
        2,
        each=(r"drop_last=False: 10 samples", r"drop_last=True: 9 samples", "no rank waits"),
    ),
    _torch(
        "warm-up",
        "",
        DEPTH,
        2,
        each=("loaded the same weights: True",),
        first=("step 0: lr 0.0040", "step 10: lr 0.0400"),
    ),
    _torch("machine-1", "", MACHINES, 1, each=(r"rank 1 of 2: the sum over both machines is 3",)),
    *(
        Row(
            name=name,
            program="ddp_spawn",
            framework="torch",
            line="-n 1",
            notebook=MACHINES,
            run=name,
            written="mnist_distributed.py",
            each=(rf"initialised on rank {rank}", r"Step \[15/15\]", r"Training complete in"),
        )
        for rank, name in enumerate(("spawn-0", "spawn-1"))
    ),
    Row(
        name="spawn on every device",
        program="spawn",
        framework="paddle",
        line="-n 1",
        each=(rf"(?s){NEARLY}.*{NEARLY}",),
        swaps=(("dist.spawn(train, nprocs=2)", "dist.spawn(train)"),),
        more=True,
    ),
    Row(
        name="spawn on chosen devices",
        program="spawn",
        framework="paddle",
        line="-n 1",
        each=(rf"(?s){NEARLY}.*{NEARLY}",),
        swaps=(("nprocs=2)", "nprocs=2, gpus='4,5')"),),
        more=True,
    ),
    Row(
        name="a single fluid program, ported",
        program="fluid_single",
        framework="paddle",
        line="-n 1",
        each=(r"epoch: 0, batch: 20, loss is: \d+\.\d",),
        more=True,
    ),
    Row(
        name="mp.spawn by way of the environment",
        program="ddp_spawn",
        framework="torch",
        line='-n 1 --args "-g 2 --epochs 1"',
        each=(r"(?s)initialised on rank .*initialised on rank ", r"Step \[15/15\], Loss: [01]\.\d"),
        swaps=(("tcp://localhost:22222", "env://"), ('"8888"', '"{port}"')),
        more=True,
    ),
)

PASTED = [row for row in ROWS if not row.notebook]
NOTED = [row for row in ROWS if row.notebook]
