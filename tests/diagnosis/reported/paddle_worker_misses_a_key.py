# expect: rank 1
# cause: KeyError: .image|KeyError\(.image
"""dbolya/yolact#693: a KeyError in a worker of the DataLoader, of one rank alone."""

import paddle
import paddle.distributed as dist

dist.init_parallel_env()


class Records(paddle.io.Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        record = {"label": index} if index == 5 and dist.get_rank() == 1 else {"image": index, "label": index}
        return record["image"]  # here


for _batch in paddle.io.DataLoader(Records(), batch_size=2, num_workers=1):
    dist.all_reduce(paddle.ones([1]))
