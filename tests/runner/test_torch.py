"""PyTorch programs, as cells."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

pytestmark = [
    pytest.mark.usefixtures("leaves_nothing"),
    # looked for, not imported: this process is to stay one without torch
    pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed"),
]


def test_ranks_meet_with_nothing_but_the_environment(run_cell) -> None:
    cell = """
import torch, torch.distributed as dist
dist.init_process_group()
total = torch.tensor([dist.get_rank() + 1.0])
dist.all_reduce(total)
print(dist.get_backend(), int(total))
dist.destroy_process_group()
"""

    handle = run_cell("-n 2", cell)

    assert handle.status == "finished", handle.logs(0)
    assert handle.logs(0).splitlines()[-1] == handle.logs(1).splitlines()[-1]
    assert handle.logs(0).split()[-1] == "3"
    assert all(rank.joined for rank in handle.run.ranks)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_classes_of_the_cell_work_in_data_loader_workers(run_cell, method: str) -> None:
    cell = f"""
import torch
from torch.utils.data import DataLoader, Dataset
SIZE = 8
class Squares(Dataset):
    def __len__(self): return SIZE
    def __getitem__(self, index): return index ** 2
def stack(items): return torch.tensor(items)
loader = DataLoader(Squares(), batch_size=2, num_workers=1, collate_fn=stack,
                    multiprocessing_context="{method}")
print("sum", int(torch.cat(list(loader)).sum()))
"""

    handle = run_cell("-n 1", cell, limit=120)

    assert handle.status == "finished", handle.logs(0)
    assert handle.logs(0).split()[-1] == "140"


def test_a_rank_that_waits_for_its_store_in_vain_gets_the_error_of_torch_in_its_time(run_cell) -> None:
    cell = """
import os, time
from datetime import timedelta
if os.environ["RANK"] == "1":
    import torch.distributed as dist
    began = time.monotonic()
    try:
        dist.init_process_group("gloo", timeout=timedelta(seconds=2))
    except dist.DistError as error:
        print(type(error).__name__, time.monotonic() - began)
"""

    handle = run_cell("-n 2", cell)

    assert handle.status == "finished", handle.logs(1)
    error, seconds = handle.logs(1).splitlines()[-1].split()
    assert error in ("DistNetworkError", "DistStoreError")
    assert 1.5 < float(seconds) < 10


def test_backend_is_what_a_program_that_names_none_gets(run_cell) -> None:
    cell = """
import torch.distributed as dist
dist.init_process_group()
print(dist.distributed_c10d.Backend.default_device_backend_map)
dist.barrier()
dist.destroy_process_group()
"""

    handle = run_cell("-n 1 --backend gloo", cell)

    assert handle.status == "finished", handle.logs(0)
    assert "'cuda': 'gloo'" in handle.logs(0)


# where DistributedDataParallel is what imports torch._dynamo, that keeps the process group for ever
ENDS_IN_MAIN = """
import os, time
import torch, torch._dynamo, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

def main():
    dist.init_process_group("gloo")
    model = DistributedDataParallel(torch.nn.Linear(4, 1))
    total = torch.ones(1)
    if dist.get_rank() == 0:
        values = torch.ones(4, requires_grad=True)
        doubled = values * 2
        doubled.register_hook(lambda _: [dist.all_reduce(total, async_op=True), None][1])
        doubled.sum().backward()
        dist.destroy_process_group()
        open("leaves", "w").close()
    else:
        while not os.path.exists("leaves"):
            time.sleep(0.01)
        time.sleep(0.5)  # nothing tells from outside that the other one frees its model
        dist.all_reduce(total)

main()
print("out")
"""


def test_a_model_is_freed_while_a_thread_of_gloo_needs_the_interpreter(run_cell) -> None:
    handle = run_cell("-n 2 --timeout 60s", ENDS_IN_MAIN, limit=90)

    assert handle.status == "finished", handle.logs(0) + handle.logs(1)
    # where a thread of torch is torn down with the process, its words may follow
    assert ["out" in handle.logs(rank).splitlines() for rank in (0, 1)] == [True, True]
