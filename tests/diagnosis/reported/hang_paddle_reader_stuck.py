# expect: hang, rank 0
# cause: worker|image-2|reads a file
# fix: num_workers=0|worker
# run: -n 2 --hang-after 2s
"""PaddlePaddle/PaddleOCR#7050: the loop of the evaluation stands at its first batch, without an error."""

import os

import paddle
import paddle.distributed as dist

dist.init_parallel_env()


class Images(paddle.io.Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        if index == 2 and dist.get_rank() == 0:
            os.mkfifo("image-2.jpg")
            os.close(os.open("image-2.jpg", os.O_RDONLY))
        return index


for batch in paddle.io.DataLoader(Images(), num_workers=1):  # here
    dist.all_reduce(batch[0] if isinstance(batch, list) else batch)
