# expect: rank any
# cause: RandomSampler
# fix: DistributedSampler
"""ultralytics/yolov5#13233: set_epoch() is called, and the loader has no DistributedSampler."""

import torch.distributed as dist
from torch.utils.data import DataLoader

dist.init_process_group("gloo")
loader = DataLoader(list(range(8)), shuffle=True)
for epoch in range(2):
    loader.sampler.set_epoch(epoch)  # here
