# expect: rank 1
# cause: every rank|taken|in use
# fix: rank 0|port 0
"""graphdeco-inria/gaussian-splatting#456: each of two processes opens a server at the same port."""

import os
import socket
import time

import paddle.distributed as dist

dist.init_parallel_env()
port = 20000 + int(os.environ["MASTER_PORT"]) % 10000
if dist.get_rank() == 1:
    dist.barrier()
server = socket.create_server(("127.0.0.1", port))  # here
dist.barrier()
time.sleep(30)
