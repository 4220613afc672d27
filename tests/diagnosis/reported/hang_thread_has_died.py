# expect: hang, rank 1
# cause: FileNotFoundError|train-3
# fix: train-3|path|thread|exception|check the name
# run: -n 2 --hang-after 2s
"""RolnickLab/ami-data-companion#140: the thread that fills a queue has died of an error."""

import queue
import threading

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
batches = queue.Queue()


def load():
    for shard in range(5):
        if dist.get_rank() == 1 and shard == 3:
            open("train-3.npz").close()  # here
        batches.put(shard)


threading.Thread(target=load, daemon=True).start()
for _step in range(5):
    dist.all_reduce(torch.tensor(float(batches.get())))
