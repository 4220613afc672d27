"""GPUs of this machine and the processes that hold them, read by NVML, which makes no CUDA context."""

from __future__ import annotations

import contextlib
import os
import pwd
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from nbdist.devices.usage import GpuLoad, encode_loads
from nbdist.privacy import masked_words
from nbdist.tables import read_table


@dataclass(frozen=True, slots=True, kw_only=True)
class Driver:
    """The NVIDIA driver. ``cuda`` is the newest CUDA that it supports, as in ``12.4``."""

    version: str
    cuda: str


def driver(*, bindings: Any = None) -> Driver | None:
    """Return the driver, if there is one."""
    with _nvml(bindings) as nvml:
        if nvml is None:
            return None
        try:
            version, number = nvml.nvmlSystemGetDriverVersion(), nvml.nvmlSystemGetCudaDriverVersion()
        except nvml.NVMLError:
            return None
    # as cudaDriverGetVersion: 1000 * major + 10 * minor
    return Driver(version=_text(version), cuda=f"{number // 1000}.{number % 1000 // 10}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One GPU. ``index`` is its physical id, as nvidia-smi shows it; memory in bytes."""

    index: int
    name: str
    uuid: str
    memory: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuUse:
    """The memory of one GPU that one process holds, in bytes."""

    index: int
    pid: int
    memory: int


def list_gpus(visible: str | None = None, *, bindings: Any = None) -> list[Gpu]:
    """Return the GPUs that this process may use, by index; none without a driver.

    ``visible`` is CUDA_VISIBLE_DEVICES (None: not set): indices or starts of UUIDs. As in CUDA, the list ends
    at the first entry that names no GPU. ``bindings`` replace pynvml.
    """
    with _nvml(bindings) as nvml:
        if nvml is None:
            return []
        handles = map(nvml.nvmlDeviceGetHandleByIndex, range(nvml.nvmlDeviceGetCount()))
        gpus = [
            Gpu(
                index=index,
                name=_text(nvml.nvmlDeviceGetName(handle)),
                uuid=_text(nvml.nvmlDeviceGetUUID(handle)),
                memory=nvml.nvmlDeviceGetMemoryInfo(handle).total,
            )
            for index, handle in enumerate(handles)
        ]
    if visible is None:
        return gpus
    chosen = []
    for entry in (part.strip() for part in visible.split(",")):
        match = next((gpu for gpu in gpus if _names(entry, gpu)), None)
        if match is None:
            break
        chosen.append(match)
    return sorted(chosen, key=lambda gpu: gpu.index)


def other_cards(environ: Mapping[str, str], dev: Path = Path("/dev")) -> str:
    """Return the kind of cards that are not NVIDIA's, and are here, chosen or installed; empty for none."""
    for kind, signs in read_table(__file__, "other_cards").items():
        chosen = any(environ.get(name, "-1") not in ("", "-1") for name in signs["variables"])
        if chosen or any(map(find_spec, signs["modules"])) or any(dev.glob(signs["files"])):
            return kind
    return ""


def memory_by_pid(*, bindings: Any = None) -> list[GpuUse]:
    """Return the memory that each compute process holds of each GPU."""
    with _nvml(bindings) as nvml:
        if nvml is None:
            return []
        return [
            GpuUse(index=index, pid=process.pid, memory=process.usedGpuMemory or 0)
            for index in range(nvml.nvmlDeviceGetCount())
            for process in nvml.nvmlDeviceGetComputeRunningProcesses(nvml.nvmlDeviceGetHandleByIndex(index))
        ]


_WHY_SLOWED = "nvmlDeviceGetCurrentClocksThrottleReasons"
# thermal and power, in software and hardware (nvml.h, nvmlClocksEventReason…), but for the software's power
# cap, which holds at full load
_THROTTLED = 0x8 | 0x20 | 0x40 | 0x80


@contextlib.contextmanager
def open_loads(
    indices: Iterable[int], *, bindings: Any = None, alive: Callable[[int], bool] | None = None
) -> Iterator[Callable[[], list[GpuLoad]]]:
    """Yield a function that reads the loads of these GPUs: opening NVML for each look takes too long."""
    wanted = list(indices)
    alive = alive or (lambda pid: os.path.exists(f"/proc/{pid}"))
    with _nvml(bindings) as nvml:
        yield lambda: [] if nvml is None else [_load(nvml, index, alive) for index in wanted]


def _load(nvml: Any, index: int, alive: Callable[[int], bool]) -> GpuLoad:
    """Return the known values: a GPU that is sliced, or has fallen off its bus, reports few or none."""

    def ask(question: str, *more: int) -> Any:
        try:
            return getattr(nvml, question)(nvml.nvmlDeviceGetHandleByIndex(index), *more)
        except nvml.NVMLError:
            return None

    utilisation, memory = ask("nvmlDeviceGetUtilizationRates"), ask("nvmlDeviceGetMemoryInfo")
    milliwatts = ask("nvmlDeviceGetPowerUsage")
    holders = ask("nvmlDeviceGetComputeRunningProcesses") or ()
    # older bindings lack it
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
        ours=bool(holders) and all(h.usedGpuMemory is not None and alive(h.pid) for h in holders),
    )


@contextlib.contextmanager
def _nvml(bindings: Any) -> Iterator[Any]:
    """Open the NVML bindings for a block; yield None without a driver."""
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


def _text(value: str | bytes) -> str:
    # older bindings return bytes
    return value.decode() if isinstance(value, bytes) else value


def _names(entry: str, gpu: Gpu) -> bool:
    return entry == str(gpu.index) or (entry.startswith("GPU-") and gpu.uuid.startswith(entry))


_LONG = 40


def describe_holder(pid: int, root: Path = Path("/proc")) -> str:
    """Return ``run 2026…-lenet-k3f9 (pid 71)``, ``python train.py (pid 71, user eva)``, or ``pid 71``."""
    if pid == os.getpid():
        return f"this process (pid {pid}): restart the kernel to free it"
    place = root / str(pid)
    with contextlib.suppress(OSError):
        for entry in (place / "environ").read_bytes().split(b"\0"):
            if entry.startswith(b"NBDIST_RUN_ID="):
                return f"run {entry.partition(b'=')[2].decode()} (pid {pid})"
    user, command = "", ""
    with contextlib.suppress(OSError):
        words = [word.decode(errors="replace") for word in (place / "cmdline").read_bytes().split(b"\0")]
        command = " ".join(map(os.path.basename, masked_words(words[:3]))).strip()
    with contextlib.suppress(OSError, KeyError):
        user = pwd.getpwuid(os.stat(place).st_uid).pw_name
    who = f"pid {pid}, user {user}" if user else f"pid {pid}"
    # a name may hold control characters for the terminal
    shown = "".join(char if char.isprintable() else "?" for char in command[:_LONG])
    return f"{shown} ({who})" if shown else who


def main(words: Sequence[str]) -> int:
    """Run as ``meters.GpuProbe`` (``FD INDEX…``): answer each line at socket FD with the loads."""
    channel, *gpus = map(int, words)
    with open_loads(gpus) as look, socket.socket(fileno=channel).makefile("rw") as line:
        for _ in line:
            print(encode_loads(look()), file=line, flush=True)
    return 0
