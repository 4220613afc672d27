# expect: rank any, line 8, signature init-variable-missing
import os

import torch.distributed as dist

for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
    os.environ.pop(name)
dist.init_process_group("gloo")
