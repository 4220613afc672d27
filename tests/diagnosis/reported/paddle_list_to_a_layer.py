# expect: rank any
# cause: list
# fix: \[0\]|unpack|x, |for \(|for x
"""zzz2010/paddorch#1: the batches of a DataLoader are lists, and the model gets the whole of one."""

import paddle

data = [(paddle.ones([4]).numpy(), 1) for _ in range(4)]
model = paddle.nn.Linear(4, 2)
for batch in paddle.io.DataLoader(data, batch_size=2):
    loss = model(batch).mean()  # here
    loss.backward()
