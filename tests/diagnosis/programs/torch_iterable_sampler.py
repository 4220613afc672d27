# expect: rank any, line 13, signature iterable-dataset-sampler
from torch.utils.data import DataLoader, DistributedSampler, IterableDataset


class Numbers(IterableDataset):
    def __iter__(self):
        return iter(range(4))

    def __len__(self):
        return 4


DataLoader(Numbers(), sampler=DistributedSampler(Numbers(), num_replicas=2, rank=0))
