"""Whether options agree with each other. What the machine has is checked later, by the runner."""

from __future__ import annotations

from nbdist.errors import UsageMistake
from nbdist.options.options import Options


def check(options: Options) -> None:
    """Raises UsageMistake."""
    if options.engine != "local":
        _check_engine(options)
    else:
        _check_together(options)
        _check_nodes(options)
        _check_port(options)


def _check_engine(options: Options) -> None:
    decided = {"--node-rank": options.node_rank is not None, "--master": bool(options.master)}
    decided |= {"--ips": bool(options.ips), "--host": bool(options.host)}
    if given := [flag for flag, there in decided.items() if there]:
        raise UsageMistake(f"{given[0]}: with --on {options.engine} the engine decides: leave it out")
    if options.engine != "slurm" and options.slurm:
        raise UsageMistake(f"--slurm and --on {options.engine} disagree: leave out one of them")
    if options.engine != "ray" and options.ray:
        raise UsageMistake(f"--ray and --on {options.engine} disagree: leave out one of them")
    gpus, nproc = options.gpus, options.nproc
    if gpus is None and nproc is None:
        raise UsageMistake(
            f"--on {options.engine}: say what each node is to give:  --gpus 2  or, for CPU ranks,  -n 2"
        )
    if gpus is not None and (gpus == "all" or len(gpus) > 1 or gpus[0] == 0):
        raise UsageMistake(
            f"--on {options.engine} chooses the GPUs itself: say how many of them on each node:  --gpus 2"
        )
    if gpus is not None and nproc not in (None, gpus[0]):
        raise UsageMistake(f"-n {nproc} and --gpus {gpus[0]} disagree: leave out -n")
    if options.backend == "nccl" and gpus is None:
        raise UsageMistake("--backend nccl needs GPUs: leave it out for CPU ranks, or give --gpus")


def _check_together(options: Options) -> None:
    gpus, nproc = options.gpus, options.nproc
    if isinstance(gpus, tuple) and nproc is not None and nproc != len(gpus):
        ids = ",".join(map(str, gpus))
        raise UsageMistake(
            f"-n {nproc} and --gpus {ids} disagree: --gpus {ids} alone starts {len(gpus)} ranks, one a GPU; "
            f"-n {nproc} alone starts {nproc} on the CPU"
        )
    if options.backend == "nccl" and gpus is None and nproc is not None:
        raise UsageMistake("--backend nccl needs GPUs: leave it out for CPU ranks, or give --gpus")


def _check_nodes(options: Options) -> None:
    count = options.nodes or len(options.ips) or 1
    if options.ips and count != len(options.ips):
        raise UsageMistake(f"--nodes {count} and --ips with {len(options.ips)} disagree: leave out --nodes")
    if options.node_rank is not None and options.node_rank >= count:
        raise UsageMistake(
            f"--node-rank {options.node_rank} of {count} node{'s' if count > 1 else ''}: they are numbered "
            f"from 0: write  --nodes {options.node_rank + 1}  or a lower rank"
        )
    if count > 1 and not options.ips and (not options.master or options.master[0] == ":"):
        raise UsageMistake(f"--nodes {count} need to meet: add  --master HOST:PORT  of node 0")


def _check_port(options: Options) -> None:
    # torchrun takes any free port for 0, which the other machines could not know
    if (options.nodes or len(options.ips)) > 1 and options.master.endswith(":0"):
        raise UsageMistake(f"--master {options.master}: several machines need a port that each knows: 29500")
