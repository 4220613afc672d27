# expect: rank any, line 10, signature store-port-in-use
import socket

import torch.distributed as dist

taken = socket.socket()
taken.bind(("0.0.0.0", 0))
taken.listen(1)
address = f"tcp://127.0.0.1:{taken.getsockname()[1]}"
dist.init_process_group("gloo", init_method=address, world_size=1, rank=0)
