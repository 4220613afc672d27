"""GPUs for this process, and their holders."""

from __future__ import annotations

from pathlib import Path

import pytest

from nbdist.devices.gpus import Gpu, GpuUse, describe_holder, list_gpus, memory_by_pid, open_loads
from nbdist.devices.usage import GpuLoad, decode_loads, encode_loads
from tests.fakes.nvml import FakeGpu, FakeNvml, FakeProcess

FOUR = [FakeGpu(f"GPU-{letter * 8}-1234") for letter in "abcd"]


def test_a_machine_without_a_driver_has_no_gpu() -> None:
    nvml = FakeNvml(FOUR, driver=False)

    assert list_gpus(bindings=nvml) == []
    assert list_gpus("0", bindings=nvml) == []
    assert memory_by_pid(bindings=nvml) == []
    with open_loads([0], bindings=nvml) as look:
        assert look() == []


def test_gpus_are_told_by_their_physical_ids() -> None:
    nvml = FakeNvml([FakeGpu("GPU-aa", memory=80), FakeGpu("GPU-bb", name=b"Tesla V100", memory=32)])

    assert list_gpus(bindings=nvml) == [
        Gpu(index=0, name="NVIDIA H200", uuid="GPU-aa", memory=80),
        Gpu(index=1, name="Tesla V100", uuid="GPU-bb", memory=32),
    ]


@pytest.mark.parametrize(
    ("visible", "indices"),
    [
        pytest.param(None, [0, 1, 2, 3], id="not narrowed"),
        pytest.param("", [], id="narrowed to nothing"),
        pytest.param("-1", [], id="narrowed to nothing by a number"),
        pytest.param("2", [2], id="one"),
        pytest.param("1,3", [1, 3], id="two"),
        pytest.param("3,1", [1, 3], id="two in another order"),
        pytest.param(" 1 , 3 ", [1, 3], id="two with spaces"),
        pytest.param("1,9,3", [1], id="the list ends at what does not exist"),
        pytest.param("1,-1,3", [1], id="the list ends at a number below zero"),
        pytest.param("GPU-cccccccc-1234", [2], id="by a UUID"),
        pytest.param("GPU-b,GPU-d", [1, 3], id="by the beginnings of UUIDs"),
        pytest.param("MIG-11111111-2222", [], id="by a slice, which is no GPU"),
    ],
)
def test_what_a_scheduler_left_visible_is_all_there_is(visible: str | None, indices: list[int]) -> None:
    assert [gpu.index for gpu in list_gpus(visible, bindings=FakeNvml(FOUR))] == indices


def test_memory_is_told_by_process_and_gpu() -> None:
    nvml = FakeNvml(
        [
            FakeGpu("GPU-aa", processes=(FakeProcess(7, 100), FakeProcess(8, 200))),
            FakeGpu("GPU-bb"),
            # a container may hide how much
            FakeGpu("GPU-cc", processes=(FakeProcess(7, None),)),
        ]
    )

    assert memory_by_pid(bindings=nvml) == [
        GpuUse(index=0, pid=7, memory=100),
        GpuUse(index=0, pid=8, memory=200),
        GpuUse(index=2, pid=7, memory=0),
    ]


def test_the_driver_is_left_as_it_was_found() -> None:
    nvml = FakeNvml(FOUR)

    list_gpus(bindings=nvml)
    memory_by_pid(bindings=nvml)

    assert nvml.open == 0


def loads_of(*gpus: FakeGpu, alive: tuple[int, ...] = ()) -> list[GpuLoad]:
    with open_loads(range(len(gpus)), bindings=FakeNvml(gpus), alive=lambda pid: pid in alive) as look:
        return look()


def test_a_load_is_all_that_the_driver_tells() -> None:
    gpu = FakeGpu(
        "GPU-aa",
        memory=80,
        used=60,
        utilisation=75,
        milliwatts=250_500,
        temperature=61,
        processes=(FakeProcess(7, 10), FakeProcess(8, 50)),
    )

    assert loads_of(gpu, alive=(7, 8)) == [
        GpuLoad(
            index=0,
            utilisation=75,
            memory=60,
            memory_total=80,
            power=250.5,
            temperature=61,
            processes=((7, 10), (8, 50)),
            ours=True,
        )
    ]


def test_what_a_gpu_cannot_tell_is_left_out() -> None:
    sliced = FakeGpu("GPU-aa", memory=80, used=60, utilisation=None, milliwatts=None, temperature=30)

    assert loads_of(sliced, FakeGpu("GPU-bb", lost=True)) == [
        GpuLoad(index=0, memory=60, memory_total=80, temperature=30),
        GpuLoad(index=1),
    ]


@pytest.mark.parametrize(
    ("processes", "alive", "memory"),
    [
        pytest.param((FakeProcess(7, 10), FakeProcess(8, 50)), (7, 8), 10, id="told by process"),
        pytest.param((FakeProcess(8, 50),), (8,), 0, id="all of it is another's"),
        pytest.param((), (), 60, id="a container that hides the processes"),
        pytest.param((FakeProcess(70_007, 60),), (), 60, id="a container with pids of its own"),
        pytest.param((FakeProcess(7, None),), (7,), 60, id="a driver that hides how much"),
    ],
)
def test_memory_is_that_of_the_processes_where_they_can_be_told_apart(
    processes: tuple[FakeProcess, ...], alive: tuple[int, ...], memory: int
) -> None:
    (load,) = loads_of(FakeGpu("GPU-aa", memory=80, used=60, processes=processes), alive=alive)

    assert load.memory_of({7, 9}) == memory


def test_loads_survive_the_way_from_the_probe() -> None:
    loads = [GpuLoad(index=0, power=1.5, processes=((7, 10),), ours=True), GpuLoad(index=1)]

    assert decode_loads(encode_loads(loads).encode()) == loads


def test_who_holds_a_gpu_is_told_without_the_secrets_of_its_command_line(tmp_path: Path) -> None:
    (tmp_path / "71").mkdir()
    (tmp_path / "71/cmdline").write_bytes(b"/usr/bin/python\0/home/eva/train.py\0--token=hush\0")

    assert describe_holder(71, tmp_path).startswith("python train.py --token=••• (pid 71")
