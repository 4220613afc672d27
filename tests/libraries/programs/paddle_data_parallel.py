# line: -n 2
# needs: paddle
# each: epoch: 0, batch: 4, loss is: \d
"""paddle.DataParallel in a plain loop, with a DistributedBatchSampler."""

import paddle
import paddle.distributed as dist
from paddle.io import DataLoader, Dataset, DistributedBatchSampler


class Random(Dataset):
    def __len__(self):
        return 80

    def __getitem__(self, index):
        x = paddle.full([8], index / 80.0)
        return x, paddle.to_tensor([index % 4], dtype="int64")


dist.init_parallel_env()
paddle.seed(1)
net = paddle.DataParallel(
    paddle.nn.Sequential(paddle.nn.Linear(8, 16), paddle.nn.ReLU(), paddle.nn.Linear(16, 4))
)
adam = paddle.optimizer.Adam(learning_rate=0.01, parameters=net.parameters())
data = Random()
loader = DataLoader(data, batch_sampler=DistributedBatchSampler(data, batch_size=8, shuffle=True))
for batch, (image, label) in enumerate(loader):
    loss = paddle.nn.functional.cross_entropy(net(image), label)
    loss.backward()
    adam.step()
    adam.clear_grad()
    print(f"epoch: 0, batch: {batch}, loss is: {loss.item():.4f}")
