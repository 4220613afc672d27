"""Measurement of the ranks' use, appended to ``system.jsonl`` beside their logs.

``cpu`` is in percent of one core since the last point, ``memory`` and ``memory_total`` in bytes. With a GPU,
``gpu`` is its utilisation in percent, ``gpu_memory`` and ``gpu_memory_total`` are in bytes, ``power`` in
watts, ``temperature`` in degrees Celsius, ``throttled`` 1 while heat or power slow it down. In percent of its
time, the rank waited for others (``wait``), did so or had a collective under way beside its program
(``exchange``), and its main thread waited for a core (``starved``). Unknown values are left out.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from nbdist.devices.usage import GpuLoad, ProcessTrees, TreeUse, decode_loads, memory_total
from nbdist.launch.binding import start_process
from nbdist.launch.stalls.stall_watch import StallWatch
from nbdist.model import Device, ProcessId
from nbdist.processes import identify, read_at_once, send
from nbdist.store.paths import RankDirectory, append_whole, open_to_append
from nbdist.store.step_records import Division, read_steps
from nbdist.worker.order import CHANNEL
from nbdist.worker.stack_answers import WAITS

_ENTRY = Path(__file__).parent.parent / "entry.py"

_FRESH = 5.0
"""Seconds for which an answer is valid."""

_PATIENCE = 0.5
"""Seconds to wait for a killed probe. One that hangs in the kernel stays until its call returns."""


class GpuProbe:
    """A small process that calls NVML; only ``end`` waits for it.

    NVML hangs while a driver is in trouble, just when the supervisor has to end ranks, and the supervisor has
    one thread (``supervisor``) and no site-packages.
    """

    def __init__(
        self,
        gpus: Iterable[int],
        *,
        command: Sequence[str] = (sys.executable, str(_ENTRY), "devices.gpus"),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Start the process. Raises OSError."""
        self._clock = clock
        self._loads: dict[int, GpuLoad] = {}
        self._answered = -_FRESH
        self.waits = False  # for an answer
        self._rest = b""
        words = [*command, str(CHANNEL), *map(str, gpus)]
        pid, ours = start_process(words, environment=os.environ, cwd="/", log=os.devnull)
        self.process = identify(pid) or ProcessId(pid=pid, start_time=0, boot_id="")
        ours.setblocking(False)
        self._socket = ours

    def ask(self) -> None:
        """Request the loads, unless a request is open."""
        if not self.waits:
            with contextlib.suppress(OSError):
                self._socket.send(b"\n")
                self.waits = True

    def loads(self) -> Mapping[int, GpuLoad]:
        """Return the loads by index of the GPU; none without a fresh answer."""
        with contextlib.suppress(OSError):
            while data := self._socket.recv(1 << 16):
                *lines, self._rest = (self._rest + data).split(b"\n")
                for line in lines:
                    self.waits = False
                    with contextlib.suppress(ValueError):
                        self._loads = {load.index: load for load in decode_loads(line)}
                        self._answered = self._clock()
        return self._loads if self._clock() - self._answered < _FRESH else {}

    def end(self) -> bool:
        """Kill the probe; return whether it has ended."""
        self._socket.close()
        send(self.process, signal.SIGKILL)
        deadline = self._clock() + _PATIENCE
        while not _gone(self.process.pid):
            if self._clock() > deadline:
                return False
            time.sleep(0.002)
        return True


