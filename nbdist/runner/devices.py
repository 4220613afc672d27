"""Which device each rank of this machine gets: what was asked for, checked against what is there."""

from __future__ import annotations

from collections.abc import Mapping

from nbdist import config
from nbdist.devices import cpu_count, list_gpus
from nbdist.errors import UsageMistake
from nbdist.model import Device
from nbdist.options import Options
from nbdist.text import say


def choose_devices(options: Options, environ: Mapping[str, str]) -> tuple[list[Device], list[str]]:
    """A device for each rank, and what to say about the choice. Raises UsageMistake."""
    if options.any_device:
        return _any_devices(options.nproc, environ)
    if options.gpus is None and options.nproc is not None:
        return [Device()] * options.nproc, []
    gpus = list_gpus(environ.get("CUDA_VISIBLE_DEVICES"))
    there = [gpu.index for gpu in gpus]
    if options.gpus is None:
        if there:
            return [Device(kind="gpu", index=index) for index in there], []
        return [Device()] * 2, [say("runs.no-gpu", config.language())]
    if options.gpus == "all":
        if not there:
            raise UsageMistake("--gpus all: this machine has no GPU: write  -n 2  for 2 CPU ranks")
        wanted = there
    else:
        wanted = [int(index) for index in options.gpus]
    missing = [index for index in wanted if index not in there]
    if not there:
        count = options.nproc or len(wanted)
        ids = ",".join(map(str, wanted))
        raise UsageMistake(
            f"--gpus {ids}: this machine has no GPU that can be used: write  -n {count}  for "
            f"{count} CPU rank{'s' if count > 1 else ''}"
        )
    if missing:
        known = ", ".join(map(str, there))
        raise UsageMistake(
            f"no GPU {', '.join(map(str, missing))}: this machine has {known}: write  "
            f"--gpus {','.join(map(str, there))}"
        )
    if options.nproc is not None and options.nproc != len(wanted):
        raise UsageMistake(f"-n {options.nproc} and {len(wanted)} GPUs disagree: leave out -n")
    return [Device(kind="gpu", index=index) for index in wanted], []


def _any_devices(count: int | None, environ: Mapping[str, str]) -> tuple[list[Device], list[str]]:
    """Devices as torchrun's --nproc_per_node and paddle's take them: GPUs where there are enough."""
    there = [gpu.index for gpu in list_gpus(environ.get("CUDA_VISIBLE_DEVICES"))]
    if count is None:
        count = len(there) or cpu_count()
    if len(there) >= count:
        return [Device(kind="gpu", index=index) for index in there[:count]], []
    said = [say("runs.few-gpus", config.language(), gpus=len(there), count=count)] if there else []
    return [Device()] * count, said
