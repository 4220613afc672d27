# expect: rank any, line 5, signature shuffle-and-sampler
from torch.utils.data import DataLoader, DistributedSampler

data = list(range(8))
DataLoader(data, shuffle=True, sampler=DistributedSampler(data, num_replicas=2, rank=0))
