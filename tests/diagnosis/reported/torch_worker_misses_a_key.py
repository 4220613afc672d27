# expect: rank 1
# cause: KeyError: .image
"""leeyegy/TokenPose#2: a sample of one rank lacks a key, which a DataLoader's worker finds out."""

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset

dist.init_process_group("gloo")


class Records(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        record = {"label": index} if index == 5 and dist.get_rank() == 1 else {"image": index, "label": index}
        return record["image"]  # here


for batch in DataLoader(Records(), batch_size=2, num_workers=1):
    dist.all_reduce(torch.ones(1) * len(batch))
