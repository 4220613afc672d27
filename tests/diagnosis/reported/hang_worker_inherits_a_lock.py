# expect: hang, rank 1
# cause: worker|lock|fork
# fix: num_workers=0|spawn|multiprocessing_context
# run: -n 2 --hang-after 2s
"""pytorch/pytorch#75147: a thread holds a lock while DataLoader's workers are forked."""

import threading

import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset

dist.init_process_group("gloo")
decoder = threading.Lock()
if dist.get_rank() == 1:
    threading.Thread(target=lambda: decoder.acquire() and threading.Event().wait(), daemon=True).start()
    while not decoder.locked():
        pass


class Images(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        with decoder:
            return index


for batch in DataLoader(Images(), num_workers=1, multiprocessing_context="fork"):  # here
    dist.all_reduce(batch)
