"""Points that the meters write about the ranks' processes and GPUs."""

from __future__ import annotations

import stat
from collections.abc import Iterable
from pathlib import Path

import pytest

from nbdist.devices.usage import GpuLoad, ProcessTrees
from nbdist.launch.meters import Meters
from nbdist.launch.stalls.stall_watch import StallWatch
from nbdist.model import Device, ProcessId
from nbdist.store import MetricPoint, MetricsReader, RankDirectory
from tests.fakes.process_table import FakeProc

MB = 1 << 20
BEGIN = 1_795_184_103.0


class FakeProbe:
    """Answers at once; ``None`` never."""

    def __init__(self, gpus: Iterable[int], loads: list[GpuLoad] | None) -> None:
        self.gpus = list(gpus)
        self.process = ProcessId(pid=9, start_time=1, boot_id="")
        self.requests = 0
        self._loads = loads

    def ask(self) -> None:
        self.requests += 1

    def loads(self) -> dict[int, GpuLoad]:
        return {load.index: load for load in self._loads or ()} if self.requests else {}

    def end(self) -> bool:
        return self._loads is not None


class Metered:
    """Ranks with processes that a test makes up, and their meters."""

    def __init__(self, home: Path) -> None:
        self.now = 0.0
        self.effort = 0.0
        self.costs = 0.0
        self.loads: list[GpuLoad] | None = []
        self.probes: list[FakeProbe] = []
        self.home = home
        self.proc = FakeProc(home / "proc")
        self.meters = Meters(
            StallWatch(float("inf")),
            trees=ProcessTrees(proc=home / "proc", clock=lambda: self.now),
            probe=self._probe,
            wall_clock=lambda: BEGIN + self.now,
            effort=self._spend,
        )

    def add(self, rank: int, device: Device = Device(), cpu: float = 0.0) -> None:  # noqa: B008 - a value
        files = RankDirectory(self.home / str(rank))
        files.path.mkdir()
        self.use(rank, cpu)
        self.meters.add(rank, ProcessId(pid=40 + rank, start_time=100, boot_id=""), device, files, self.now)

    def use(self, rank: int, cpu: float, memory: int = 100 * MB) -> None:
        self.proc.start(40 + rank, parent=1, session=40 + rank, cpu=cpu, resident=memory)

    def pass_time(self, seconds: float) -> None:
        for _ in range(round(seconds * 20)):
            self.now = round(self.now + 0.05, 2)
            self.meters.tick(self.now)

    def points(self, rank: int = 0) -> list[MetricPoint]:
        return MetricsReader(RankDirectory(self.home / str(rank)).system).read()

    def times(self, rank: int = 0) -> list[float]:
        return [point.time - BEGIN for point in self.points(rank)]

    def _probe(self, gpus: Iterable[int]) -> FakeProbe:
        self.probes.append(FakeProbe(gpus, self.loads))
        return self.probes[-1]

    def _spend(self) -> float:
        self.effort += self.costs
        return self.effort


@pytest.fixture
def metered(tmp_path: Path) -> Metered:
    return Metered(tmp_path)


def test_a_point_after_a_second_and_then_every_two(metered: Metered) -> None:
    metered.add(0)
    metered.pass_time(6.0)

    assert metered.times() == [1.0, 3.0, 5.0]


def test_cpu_is_what_was_used_since_the_last_point(metered: Metered) -> None:
    metered.add(0)
    for cpu in (0.5, 2.5, 2.5):
        metered.use(0, cpu)
        metered.pass_time(2.0)

    assert [point.values["cpu"] for point in metered.points()] == [50.0, 100.0, 0.0]


def test_the_imports_of_a_rank_that_waited_are_not_in_its_first_point(metered: Metered) -> None:
    metered.add(0, cpu=2.8)
    metered.use(0, 3.3)
    metered.pass_time(1.0)

    assert [point.values["cpu"] for point in metered.points()] == [50.0]


