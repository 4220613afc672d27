"""Tests that need one GPU: nccl, the GPU that a rank sees, released memory, NVML's figures.

``pytest -m gpu`` on a machine with a GPU and a CUDA build of torch; skipped everywhere else.
"""

from __future__ import annotations

import os
import re
import signal
from importlib.util import find_spec
from pathlib import Path

import pytest

from nbdist import panel, processes, runner
from nbdist.devices.gpus import list_gpus, open_loads
from nbdist.errors import UsageMistake
from nbdist.model import ProcessId
from nbdist.store import MetricsReader
from tests.magics.conftest import Kernel
from tests.notebooks.course import FOLDER
from tests.programs import until, until_ready
from tests.tutorials.rows import DEPTH, TORCHRUN, program_of

GPUS = list_gpus(os.environ.get("CUDA_VISIBLE_DEVICES"))
GB = 1 << 30
FIGURES = ("gpu", "gpu_memory", "gpu_memory_total", "power", "temperature")
LIMIT = 150.0


def cuda_build() -> str:
    """Return the CUDA version of torch's build, from its own file: this process imports no torch."""
    spec = find_spec("torch")
    if spec is None or spec.origin is None:
        return ""
    text = Path(spec.origin).with_name("version.py").read_text()
    match = re.search(r"^cuda\b.*=\s*['\"]([\d.]+)['\"]", text, re.MULTILINE)
    return match[1] if match else ""


pytestmark = [
    pytest.mark.gpu,
    pytest.mark.usefixtures("leaves_nothing"),
    pytest.mark.skipif(not GPUS, reason="this machine has no GPU"),
    pytest.mark.skipif(not cuda_build(), reason="torch is not installed, or is its CPU build"),
]
GPU = GPUS[0].index if GPUS else 0

HOLD = """
import time, torch
held = torch.ones(2 << 28, device="cuda")  # 2 GiB
torch.cuda.synchronize()
print("ready", flush=True)
time.sleep(600)
"""

WORK = """
import time, torch
matrix = torch.randn(4096, 4096, device="cuda")
print("ready", flush=True)
until = time.monotonic() + 8
while time.monotonic() < until:
    matrix = torch.nn.functional.normalize(matrix @ matrix)
    torch.cuda.synchronize()
"""


def used() -> int:
    """Return the used bytes of the GPU."""
    with open_loads([GPU]) as loads:
        (load,) = loads()
    assert load.memory is not None
    return load.memory


def rank_of(handle: runner.RunHandle) -> ProcessId:
    process = handle.run.ranks[0].process
    assert process is not None
    return process


def test_a_world_of_one_trains_with_nccl(run_cell) -> None:
    cell = """
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
dist.init_process_group()
model = DistributedDataParallel(torch.nn.Linear(8, 1).cuda(), device_ids=[0])
loss = model(torch.randn(4, 8, device="cuda")).square().mean()
loss.backward()
total = torch.ones(1, device="cuda")
dist.all_reduce(total)
print("backend", dist.get_backend_config())
print("sum", int(total), "gradient", model.module.weight.grad.device)
dist.destroy_process_group()
"""

    handle = run_cell(f"--gpus {GPU}", cell, limit=LIMIT)

    assert handle.status == "finished", handle.logs(0)
    assert re.search(r"backend .*nccl", handle.logs(0))
    assert "sum 1 gradient cuda:0" in handle.logs(0)


def test_a_rank_sees_the_gpu_that_was_chosen_and_no_other(run_cell) -> None:
    cell = """
import os, torch
print("visible", os.environ["CUDA_VISIBLE_DEVICES"], "flags", os.environ["FLAGS_selected_gpus"])
print("count", torch.cuda.device_count(), "uuid", torch.cuda.get_device_properties(0).uuid)
"""

    handle = run_cell(f"--gpus {GPU}", cell, limit=LIMIT)

    log = handle.logs(0)
    assert handle.status == "finished", log
    assert "count 1" in log
    assert "flags 0" in log
    assert GPUS[0].uuid.removeprefix("GPU-") in log


def test_ranks_on_the_cpu_see_no_gpu(run_cell) -> None:
    cell = "import os, torch\nprint(repr(os.environ['CUDA_VISIBLE_DEVICES']), torch.cuda.is_available())"

    handle = run_cell("-n 2", cell, limit=LIMIT)

    assert [handle.logs(rank).strip() for rank in (0, 1)] == ["'' False", "'' False"]


def test_a_gpu_that_is_not_there_is_refused(run_cell) -> None:
    missing = max(gpu.index for gpu in GPUS) + 7

    with pytest.raises(UsageMistake, match=rf"no GPU {missing}"):
        run_cell(f"--gpus {missing}", "pass")


