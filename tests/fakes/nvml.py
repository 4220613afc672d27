"""The part of pynvml that nbdist calls, over GPUs that a test makes up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class FakeProcess:
    pid: int
    usedGpuMemory: int | None  # noqa: N815 - pynvml's name


@dataclass(frozen=True)
class FakeGpu:
    uuid: str
    name: str | bytes = "NVIDIA H200"
    memory: int = 150_000_000_000
    processes: tuple[FakeProcess, ...] = ()

    @property
    def total(self) -> int:
        return self.memory


class FakeNvml:
    """A driver with these GPUs; with ``driver=False`` a machine that has none."""

    class NVMLError(Exception):
        pass

    def __init__(self, gpus: Sequence[FakeGpu] = (), *, driver: bool = True) -> None:
        self._gpus = gpus
        self._driver = driver
        self.open = 0

    def nvmlInit(self) -> None:
        if not self._driver:
            raise self.NVMLError("Driver Not Loaded")
        self.open += 1

    def nvmlShutdown(self) -> None:
        self.open -= 1

    def nvmlDeviceGetCount(self) -> int:
        return len(self._gpus)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> FakeGpu:
        assert self.open, "NVML answers only between nvmlInit and nvmlShutdown"
        return self._gpus[index]

    def nvmlDeviceGetName(self, handle: FakeGpu) -> str | bytes:
        return handle.name

    def nvmlDeviceGetUUID(self, handle: FakeGpu) -> str:
        return handle.uuid

    def nvmlDeviceGetMemoryInfo(self, handle: FakeGpu) -> FakeGpu:
        return handle

    def nvmlDeviceGetComputeRunningProcesses(self, handle: FakeGpu) -> tuple[FakeProcess, ...]:
        return handle.processes