def test_a_point_says_how_much_memory_there_is_of_how_much(metered: Metered) -> None:
    metered.add(0)
    metered.use(0, 0.0, 300 * MB)
    metered.pass_time(1.0)

    (point,) = metered.points()
    assert point.step is None
    assert point.values["memory"] == 300 * MB
    assert point.values["memory_total"] > 64 * MB
    assert set(point.values) == {"cpu", "memory", "memory_total"}


def test_a_rank_that_has_exited_gets_no_more_points(metered: Metered) -> None:
    metered.add(0)
    metered.add(1)
    metered.pass_time(1.0)
    metered.meters.remove(0)
    metered.pass_time(2.0)

    assert (metered.times(0), metered.times(1)) == ([1.0], [1.0, 3.0])


def test_points_that_cost_much_come_less_often(metered: Metered) -> None:
    metered.add(0)
    metered.costs = 0.008
    metered.pass_time(30.0)

    # twice as long each time, until a thousandth of a core is not exceeded
    assert metered.times() == [1.0, 5.0, 13.0, 21.0, 29.0]


def test_points_of_many_ranks_are_written_little_by_little(metered: Metered) -> None:
    for rank in range(80):
        metered.add(rank)

    written = []
    for _ in range(4):
        metered.pass_time(1.0 if not written else 0.05)
        written.append(sum(1 for rank in range(80) if metered.points(rank)))

    assert written == [32, 64, 80, 80]
    assert {time for rank in range(80) for time in metered.times(rank)} == {1.0}


def test_points_that_are_measured_are_written_at_the_end(metered: Metered) -> None:
    for rank in range(80):
        metered.add(rank)
    metered.pass_time(1.0)
    for rank in range(80):
        metered.meters.remove(rank)

    metered.meters.close()

    assert all(metered.times(rank) == [1.0] for rank in range(80))


def test_a_rank_without_a_gpu_starts_no_probe(metered: Metered) -> None:
    metered.add(0)
    metered.pass_time(5.0)

    assert metered.probes == []
    assert metered.meters.close() == frozenset()


def test_a_point_of_a_rank_with_a_gpu_tells_of_the_gpu(metered: Metered) -> None:
    metered.loads = [
        GpuLoad(
            index=3,
            utilisation=75,
            memory=60_000,
            memory_total=80_000,
            power=250.5,
            temperature=61,
            processes=((40, 1000), (77, 59_000)),
            ours=True,
        ),
        GpuLoad(index=5, memory=500),
    ]
    metered.add(0, Device(kind="gpu", index=3))
    metered.add(1, Device(kind="gpu", index=5))
    metered.pass_time(1.0)

    (point,), (other,) = metered.points(0), metered.points(1)
    assert [probe.gpus for probe in metered.probes] == [[3, 5]]
    assert {tag: value for tag, value in point.values.items() if not tag.startswith(("cpu", "memory"))} == {
        "gpu": 75,
        "gpu_memory": 1000,
        "gpu_memory_total": 80_000,
        "power": 250.5,
        "temperature": 61,
    }
    assert other.values["gpu_memory"] == 500
    assert "power" not in other.values


def test_a_probe_that_never_answers_costs_the_gpus_values_alone(metered: Metered) -> None:
    metered.loads = None
    metered.add(0, Device(kind="gpu", index=0))
    metered.pass_time(5.0)

    assert [set(point.values) for point in metered.points()] == [{"cpu", "memory", "memory_total"}] * 3
    assert metered.meters.close() == frozenset({9})


def test_a_directory_that_was_deleted_costs_the_points_alone(metered: Metered) -> None:
    metered.add(0)
    metered.add(1)
    (metered.home / "0").rmdir()
    metered.pass_time(1.0)

    assert metered.times(1) == [1.0]


def test_only_the_user_may_read_the_points(metered: Metered) -> None:
    metered.add(0)
    metered.pass_time(1.0)

    assert stat.S_IMODE(RankDirectory(metered.home / "0").system.stat().st_mode) == 0o600