@pytest.mark.parametrize("end", ["a stop", "the rank is killed", "the supervisor is killed"])
def test_the_memory_comes_back(start_cell, end: str) -> None:
    before = used()
    handle = start_cell(f"--gpus {GPU}", HOLD)
    until_ready(handle, LIMIT)
    held = used() - before
    rank = rank_of(handle)

    if end == "a stop":
        assert handle.stop() == "stopped"
    elif end == "the rank is killed":
        os.kill(rank.pid, signal.SIGKILL)
        assert handle.wait(20) == "failed"
    else:
        os.kill(handle.run.supervisor.pid, signal.SIGKILL)
        until(lambda: not processes.alive(rank))

    assert held >= 2 * GB
    until(lambda: used() - before < held - 2 * GB + GB // 4, 10)


def test_nvml_s_figures_are_written_beside_those_of_the_process(run_cell) -> None:
    handle = run_cell(f"--gpus {GPU}", WORK, limit=LIMIT)

    assert handle.status == "finished", handle.logs(0)
    points = MetricsReader(handle.directory.rank(0).system).read()
    values = {tag: max(p.values[tag] for p in points if tag in p.values) for tag in FIGURES}
    assert values["gpu_memory_total"] == GPUS[0].memory
    assert values["gpu"] > 50
    assert values["gpu_memory"] > 4096 * 4096 * 4
    assert 5 < values["power"] < 2000
    assert 10 < values["temperature"] < 110


def test_mp_spawn_trains_on_the_gpu_as_its_tutorial_has_it(run_cell) -> None:
    program = program_of("mp-spawn", TORCHRUN)

    handle = run_cell(f'--gpus {GPU} --args "-n 1 -g 1 -nr 0 --epochs 1"', program, limit=LIMIT, cwd=FOLDER)

    assert handle.status == "finished", handle.logs(0)
    assert re.search(r"Step \[25/29\], Loss: [01]\.\d", handle.logs(0))


def test_half_precision_is_float16_with_a_scaler_on_a_gpu(run_cell) -> None:
    program = program_of("amp", DEPTH)

    handle = run_cell(f"--gpus {GPU}", program, limit=LIMIT, cwd=FOLDER)

    assert handle.status == "finished", handle.logs(0)
    assert "outputs torch.float16, weights torch.float32" in handle.logs(0)


def test_sync_batch_norm_runs_on_a_gpu(run_cell) -> None:
    cell = """
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
dist.init_process_group("nccl")
model = torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3), torch.nn.BatchNorm2d(4))
model = torch.nn.SyncBatchNorm.convert_sync_batchnorm(model).cuda()
model = DistributedDataParallel(model, device_ids=[0])
model(torch.randn(2, 1, 8, 8, device="cuda")).square().mean().backward()
print(type(model.module[1]).__name__)
dist.destroy_process_group()
"""

    handle = run_cell(f"--gpus {GPU}", cell, limit=LIMIT)

    assert handle.status == "finished", handle.logs(0)
    assert handle.logs(0).splitlines()[-1] == "SyncBatchNorm"


def test_two_ranks_on_one_gpu_are_told_so(run_cell) -> None:
    cell = """
import torch, torch.distributed as dist, torch.multiprocessing as mp
def train(rank):
    dist.init_process_group("nccl", init_method="env://", rank=rank, world_size=2)
    torch.cuda.set_device(0)
    dist.all_reduce(torch.ones(1, device="cuda"))
if __name__ == "__main__":
    mp.spawn(train, nprocs=2)
"""

    handle = run_cell(f"--gpus {GPU}", cell, limit=LIMIT)

    assert handle.status == "failed"
    report = panel.run_report(handle.run, handle.directory, "en")
    assert "use the same GPU" in report, report


WAITED = f"""%%distributed --gpus {GPU}
import torch, torch.distributed as dist
dist.init_process_group("nccl")
x = torch.ones(4, device="cuda")
dist.all_reduce(x)
print("sum", int(x[0]))
dist.destroy_process_group()
"""


def test_ranks_wait_for_a_gpu_without_any_of_its_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NBDIST_WARM", "auto")
    kernel = Kernel(tmp_path / "home")
    try:
        cold = kernel.run(WAITED, limit=LIMIT)
        until(lambda: "rank of torch waits" in kernel.run("%dist_warm").stdout, LIMIT)
        ours = {process.pid for process in processes.marked("NBDIST_HOME", str(tmp_path / "home"))}
        with open_loads([GPU]) as loads:
            holders = {pid for pid, _ in loads()[0].processes}
        again = kernel.run(WAITED, limit=LIMIT)
    finally:
        kernel.close()

    assert "sum 1" in cold.stdout, cold.stdout + cold.error
    assert len(ours) > 2, "the kernel, and a standby with its rank"
    assert not ours & holders
    assert "sum 1" in again.stdout, again.stdout + again.error


@pytest.mark.skipif(find_spec("paddle") is None, reason="paddle is not installed")
def test_paddle_s_cpu_build_runs_beside_torch_s_cuda_build(run_cell) -> None:
    cell = """
import paddle, paddle.distributed as dist
dist.init_parallel_env()
total = paddle.to_tensor([dist.get_rank() + 1.0])
dist.all_reduce(total)
print("sum", int(total.item()), "of", dist.get_world_size(), paddle.is_compiled_with_cuda())
"""

    handle = run_cell("-n 2", cell, limit=LIMIT)

    assert handle.status == "finished", handle.logs(0)
    assert "sum 3 of 2" in handle.logs(0)
