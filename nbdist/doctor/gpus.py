"""The driver, the GPUs with who holds them, and whether they reach each other."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Mapping
from typing import Any

from nbdist.devices.gpus import describe_holder, driver, list_gpus, open_loads
from nbdist.devices.usage import GpuLoad
from nbdist.doctor.report import Entry, Level

_FULL = 0.9
_GB = 1e9


def examine_gpus(environ: Mapping[str, str] = os.environ, *, bindings: Any = None) -> Iterator[Entry]:
    found = driver(bindings=bindings)
    if found is None:
        yield Entry(
            section="gpus",
            title="driver",
            level=Level.INFO,
            what="no NVIDIA driver: ranks run on the CPU",
            what_zh="没有 NVIDIA 驱动：各进程在 CPU 上运行",
        )
        return
    yield Entry(
        section="gpus", title="driver", level=Level.OK, what=f"{found.version}, CUDA up to {found.cuda}"
    )
    every = list_gpus(bindings=bindings)
    visible = environ.get("CUDA_VISIBLE_DEVICES")
    usable = {gpu.index for gpu in list_gpus(visible, bindings=bindings)}
    if visible is not None and len(usable) < len(every):
        yield _narrowed(visible, len(usable), len(every))
    with open_loads([gpu.index for gpu in every], bindings=bindings) as look:
        for gpu, load in zip(every, look(), strict=True):
            yield _gpu(gpu.index, gpu.name, load)
    yield from _peers(sorted(usable), bindings)


def _narrowed(visible: str, usable: int, count: int) -> Entry:
    said = f"CUDA_VISIBLE_DEVICES={visible}: {usable} of {count} GPUs can be used"
    return Entry(
        section="gpus",
        title="visible",
        level=Level.WARNING if usable else Level.ERROR,
        what=said,
        what_zh=f"CUDA_VISIBLE_DEVICES={visible}：{count} 块 GPU 中可用 {usable} 块",
        fix="restart the kernel without that variable for all of them",
        fix_zh="去掉这个变量并重启内核即可使用全部",
    )


def _gpu(index: int, name: str, load: GpuLoad) -> Entry:
    if load.memory is None or not load.memory_total:
        return Entry(
            section="gpus",
            title=f"GPU {index}",
            level=Level.ERROR,
            what=f"{name}: it does not answer",
            what_zh=f"{name}：没有响应",
            fix="see  nvidia-smi  and  dmesg | grep Xid ; it may need a restart of the machine",
            fix_zh="查看  nvidia-smi  和  dmesg | grep Xid，可能需要重启机器",
        )
    free = (load.memory_total - load.memory) / _GB
    holders = [describe_holder(pid) for pid, _ in load.processes[:4]] if load.ours else []
    held = "; ".join(holders)
    full = load.memory / load.memory_total >= _FULL
    size = f"{free:.1f} of {load.memory_total / _GB:.0f} GB free"
    size_zh = f"{load.memory_total / _GB:.0f} GB 中空闲 {free:.1f} GB"
    return Entry(
        section="gpus",
        title=f"GPU {index}",
        level=Level.WARNING if full else Level.OK,
        what=f"{name}: {size}" + (f"; held by {held}" if held else ""),
        what_zh=f"{name}：{size_zh}" + (f"；占用者 {held}" if held else ""),
        fix="choose another with  --gpus , or end what holds it" if full else "",
        fix_zh="用  --gpus  选别的，或结束占用它的进程" if full else "",
    )


def _peers(indices: list[int], bindings: Any) -> Iterator[Entry]:
    """Whether each pair of GPUs reads the other's memory directly."""
    if len(indices) < 2:
        return
    if bindings is None:
        import pynvml

        bindings = pynvml
    apart, unknown = [], 0
    bindings.nvmlInit()
    try:
        handles = {index: bindings.nvmlDeviceGetHandleByIndex(index) for index in indices}
        for one, other in itertools.combinations(indices, 2):
            try:
                status = bindings.nvmlDeviceGetP2PStatus(
                    handles[one], handles[other], bindings.NVML_P2P_CAPS_INDEX_READ
                )
            except bindings.NVMLError:
                unknown += 1
                continue
            if status != bindings.NVML_P2P_STATUS_OK:
                apart.append(f"{one}-{other}")
    finally:
        bindings.nvmlShutdown()
    if apart:
        yield Entry(
            section="gpus",
            title="P2P",
            level=Level.WARNING,
            what=f"no direct access between GPUs {', '.join(apart[:6])}: NCCL goes through host memory",
            what_zh=f"GPU {', '.join(apart[:6])} 之间不能直接访问：NCCL 会经过主机内存",
            fix="where NCCL hangs:  --env NCCL_P2P_DISABLE=1",
            fix_zh="NCCL 卡住时：--env NCCL_P2P_DISABLE=1",
        )
    elif not unknown:
        yield Entry(
            section="gpus",
            title="P2P",
            level=Level.OK,
            what="all GPUs read each other's memory directly",
            what_zh="所有 GPU 之间可以直接访问",
        )
