"""The holders of a full GPU's memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from nbdist.diagnosis.gpu_memory import GpuRoom
from nbdist.model import Device
from tests.diagnosis.failed_cells import hint_of
from tests.fakes.runs import a_spec

GIB, MIB = 1 << 30, 1 << 20
FULL = (
    "CUDA out of memory. Tried to allocate 392.00 MiB. GPU 0 has a total capacity of 79.15 GiB of which"
    " 20.00 MiB is free. Including non-PyTorch memory, this process has 78.50 GiB memory in use. Of the"
    " allocated memory 77.00 GiB is allocated by PyTorch, and 300.00 MiB is reserved by PyTorch but"
    " unallocated. If reserved"
)
HELD = FULL.replace("this process has 78.50", "this process has 8.50").replace(
    "Including", "Process 71 has 70.00 GiB memory in use. Including"
)
OTHER_GPU = FULL.replace("GPU 0", "GPU 1")


@pytest.mark.parametrize(
    ("message", "room"),
    [
        pytest.param(
            FULL,
            GpuRoom(asked=392 * MIB, total=int(79.15 * GIB), own=int(78.5 * GIB), others=0, limited=False),
            id="2.x",
        ),
        pytest.param(
            "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 139.80 GiB of"
            " which 133.48 GiB is free. Process 1328 has 2.00 GiB memory in use. Including non-PyTorch"
            " memory, this process has 3.72 GiB memory in use. Process 15 has 512.00 MiB memory in use."
            " 3.00 GiB allowed; Of the allocated memory 3.00 GiB is allocated by PyTorch, and 0 bytes is"
            " reserved by PyTorch but unallocated.",
            GpuRoom(
                asked=2 * GIB,
                total=int(139.8 * GIB),
                own=int(3.72 * GIB),
                others=2 * GIB + 512 * MIB,
                limited=True,
            ),
            id="a limit",
        ),
        pytest.param(
            "CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 16.00 GiB total capacity; 2.00 GiB"
            " already allocated; 1.00 GiB free; 3.00 GiB reserved in total by PyTorch) If reserved"
            " memory is >> allocated",
            GpuRoom(asked=20 * MIB, total=16 * GIB, own=3 * GIB, others=int(10.5 * GIB), limited=False),
            id="1.x",
        ),
        pytest.param(
            "CUDA out of memory. Tried to allocate 1.00 GiB. GPU 0 has a total capacity of 16.00 GiB of"
            " which 0.50 GiB is free. Process 81 has 15.50 GiB memory in use. Of the allocated memory"
            " 14.00 GiB is allocated by PyTorch, and 512.00 MiB is reserved by PyTorch but unallocated.",
            GpuRoom(asked=GIB, total=16 * GIB, own=int(14.5 * GIB), others=0, limited=False),
            id="this process under another pid",
        ),
        pytest.param(
            "CUDA error: out of memory",
            GpuRoom(asked=0, total=0, own=0, others=0, limited=False),
            id="no numbers",
        ),
    ],
)
def test_a_message_is_parsed(message: str, room: GpuRoom) -> None:
    assert GpuRoom.parse(message) == room


OTHER_RANK = OTHER_GPU.replace("Including", "Process 4001 has {} memory in use. Including")
FULL_ITSELF = "cuda-out-of-memory", ""
OF_RANKS, OF_OTHERS = "gpu-of-several-ranks", "gpu-held-by-others"
HOLDERS = {
    "the GPU of another rank": ((0, 1), FULL, OF_RANKS, "GPU 0 is full, and has tensors of ranks 0, 1"),
    "its own": ((0, 1), OTHER_GPU, *FULL_ITSELF),
    "another rank is on its own": (
        (0, 1),
        OTHER_RANK.format("9.00 GiB"),
        OF_RANKS,
        "GPU 1 is full, and has tensors of ranks 0, 1",
    ),
    "another rank holds hardly anything": ((0, 1), OTHER_RANK.format("500.00 MiB"), *FULL_ITSELF),
    "one GPU for both, as the user chose": ((0, 0), FULL, *FULL_ITSELF),
    "the other process is the other rank": ((0, 0), HELD, *FULL_ITSELF),
    "processes of others": (
        (0, 1),
        HELD.replace("GPU 0", "GPU 1"),
        OF_OTHERS,
        "other processes hold 70.0 GiB of the GPU's 79.1 GiB",
    ),
}


@pytest.mark.parametrize(("gpus", "message", "row", "cause"), HOLDERS.values(), ids=HOLDERS)
def test_who_holds_a_full_gpu_is_named(
    tmp_path: Path, gpus: tuple[int, ...], message: str, row: str, cause: str
) -> None:
    spec = a_spec(devices=tuple(Device(kind="gpu", index=gpu) for gpu in gpus))

    hint = hint_of(tmp_path, "torch.OutOfMemoryError", message, 1, cell="model(images)\n", spec=spec)

    assert hint.signature == row
    assert hint.cause.en.startswith(cause)
