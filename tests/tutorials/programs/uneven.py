import numpy as np
import paddle
import paddle.distributed as dist
from paddle.io import DistributedBatchSampler, RandomSampler, Subset

dist.init_parallel_env()
rank, world_size = dist.get_rank(), dist.get_world_size()


class Numbers(paddle.io.Dataset):
    """Nineteen numbers: not a multiple of anything."""

    def __getitem__(self, index):
        return np.float32(index)

    def __len__(self):
        return 19


def steps(sampler):
    return [list(batch) for batch in sampler]


dataset = Numbers()
# padded: the first samples come again, so that every rank has as many steps
padded = steps(DistributedBatchSampler(dataset, batch_size=4))
print(f"rank {rank} padded: {len(padded)} steps, {sum(map(len, padded))} samples: {padded}")
# dropped: what does not fill a batch is left out
dropped = steps(DistributedBatchSampler(dataset, batch_size=4, drop_last=True))
print(f"rank {rank} dropped: {len(dropped)} steps, {sum(map(len, dropped))} samples: {dropped}")

# shuffled before the split: what a rank sees differs in every epoch
before = DistributedBatchSampler(dataset, batch_size=4, shuffle=True, drop_last=True)
for epoch in range(2):
    before.set_epoch(epoch)
    print(f"rank {rank} shuffled before the split, epoch {epoch}: {sorted(sum(steps(before), []))}")
# shuffled after the split: always the same samples, in another order
share = len(dataset) // world_size
part = Subset(dataset, range(rank * share, rank * share + share))
paddle.seed(rank)
for epoch in range(2):
    seen = [part.indices[i] for i in RandomSampler(part)]
    print(f"rank {rank} shuffled after the split, epoch {epoch}: {seen}")

# as many steps on each rank: every collective meets its peers
counts = []
dist.all_gather_object(counts, len(padded))
print(f"rank {rank}: steps of the ranks {counts}")
