"""The cases of launch.py: the programs that become ranks, and how each launcher is used.

This module alone knows the peers. Each is used as its documentation says, in a fresh kernel, and given the
best it can have: a free port, a script already written, a wait until it can listen.
"""

from __future__ import annotations

import textwrap
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import psutil
from kernels import CellFailed, Finished, Kernel, LocalKernel, ServedKernel, free_port

RANKS = 2
READING = 0.01
"""Seconds in which a training step waits for its data, and its core for nothing."""

TORCH = """\
import time
first_line = time.time()
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

if not dist.is_initialized():
    dist.init_process_group("gloo")
total = torch.ones(1)
dist.all_reduce(total)
all_reduce = time.time()
assert total.item() == dist.get_world_size() == {ranks}

model = DistributedDataParallel(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model(torch.ones(2, 4)).sum().backward()
optimizer.step()
with open(f"{stamps}/{{dist.get_rank()}}", "w") as file:
    print(first_line, all_reduce, time.time(), file=file)
"""

PADDLE = """\
import time
first_line = time.time()
import paddle
import paddle.distributed as dist

dist.init_parallel_env()
total = paddle.ones([1])
dist.all_reduce(total)
all_reduce = time.time()
assert total.item() == dist.get_world_size() == {ranks}

model = paddle.DataParallel(paddle.nn.Linear(4, 1))
optimizer = paddle.optimizer.SGD(0.1, parameters=model.parameters())
model(paddle.ones([2, 4])).sum().backward()
optimizer.step()
with open(f"{stamps}/{{dist.get_rank()}}", "w") as file:
    print(first_line, all_reduce, time.time(), file=file)
"""

TRAINING = """\
import time
first_line = time.time()
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
total = torch.ones(1)
dist.all_reduce(total)
all_reduce = time.time()

layers = [torch.nn.Linear(512, 512), torch.nn.ReLU(), torch.nn.Linear(512, 512)]
model = DistributedDataParallel(torch.nn.Sequential(*layers))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
inputs = torch.randn(64, 512)
steps, on = 0, torch.ones(1)
while on.item():
    time.sleep({reading})  # the next batch is read
    optimizer.zero_grad()
    model(inputs).square().mean().backward()
    optimizer.step()
    steps += 1
    if steps % 10 == 0:
        # rank 0 has the clock
        on.fill_(time.time() - all_reduce < {seconds})
        dist.broadcast(on, 0)
end = time.time()
with open(f"{stamps}/{{dist.get_rank()}}", "w") as file:
    print(first_line, all_reduce, end, (end - all_reduce) / steps, file=file)
dist.destroy_process_group()
"""

