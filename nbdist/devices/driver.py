"""The NVIDIA driver, asked by NVML."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Driver:
    """``cuda`` is the newest CUDA that the driver knows, as in ``12.4``."""

    version: str
    cuda: str


def driver(*, bindings: Any = None) -> Driver | None:
    """None where there is no driver."""
    if bindings is None:
        import pynvml

        bindings = pynvml
    try:
        bindings.nvmlInit()
    except bindings.NVMLError:
        return None
    try:
        version = bindings.nvmlSystemGetDriverVersion()
        number = bindings.nvmlSystemGetCudaDriverVersion()
    except bindings.NVMLError:
        return None
    finally:
        bindings.nvmlShutdown()
    # as cudaDriverGetVersion: 1000 * major + 10 * minor
    return Driver(
        version=version.decode() if isinstance(version, bytes) else str(version),
        cuda=f"{number // 1000}.{number % 1000 // 10}",
    )
