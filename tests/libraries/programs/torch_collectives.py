# line: -n 4
# each: all_reduce: 10
# first: gathered: \[0, 1, 4, 9\]
"""Point to point, collectives and groups, one after the other."""

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
if rank == 0:
    for other in range(1, size):
        dist.send(torch.tensor([float(other)]), dst=other)
else:
    received = torch.zeros(1)
    dist.recv(received, src=0)
    assert received.item() == rank
total = torch.tensor([rank + 1])
dist.all_reduce(total)
print("all_reduce:", total.item())
gathered = [torch.zeros(1, dtype=torch.int64) for _ in range(size)]
dist.all_gather(gathered, torch.tensor([rank * rank]))
if rank == 0:
    print("gathered:", [int(value) for value in gathered])
even = dist.new_group([0, 2])
if rank % 2 == 0:
    dist.broadcast(total, src=0, group=even)
objects = [None] * size
dist.all_gather_object(objects, {"rank": rank})
assert [sent["rank"] for sent in objects] == list(range(size))
dist.barrier()
dist.destroy_process_group()
