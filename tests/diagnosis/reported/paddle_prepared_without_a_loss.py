# expect: rank any
# cause: \bloss\b
# fix: loss=|prepare\(
"""wangsen99/FDLNet#1: the loss is None, since prepare() of a paddle.Model was not given one."""

import paddle

data = [(paddle.ones([4]).numpy(), 1) for _ in range(4)]
network = paddle.nn.Linear(4, 2)
model = paddle.Model(network)
model.prepare(paddle.optimizer.SGD(0.1, parameters=network.parameters()))
model.fit(data, batch_size=2, epochs=1, verbose=0)  # here
