"""The GPUs of this machine, asked by NVML and so without making a CUDA context."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from nbdist.devices.gpu_load import GpuLoad


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One GPU. ``index`` is its physical id, as nvidia-smi shows it; memory in bytes."""

    index: int
    name: str
    uuid: str
    memory: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuUse:
    """What one process holds of one GPU, in bytes."""

    index: int
    pid: int
    memory: int


def list_gpus(visible: str | None = None, *, bindings: Any = None) -> list[Gpu]:
    """The GPUs that this process may use, by index; none where there is no driver.

    ``visible`` is CUDA_VISIBLE_DEVICES as it stands (None: not set): a scheduler or the user may have
    narrowed what is to be used, by index or by (the start of) a UUID. As CUDA reads it, the list ends
    at the first entry that names no GPU. ``bindings`` stand in for the module pynvml.
    """
    with _nvml(bindings) as nvml:
        if nvml is None:
            return []
        gpus = [_describe(nvml, index) for index in range(nvml.nvmlDeviceGetCount())]
    if visible is None:
        return gpus
    chosen = []
    for entry in (part.strip() for part in visible.split(",")):
        match = next((gpu for gpu in gpus if _names(entry, gpu)), None)
        if match is None:
            break
        chosen.append(match)
    return sorted(chosen, key=lambda gpu: gpu.index)


def memory_by_pid(*, bindings: Any = None) -> list[GpuUse]:
    """Who holds memory of which GPU, compute processes only."""
    with _nvml(bindings) as nvml:
        if nvml is None:
            return []
        return [
            GpuUse(index=index, pid=process.pid, memory=process.usedGpuMemory or 0)
            for index in range(nvml.nvmlDeviceGetCount())
            for process in nvml.nvmlDeviceGetComputeRunningProcesses(nvml.nvmlDeviceGetHandleByIndex(index))
        ]


_WHY_SLOWED = "nvmlDeviceGetCurrentClocksThrottleReasons"
# software and hardware: thermal, power (nvml.h, nvmlClocksEventReason…); the software's power cap is how
# a GPU at full load runs
_THROTTLED = 0x8 | 0x20 | 0x40 | 0x80


@contextlib.contextmanager
def open_loads(
    indices: Iterable[int], *, bindings: Any = None, alive: Callable[[int], bool] | None = None
) -> Iterator[Callable[[], list[GpuLoad]]]:
    """A way to look at the loads of these GPUs, for the length of a block: opening NVML takes long."""
    wanted = list(indices)
    alive = alive or (lambda pid: os.path.exists(f"/proc/{pid}"))
    with _nvml(bindings) as nvml:
        yield lambda: [] if nvml is None else [_load(nvml, index, alive) for index in wanted]


def _load(nvml: Any, index: int, alive: Callable[[int], bool]) -> GpuLoad:
    """What can be known: a GPU that has fallen off its bus, or is sliced, answers in part or not at all."""

    def ask(question: str, *more: int) -> Any:
        try:
            return getattr(nvml, question)(nvml.nvmlDeviceGetHandleByIndex(index), *more)
        except nvml.NVMLError:
            return None

    utilisation, memory = ask("nvmlDeviceGetUtilizationRates"), ask("nvmlDeviceGetMemoryInfo")
    milliwatts = ask("nvmlDeviceGetPowerUsage")
    holders = ask("nvmlDeviceGetComputeRunningProcesses") or ()
    # older bindings do not ask this
    slowed = ask(_WHY_SLOWED) if hasattr(nvml, _WHY_SLOWED) else None
    return GpuLoad(
        index=index,
        utilisation=None if utilisation is None else utilisation.gpu,
        memory=None if memory is None else memory.used,
        memory_total=None if memory is None else memory.total,
        power=None if milliwatts is None else milliwatts / 1000,
        temperature=ask("nvmlDeviceGetTemperature", nvml.NVML_TEMPERATURE_GPU),
        throttled=None if slowed is None else int(bool(slowed & _THROTTLED)),
        processes=tuple((holder.pid, holder.usedGpuMemory or 0) for holder in holders),
        ours=bool(holders)
        and all(holder.usedGpuMemory is not None and alive(holder.pid) for holder in holders),
    )


@contextlib.contextmanager
def _nvml(bindings: Any) -> Iterator[Any]:
    """The NVML bindings, opened for the length of a block; None where there is no driver."""
    if bindings is None:
        import pynvml

        bindings = pynvml
    try:
        bindings.nvmlInit()
    except bindings.NVMLError:
        yield None
        return
    try:
        yield bindings
    finally:
        bindings.nvmlShutdown()


def _describe(nvml: Any, index: int) -> Gpu:
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    return Gpu(
        index=index,
        name=_text(nvml.nvmlDeviceGetName(handle)),
        uuid=_text(nvml.nvmlDeviceGetUUID(handle)),
        memory=nvml.nvmlDeviceGetMemoryInfo(handle).total,
    )


def _text(value: str | bytes) -> str:
    # older bindings answer in bytes
    return value.decode() if isinstance(value, bytes) else value


def _names(entry: str, gpu: Gpu) -> bool:
    return entry == str(gpu.index) or (entry.startswith("GPU-") and gpu.uuid.startswith(entry))
