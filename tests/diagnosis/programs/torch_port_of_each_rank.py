# expect: rank 0, line 16, signature hang-port-by-rank
import os
import socket
from datetime import timedelta

import torch.distributed as dist


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


os.environ["MASTER_PORT"] = str(free_port())
dist.init_process_group("gloo", timeout=timedelta(seconds=3 if os.environ["RANK"] == "0" else 60))
dist.barrier()
