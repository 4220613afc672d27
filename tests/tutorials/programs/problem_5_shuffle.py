import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

dist.init_process_group()
data = TensorDataset(torch.arange(100))
loader = DataLoader(data, batch_size=10, shuffle=True, sampler=DistributedSampler(data))