def _gone(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return True  # reaped already, with the ranks


FIRST = 1.0
PERIOD = 2.0
"""Seconds to the first point, and between two points of a rank at least."""

_SHARE = 0.001
"""The share of a core for measuring: with many ranks the points are rarer."""

_AT_ONCE = 32
"""Points written at once: making 256 files takes 70 ms, and a rank may fail meanwhile."""

_LEAD = 0.25
"""Seconds between the request to the GPUs and the point."""


@dataclass(slots=True)
class _Metered:
    file: str
    metrics: str
    waits: str
    steps: Path
    schedule: str
    device: Device
    since: float
    cpu: float = 0.0
    looks: int = 0
    waited: int = 0
    under_way: int = 0
    delay: float | None = None
    division: Division | None = None


class Meters:
    """The meters of one attempt."""

    def __init__(
        self,
        stalls: StallWatch,
        *,
        trees: ProcessTrees | None = None,
        probe: Callable[[Iterable[int]], GpuProbe] = GpuProbe,
        wall_clock: Callable[[], float] = time.time,
        effort: Callable[[], float] = time.process_time,
    ) -> None:
        self._stalls = stalls
        self._trees = trees or ProcessTrees()
        self._make_probe = probe
        self._probe: GpuProbe | None = None
        self._probed = False
        self._wall_clock = wall_clock
        self._effort = effort
        self._ranks: dict[int, _Metered] = {}
        self._memory_total = memory_total()
        self._due: float | None = None
        self._least = min(PERIOD, stalls.period)
        self._period = self._least
        self._measured = 0.0
        self._spent = 0.0
        self._unwritten: deque[tuple[str, bytes]] = deque()

    def add(self, rank: int, process: ProcessId, device: Device, files: RankDirectory, now: float) -> None:
        schedule = f"{self._trees.proc}/{process.pid}/schedstat"
        paths = (str(files.system), str(files.metrics), str(files.waits), files.steps, schedule)
        self._ranks[rank] = _Metered(*paths, device, now)
        self._trees.add(rank, process)
        if self._due is None:
            self._due = now + FIRST

    def remove(self, rank: int) -> None:
        """Stop measuring a rank that has exited."""
        if self._ranks.pop(rank, None) is not None:
            self._trees.remove(rank)
            self._stalls.remove(rank)

    def tick(self, now: float) -> bool:
        """Measure, when it is time; return whether it was. ``now`` is monotonic seconds."""
        if self._due is None or not self._ranks:
            return False
        if not self._probed:
            self._probed = True
            if gpus := {rank.device.index for rank in self._ranks.values() if rank.device.kind == "gpu"}:
                with contextlib.suppress(OSError):
                    self._probe = self._make_probe(sorted(gpus))
                    self._probe.ask()  # the first answer takes a second
        if now < self._due - _LEAD:
            return False
        if now < self._due:
            if self._probe is not None:
                self._probe.ask()
            return False
        begun = self._effort()
        if measures := not self._unwritten:
            self._measure(now)
        self._write(_AT_ONCE)
        self._spent += self._effort() - begun
        if not self._unwritten:
            # the period at most doubles: the first look at a large machine costs more than the second
            self._period = max(self._least, min(self._spent / _SHARE, 2 * self._period))
            self._due = self._measured + self._period
        return measures

    def close(self) -> frozenset[int]:
        """Write the last points; return the pid of the probe if it could not be ended."""
        self._write(len(self._unwritten))
        if self._probe is None or self._probe.end():
            return frozenset()
        return frozenset({self._probe.process.pid})

    def _measure(self, now: float) -> None:
        self._measured, self._spent = now, 0.0
        loads = self._probe.loads() if self._probe is not None else {}
        for rank, use in self._trees.look().items():
            metered = self._ranks[rank]
            load = loads.get(metered.device.index) if metered.device.kind == "gpu" else None
            seconds = max(now - metered.since, 0.01)
            values = {"cpu": round(100 * (use.cpu - metered.cpu) / seconds, 1), "memory": use.memory}
            if self._memory_total is not None:
                values["memory_total"] = self._memory_total
            values |= _delays(metered, seconds) | _gpu_values(load, use)
            metered.since, metered.cpu = now, use.cpu
            point = {"t": round(self._wall_clock(), 3), "v": values}
            self._unwritten.append((metered.file, json.dumps(point).encode() + b"\n"))
            self._stalls.saw(rank, use.cpu, use.pids, metered.metrics, now)

    def _write(self, most: int) -> None:
        """Append ``most`` points to their files, the oldest first."""
        for _ in range(min(most, len(self._unwritten))):
            path, line = self._unwritten.popleft()
            with contextlib.suppress(OSError):  # a full disk or a deleted directory costs only the point
                handle = open_to_append(path)
                append_whole(handle, line)
                os.close(handle)


def _delays(metered: _Metered, seconds: float) -> dict[str, float]:
    """Return the shares of the time since the last point for which the rank waited, as far as known."""
    delays: dict[str, float] = {}
    if len(data := read_at_once(metered.waits)) == WAITS.size:
        looks, waited, under_way = WAITS.unpack(data)
        if looks > metered.looks:
            delays["wait"] = round(100 * (waited - metered.waited) / (looks - metered.looks), 1)
            delays["exchange"] = round(100 * (under_way - metered.under_way) / (looks - metered.looks), 1)
        metered.looks, metered.waited, metered.under_way = looks, waited, under_way
    # a training that goes on records its waits, which is exact
    if (record := read_steps(metered.steps)) is not None and record.on_host:
        before, now = metered.division, record.total
        if before is not None and now.steps > before.steps:
            share = (now.parts["wait"] - before.parts["wait"]) / (now.seconds - before.seconds)
            delays["wait"] = round(100 * min(1.0, max(0.0, share)), 1)
        metered.division = now
    # the main thread's nanoseconds on a core, and in wait for one (proc(5))
    if len(fields := read_at_once(metered.schedule).split()) == 3:
        delay = int(fields[1]) / 1e9
        if metered.delay is not None:
            delays["starved"] = round(100 * (delay - metered.delay) / seconds, 1)
        metered.delay = delay
    return delays


def _gpu_values(load: GpuLoad | None, use: TreeUse) -> dict[str, float]:
    if load is None:
        return {}
    known = {
        "gpu": load.utilisation,
        "gpu_memory": load.memory_of(use.pids),
        "gpu_memory_total": load.memory_total,
        "power": load.power,
        "temperature": load.temperature,
        "throttled": load.throttled,
    }
    return {tag: value for tag, value in known.items() if value is not None}
