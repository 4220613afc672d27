"""The machine's GPUs with the processes on them, its CPU and memory, read once for all readers."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from nbdist.devices.gpus import list_gpus, open_loads
from nbdist.devices.usage import cpu_count, memory_available, memory_total
from nbdist.store.run_store import RUN_ID

_FRESH = 2.0
_FIRST = 0.1  # seconds that the first look at the CPU takes
_PATIENCE = 3.0  # seconds for the driver's answer, which in trouble may never come


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """A process that holds memory of a GPU, its user, and its run, if it is this user's."""

    pid: int
    memory: int
    name: str
    run_id: str | None
    user: str = ""


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
    """The machine: ``cpu`` in percent of all cores."""

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
            # a container gets the pids of its host, which name other processes here
            holders=tuple(
                _holder(pid, memory) if load.ours else Holder(pid=pid, memory=memory, name="", run_id=None)
                for pid, memory in load.processes
            ),
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
                # psutil's first value covers no time
                cpu = psutil.cpu_percent(_FIRST if self._state is None else None)
                total, left = memory_total(), memory_available()
                self._state = MachineState(
                    gpus=self._gpus,
                    cores=cpu_count(),
                    cpu=cpu,
                    memory=None if total is None or left is None else max(0, total - left),
                    memory_total=total,
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
    name = user = ""
    # a user may have no name (KeyError)
    with contextlib.suppress(psutil.Error, KeyError):
        process = psutil.Process(pid)
        name = process.name()
        user = process.username()
    return Holder(pid=pid, memory=memory, name=name, run_id=_run_of(pid), user=user)


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
