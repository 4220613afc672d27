# expect: rank any
# cause: 'int' object is not iterable
"""PaddlePaddle/Paddle#36786: the collate_fn of a DataLoader fails in its worker."""

import paddle


class Clips(paddle.io.Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, index):
        return index


def collate(samples):
    return [max(sample) for sample in samples]  # here


for batch in paddle.io.DataLoader(Clips(), batch_size=2, collate_fn=collate, num_workers=1):
    print(batch)
