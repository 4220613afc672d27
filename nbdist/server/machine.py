"""The machine's GPUs with the processes on them, its CPU and memory, read once for all pages."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from nbdist.devices.gpus import list_gpus, open_loads
from nbdist.devices.usage import cpu_count, memory_total
from nbdist.store.run_store import RUN_ID

_FRESH = 2.0
_PATIENCE = 3.0  # seconds for the driver's answer, which in trouble may never come


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """A process that holds memory of a GPU, and its run, if it is this user's."""

    pid: int
    memory: int
    name: str
    run_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuState:
    """A GPU: utilisation in percent, memory in bytes; None where the driver has no value."""

    index: int
    name: str
    memory: int | None
    memory_total: int | None
    utilisation: float | None
    temperature: float | None
    holders: tuple[Holder, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineState:
    """The machine: ``cpu`` in percent of all cores, None at the first look."""

    gpus: tuple[GpuState, ...]
    cores: int
    cpu: float | None
    memory: int | None
    memory_total: int | None

    def to_dict(self) -> dict[str, object]:
        whole = asdict(self)
        return {"gpus": whole.pop("gpus"), "machine": whole}


def look_at_gpus() -> tuple[GpuState, ...]:
    """Return the GPUs of this machine as they are now."""
    gpus = list_gpus()
    with open_loads(gpu.index for gpu in gpus) as look:
        loads = {load.index: load for load in look()}
    return tuple(
        GpuState(
            index=gpu.index,
            name=gpu.name,
            memory=load.memory,
            memory_total=load.memory_total or gpu.memory,
            utilisation=load.utilisation,
            temperature=load.temperature,
            holders=tuple(_holder(pid, memory) for pid, memory in load.processes),
        )
        for gpu in gpus
        if (load := loads.get(gpu.index)) is not None
    )


class Machine:
    """The machine, read at a request unless the last look is fresh."""

    def __init__(
        self,
        *,
        gpus: Callable[[], Sequence[GpuState]] = look_at_gpus,
        clock: Callable[[], float] = time.monotonic,
        patience: float = _PATIENCE,
    ) -> None:
        self._look_at_gpus = gpus
        self._clock = clock
        self._patience = patience
        self._lock = threading.Lock()
        self._looked = float("-inf")
        self._state: MachineState | None = None
        self._gpus: tuple[GpuState, ...] = ()
        self._asking: threading.Thread | None = None

    def look(self) -> MachineState:
        """Return the state of at most two seconds ago. For threads: it blocks."""
        with self._lock:
            now = self._clock()
            if self._state is None or now - self._looked >= _FRESH:
                self._looked = now
                self._ask_driver()
                cpu, memory, limit = psutil.cpu_percent(), psutil.virtual_memory(), memory_total()
                self._state = MachineState(
                    gpus=self._gpus,
                    cores=cpu_count(),
                    cpu=None if self._state is None else cpu,  # psutil's first value covers no time
                    memory=memory.total - memory.available,
                    memory_total=memory.total if limit is None else limit,
                )
            return self._state

    def _ask_driver(self) -> None:
        """Read the GPUs; while the driver is late, keep the last state and call no more."""
        if self._asking is not None and self._asking.is_alive():
            return
        self._asking = threading.Thread(target=self._note_gpus, name="nbdist gpus", daemon=True)
        self._asking.start()
        self._asking.join(self._patience)

    def _note_gpus(self) -> None:
        self._gpus = tuple(self._look_at_gpus())


def _holder(pid: int, memory: int) -> Holder:
    try:
        name = psutil.Process(pid).name()
    except psutil.Error:
        name = ""
    return Holder(pid=pid, memory=memory, name=name, run_id=_run_of(pid))


def _run_of(pid: int) -> str | None:
    """Return the run of a rank or its descendant, by the mark in the process's environment."""
    try:
        for entry in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
            if entry.startswith(b"NBDIST_RUN_DIR="):
                run_id = Path(os.fsdecode(entry.partition(b"=")[2])).name
                return run_id if RUN_ID.fullmatch(run_id) else None
    except OSError:
        pass
    return None
