import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, DistributedSampler, IterableDataset


class Lines(IterableDataset):
    def __iter__(self):
        return iter(range(100))

    def __len__(self):
        return 100


dist.init_process_group()
train_data = Lines()
train_sampler = DistributedSampler(train_data)
train_loader = DataLoader(train_data, batch_size=10, sampler=train_sampler)
