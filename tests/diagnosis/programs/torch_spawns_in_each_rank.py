# expect: rank any, line 11, signature started-twice
import os

import torch.distributed as dist
import torch.multiprocessing as mp


def train(rank):
    os.environ["MASTER_ADDR"] = "127.0.0.1"
    os.environ["MASTER_PORT"] = PORT
    dist.init_process_group("gloo", rank=rank, world_size=2)
    dist.barrier()


# of the parent alone: its children are to meet there
PORT = str(20000 + int(os.environ["MASTER_PORT"]) % 9000)
if __name__ == "__main__":
    mp.spawn(train, nprocs=2)
