"""The cases of faults.py: the program whose rank 1 is stuck or raises, and the ways to run it.

How each peer is driven is in launch_cases; this module adds the program and says of each peer which of its
processes are meant to outlive a cell.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import launch_cases
from kernels import CellFailed, Kernel, LocalKernel
from launch_cases import RANKS, Cells, Site, SplitOnFirstRun, WaitsForWorkers, importable

PROGRAM = """\
import os, time
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset

class Numbers(Dataset):
    def __len__(self):
        return 1_000_000
    def __getitem__(self, index):
        return torch.tensor([index])

if not dist.is_initialized():
    dist.init_process_group("gloo")
rank = dist.get_rank()
batches = iter(DataLoader(Numbers(), batch_size=4, num_workers=2))
next(batches)
dist.barrier()
while rank == 1 and not os.path.exists(f"{stamps}/0"):
    time.sleep(0.01)  # the fault must not come before rank 0 has said where it is
with open(f"{stamps}/{{rank}}.part", "w") as file:
    print(os.getpid(), time.time(), file=file)
os.rename(file.name, f"{stamps}/{{rank}}")
if rank == 1:
    {fault}
dist.all_reduce(torch.ones(1))
"""

# paddle's launcher says who a rank is in its own words only
PADDLE_AS_TORCH = """\
import os
os.environ |= {{
    "RANK": os.environ["PADDLE_TRAINER_ID"], "WORLD_SIZE": os.environ["PADDLE_TRAINERS_NUM"],
    "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "{port}",
}}
"""

STUCK = "time.sleep(3600)"
RAISES = 'raise RuntimeError("rank 1 has no data")'


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultSite(Site):
    """Files of one cell, and the action of rank 1 before the collective."""

    fault: str = STUCK

    @classmethod
    def at(cls, directory: Path, fault: str) -> FaultSite:
        empty = Site.new(directory)
        return cls(directory=empty.directory, port=empty.port, fault=fault)

    def torch(self, *, keep_group: bool = False) -> str:
        return PROGRAM.format(stamps=self.stamps, fault=self.fault)

    def paddle(self) -> str:
        return PADDLE_AS_TORCH.format(port=self.port) + self.torch()

    def started(self) -> dict[int, tuple[int, float]]:
        """Return the pid and time of every rank that has reached the fault."""
        started = {}
        for rank in range(RANKS):
            with contextlib.suppress(FileNotFoundError):
                pid, moment = (self.stamps / str(rank)).read_text().split()
                started[rank] = int(pid), float(moment)
        return started

    def wait_for_ranks(self, seconds: float) -> dict[int, tuple[int, float]]:
        """Wait until every rank has reached the fault. Raises CellFailed."""
        deadline = time.monotonic() + seconds
        while len(started := self.started()) < RANKS:
            if time.monotonic() > deadline:
                raise CellFailed(f"only rank {list(started) or 'none'} started within {seconds:g} s")
            time.sleep(0.02)  # a file is all that every launcher's ranks can say something with
        return started


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultCase:
    """A way to run the program. `start` is what makes workers that live on, where there are such;
    those are not left behind when only a cell has ended (`resident`)."""

    name: str
    cells: Cells
    prepare: str | None = None
    start: Sequence[str] = ()
    resident: bool = False
    needs: tuple[str, ...] = ("torch",)
    kernel: Callable[[Path], Kernel] = LocalKernel

    def missing(self) -> list[str]:
        return [module for module in self.needs if not importable(module)]


CASES = (
    FaultCase(
        name="nbdist",
        prepare="%load_ext nbdist",
        cells=launch_cases.nbdist_torch,
        needs=("torch", "nbdist"),
    ),
    FaultCase(name="!torchrun", cells=launch_cases.torchrun),
    FaultCase(name="!paddle.distributed.launch", cells=launch_cases.paddle_launch, needs=("torch", "paddle")),
    FaultCase(name="notebook_launcher", cells=launch_cases.notebook_launcher, needs=("torch", "accelerate")),
    FaultCase(
        name="nbdistributed",
        prepare="%load_ext nbdistributed",
        start=(f"%dist_init -n {RANKS}", "%%distributed\n1"),
        cells=launch_cases.nbdistributed_later,
        resident=True,
        kernel=WaitsForWorkers,
        needs=("torch", "nbdistributed"),
    ),
    FaultCase(
        name="jupyter-distributed",
        start=("1",),
        cells=launch_cases.every_rank,
        resident=True,
        kernel=SplitOnFirstRun,
        needs=("torch", "jupyter_distributed", "jupyter_server"),
    ),
)
