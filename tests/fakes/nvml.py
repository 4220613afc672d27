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
    used: int = 0
    utilisation: int | None = 0
    milliwatts: int | None = 0
    temperature: int | None = 0
    lost: bool = False
    """It has fallen off its bus, and answers nothing; None above is what it cannot tell."""

    @property
    def total(self) -> int:
        return self.memory

    @property
    def gpu(self) -> int | None:
        return self.utilisation


class FakeNvml:
    """A driver with these GPUs; with ``driver=False`` a machine that has none."""

    NVML_TEMPERATURE_GPU = 0
    NVML_P2P_CAPS_INDEX_READ = 0
    NVML_P2P_STATUS_OK = 0

    class NVMLError(Exception):
        pass

    def __init__(
        self,
        gpus: Sequence[FakeGpu] = (),
        *,
        driver: bool = True,
        cuda: int = 12040,
        apart: frozenset[tuple[int, int]] = frozenset(),
    ) -> None:
        """Take ``cuda`` as of cudaDriverGetVersion; ``apart`` are pairs without access to each other."""
        self._cuda = cuda
        self._apart = apart
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
        if self._gpus[index].lost:
            raise self.NVMLError("GPU is lost")
        return self._gpus[index]

    def nvmlDeviceGetName(self, handle: FakeGpu) -> str | bytes:
        return handle.name

    def nvmlDeviceGetUUID(self, handle: FakeGpu) -> str:
        return handle.uuid

    def nvmlDeviceGetMemoryInfo(self, handle: FakeGpu) -> FakeGpu:
        return handle

    def nvmlDeviceGetComputeRunningProcesses(self, handle: FakeGpu) -> tuple[FakeProcess, ...]:
        return handle.processes

    def nvmlDeviceGetUtilizationRates(self, handle: FakeGpu) -> FakeGpu:
        self._known(handle.utilisation)
        return handle

    def nvmlDeviceGetPowerUsage(self, handle: FakeGpu) -> int:
        return self._known(handle.milliwatts)

    def nvmlDeviceGetTemperature(self, handle: FakeGpu, sensor: int) -> int:
        assert sensor == self.NVML_TEMPERATURE_GPU
        return self._known(handle.temperature)

    def nvmlSystemGetDriverVersion(self) -> str:
        return "550.54"

    def nvmlSystemGetCudaDriverVersion(self) -> int:
        return self._cuda

    def nvmlDeviceGetP2PStatus(self, first: FakeGpu, second: FakeGpu, capability: int) -> int:
        pair = (self._gpus.index(first), self._gpus.index(second))
        return 1 if pair in self._apart else self.NVML_P2P_STATUS_OK

    def _known(self, value: int | None) -> int:
        if value is None:
            raise self.NVMLError("Not Supported")
        return value
