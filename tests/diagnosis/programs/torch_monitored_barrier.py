# expect: rank 0, line 9, signature monitored-barrier, absent 1
import time
from datetime import timedelta

import torch.distributed as dist

dist.init_process_group("gloo")
if dist.get_rank() == 0:
    dist.monitored_barrier(timeout=timedelta(seconds=3))
else:
    time.sleep(60)