BARE = """\
import os, subprocess, sys
ranks = [
    subprocess.Popen(
        [sys.executable, {script!r}],
        env=os.environ | {{{environment}}},
        stdout=open(f"{script}.{{rank}}.log", "w"),
        stderr=subprocess.STDOUT,
    )
    for rank in range({ranks})
]
for rank in ranks:
    rank.wait()
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """Files, port and number of ranks of one cell in one round."""

    directory: Path
    port: int
    ranks: int = RANKS

    @classmethod
    def new(cls, directory: Path, ranks: int = RANKS) -> Site:
        site = cls(directory=directory, port=free_port(), ranks=ranks)
        site.stamps.mkdir(parents=True)
        return site

    @property
    def stamps(self) -> Path:
        return self.directory / "stamps"

    def torch(self, *, keep_group: bool = False) -> str:
        """Return the torch program. `keep_group`: later cells of a living session use the same process
        group."""
        program = TORCH.format(stamps=self.stamps, ranks=self.ranks)
        return program if keep_group else program + "dist.destroy_process_group()\n"

    def training(self, seconds: float) -> str:
        """Return a training of so many seconds; the fourth stamp is the time of a step."""
        return TRAINING.format(stamps=self.stamps, seconds=seconds, reading=READING)

    def paddle(self) -> str:
        return PADDLE.format(stamps=self.stamps, ranks=self.ranks)

    def script(self, program: str) -> str:
        path = self.directory / "program.py"
        path.write_text(program)
        return str(path)


Cells = Callable[[Site], Sequence[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A way to run the program, in a fresh kernel each round.

    `first` is what a user submits in a fresh kernel, the start of workers included; where it is more than one
    cell they are submitted together. `later` is what is submitted after that, for launchers whose second cell
    may differ; its figures go by `again`. `prepare` (`%load_ext`) is timed apart. `small` is a cell that does
    next to nothing, for launchers whose workers live on. `alone` is the case that says what this one costs.
    What takes long is measured in `every` third or so of the rounds.
    """

    name: str
    first: Cells
    later: Cells | None = None
    prepare: Callable[[int], str] | None = None
    needs: tuple[str, ...] = ("torch",)
    kernel: Callable[[Path], Kernel] = LocalKernel
    limit: str = "bare Popen"
    launcher: str = "!torchrun"
    again: str = ""
    small: str = ""
    alone: str = ""
    every: int = 1

    @property
    def later_name(self) -> str:
        return self.again or f"{self.name}, later cell"

    @property
    def steps(self) -> list[tuple[str, Cells]]:
        """Return the submissions to one kernel, each with the name of its figures."""
        first = [(self.name, self.first)]
        return first if self.later is None else [*first, (self.later_name, self.later)]

    def baselines_of(self, name: str) -> list[str]:
        """Return the baselines of these figures."""
        return [self.alone] if self.alone and name == self.name else [self.limit, self.launcher]

    def start(self, directory: Path, ranks: int) -> Kernel:
        """Start a kernel for so many ranks."""
        kernel = self.kernel(directory)
        if isinstance(kernel, WaitsForWorkers | SplitOnFirstRun):
            kernel.ranks = ranks
        return kernel

    def missing(self) -> list[str]:
        return [module for module in self.needs if not importable(module)]


