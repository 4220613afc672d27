"""Which GPUs there are for this process, and who holds them."""

from __future__ import annotations

import pytest

from nbdist.devices import Gpu, GpuUse, list_gpus, memory_by_pid
from tests.fakes.nvml import FakeGpu, FakeNvml, FakeProcess

FOUR = [FakeGpu(f"GPU-{letter * 8}-1234") for letter in "abcd"]


def test_a_machine_without_a_driver_has_no_gpu() -> None:
    nvml = FakeNvml(FOUR, driver=False)

    assert list_gpus(bindings=nvml) == []
    assert list_gpus("0", bindings=nvml) == []
    assert memory_by_pid(bindings=nvml) == []


def test_a_driver_without_gpus_has_none() -> None:
    assert list_gpus(bindings=FakeNvml()) == []


def test_gpus_are_told_by_their_physical_ids() -> None:
    nvml = FakeNvml([FakeGpu("GPU-aa", memory=80), FakeGpu("GPU-bb", name=b"Tesla V100", memory=32)])

    found = list_gpus(bindings=nvml)

    assert found == [
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
    found = list_gpus(visible, bindings=FakeNvml(FOUR))

    assert [gpu.index for gpu in found] == indices


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