def importable(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # its parent is missing
        return False


def bare(site: Site, program: str, environment: str) -> str:
    return BARE.format(script=site.script(program), environment=environment, ranks=site.ranks)


def bare_torch(site: Site) -> Sequence[str]:
    environment = (
        f'"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "{site.ranks}", '
        f'"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "{site.port}"'
    )
    return [bare(site, site.torch(), environment)]


def bare_paddle(site: Site) -> Sequence[str]:
    # paddle binds the first endpoint only: the others are names, and any number will do
    endpoints = [f"127.0.0.1:{site.port + rank}" for rank in range(site.ranks)]
    environment = (
        f'"PADDLE_TRAINER_ID": str(rank), "PADDLE_TRAINERS_NUM": "{site.ranks}", '
        f'"PADDLE_TRAINER_ENDPOINTS": "{",".join(endpoints)}", '
        f'"PADDLE_CURRENT_ENDPOINT": {endpoints!r}[rank], '
        f'"PADDLE_MASTER": "{endpoints[0]}", "PADDLE_DISTRI_BACKEND": "gloo"'
    )
    return [bare(site, site.paddle(), environment)]


def torchrun(site: Site) -> Sequence[str]:
    # its usual port is 29500, where someone else may be
    script = site.script(site.torch())
    return [f"!torchrun --nproc-per-node {site.ranks} --master-port {site.port} {script}"]


def paddle_launch(site: Site) -> Sequence[str]:
    script = site.script(site.paddle())
    logs = site.directory / "log"
    launch = f"python -m paddle.distributed.launch --nproc_per_node {site.ranks} --log_dir {logs}"
    return [f"!{launch} {script}"]


def nbdist_torch(site: Site) -> Sequence[str]:
    return [f"%%distributed -n {site.ranks}\n{site.torch()}"]


def live_first(site: Site) -> Sequence[str]:
    return [f"%%ranks -n {site.ranks}\n{site.torch(keep_group=True)}"]


def live_later(site: Site) -> Sequence[str]:
    return [f"%%ranks\n{site.torch(keep_group=True)}"]


def nbdist_paddle(site: Site) -> Sequence[str]:
    return [f"%%distributed -n {site.ranks}\n{site.paddle()}"]


def notebook_launcher(site: Site) -> Sequence[str]:
    return [
        "from accelerate import notebook_launcher\n"
        f"def train():\n{textwrap.indent(site.torch(), '    ')}\n"
        f'notebook_launcher(train, num_processes={site.ranks}, use_port="{site.port}")'
    ]


def nbdistributed_first(site: Site) -> Sequence[str]:
    return [f"%dist_init -n {site.ranks}", *nbdistributed_later(site)]


def nbdistributed_later(site: Site) -> Sequence[str]:
    return [f"%%distributed\n{site.torch(keep_group=True)}"]


def ipyparallel_first(site: Site) -> Sequence[str]:
    # engines know nothing of torch: the rank and the address are the user's to hand out
    start = f'''\
import ipyparallel
client = ipyparallel.Cluster(n={site.ranks}).start_and_connect_sync(activate=True)
def become(rank):
    import os
    os.environ |= {{
        "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "{site.ranks}",
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "{site.port}",
    }}
client[:].map_sync(become, range({site.ranks}))
'''
    return [start, *ipyparallel_later(site)]


def ipyparallel_later(site: Site) -> Sequence[str]:
    return [f"%%px\n{site.torch(keep_group=True)}"]


def every_rank(site: Site) -> Sequence[str]:
    """Return a cell for jupyter-distributed, which runs every cell on every rank."""
    return [site.torch(keep_group=True)]


class WaitsForWorkers(LocalKernel):
    """nbdistributed: the program is sent as soon as both workers could take it.

    %dist_init returns after a fixed 2 s. What is sent to a worker that has not connected by then
    is dropped without a word and times out after 30 s, so `Run All` seldom works.
    """

    ranks = RANKS

    def run(self, cells: Sequence[str], *, seconds: float, submitted: float | None = None) -> Finished:
        *start, program = cells
        if start:
            started = super().run(start, seconds=seconds)
            self._wait(seconds)
            submitted = started.submitted
        return super().run([program], seconds=seconds, submitted=submitted)

    def _wait(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if sum(map(is_connected_worker, self.processes())) == self.ranks:
                return
            time.sleep(0.02)  # it tells nobody; the sockets are all there is to see
        raise CellFailed(f"no {self.ranks} connected workers after {seconds:g} s")


def is_connected_worker(process: psutil.Process) -> bool:
    """Return whether it is nbdistributed's worker.py, connected to the kernel's port (its last word)."""
    try:
        command = process.cmdline()
        connections = process.net_connections("tcp")
    except psutil.Error:  # it has just ended
        return False
    return "worker.py" in "".join(command[1:2]) and any(
        connection.raddr
        and connection.raddr.port == int(command[-1])
        and connection.status == psutil.CONN_ESTABLISHED
        for connection in connections
    )


class SplitOnFirstRun(ServedKernel):
    """jupyter-distributed: the first cell waits until the server has made the kernel two."""

    ranks = RANKS
    _split = False

    def run(self, cells: Sequence[str], *, seconds: float, submitted: float | None = None) -> Finished:
        if not self._split:
            submitted = self.split(seconds=seconds)
            self._split = True
        return super().run(cells, seconds=seconds, submitted=submitted)

    def split(self, *, seconds: float) -> float:
        """Split like the Processes field of its toolbar; return the time of the request."""
        sent = time.time()
        path = f"jupyter-distributed/kernels/{self.kernel_id}"
        self.post(path, {"world_size": self.ranks}, seconds=seconds)
        return sent


def warm(framework: str) -> Callable[[int], str]:
    """Return a preparation that starts ranks before the clock."""
    return lambda ranks: (
        f"%load_ext nbdist\n%dist_warm {ranks} --framework {framework}\n"
        "from nbdist import runner\nassert runner.warm_ranks.wait_until_ready(120)"
    )


def loaded(extension: str) -> Callable[[int], str]:
    return lambda _: f"%load_ext {extension}"


def training(seconds: int) -> Cells:
    return lambda site: [f"%%distributed -n {site.ranks}\n{site.training(seconds)}"]


def rerun(seconds: int) -> str:
    return f"re-run at once after {seconds} s"


def trained(seconds: int, *, alone: bool = False) -> str:
    return f"training of {seconds} s" + (" alone" if alone else "")


def training_cases(seconds: int) -> tuple[Case, Case]:
    """Return a training after which the cell is run again at once; and one beside which no ranks are made
    ready."""
    alone = trained(seconds, alone=True)
    needs = ("torch", "nbdist")
    both = {"first": training(seconds), "needs": needs, "alone": alone, "every": TRAININGS_EVERY}
    return (
        Case(
            name=trained(seconds),
            again=rerun(seconds),
            later=nbdist_torch,
            prepare=lambda _: "%load_ext nbdist\n%dist_warm auto",
            **both,
        ),
        Case(name=alone, prepare=loaded("nbdist"), **both),
    )


TRAININGS_EVERY = 3
TRAININGS = (1, 10, 30)
WARM, LIVE = "nbdist warm", "nbdist %%ranks"
PADDLE_LIMIT, PADDLE_LAUNCHER = "bare Popen (paddle)", "!paddle.distributed.launch"

CASES = (
    Case(name="bare Popen", first=bare_torch),
    Case(
        name="nbdist",
        prepare=loaded("nbdist"),
        first=nbdist_torch,
        later=nbdist_torch,
        needs=("torch", "nbdist"),
    ),
    Case(name=WARM, prepare=warm("torch"), first=nbdist_torch, needs=("torch", "nbdist")),
    Case(
        name=LIVE,
        prepare=loaded("nbdist"),
        first=live_first,
        later=live_later,
        small="%%ranks\nx = 1",
        needs=("torch", "nbdist"),
    ),
    Case(name="!torchrun", first=torchrun),
    *(case for seconds in TRAININGS for case in training_cases(seconds)),
    Case(
        name="notebook_launcher",
        first=notebook_launcher,
        later=notebook_launcher,
        needs=("torch", "accelerate"),
    ),
    Case(
        name="nbdistributed",
        prepare=loaded("nbdistributed"),
        first=nbdistributed_first,
        later=nbdistributed_later,
        small="%%distributed\nx = 1",
        kernel=WaitsForWorkers,
        needs=("torch", "nbdistributed"),
    ),
    Case(
        name="jupyter-distributed",
        first=every_rank,
        later=every_rank,
        small="x = 1",
        needs=("torch", "jupyter_distributed", "jupyter_server"),
        kernel=SplitOnFirstRun,
    ),
    Case(
        name="ipyparallel",
        first=ipyparallel_first,
        later=ipyparallel_later,
        small="%%px\nx = 1",
        needs=("torch", "ipyparallel"),
    ),
    Case(
        name=PADDLE_LIMIT,
        first=bare_paddle,
        needs=("paddle",),
        limit=PADDLE_LIMIT,
        launcher=PADDLE_LAUNCHER,
    ),
    Case(
        name="nbdist (paddle)",
        prepare=loaded("nbdist"),
        first=nbdist_paddle,
        later=nbdist_paddle,
        needs=("paddle", "nbdist"),
        limit=PADDLE_LIMIT,
        launcher=PADDLE_LAUNCHER,
    ),
    Case(
        name="nbdist warm (paddle)",
        prepare=warm("paddle"),
        first=nbdist_paddle,
        needs=("paddle", "nbdist"),
        limit=PADDLE_LIMIT,
        launcher=PADDLE_LAUNCHER,
    ),
    Case(
        name=PADDLE_LAUNCHER,
        first=paddle_launch,
        needs=("paddle",),
        limit=PADDLE_LIMIT,
        launcher=PADDLE_LAUNCHER,
    ),
)
