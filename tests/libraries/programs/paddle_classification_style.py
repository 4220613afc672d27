# line: -n 2 --args "-o epochs=1 -o lr=0.05"
# needs: paddle
# first: \[Train\]\[Epoch 1/1\]\[Iter: 4/5\]lr\(\w+\): 0\.05\d*, CELoss: \d
"""A configuration with overrides, a scheduler and fleet, as paddle's model suites have it."""

import argparse

import paddle
from paddle.distributed import fleet

config = {"epochs": 3, "lr": 0.1, "batch": 8}
parser = argparse.ArgumentParser()
parser.add_argument("-o", "--override", action="append", default=[])
for text in parser.parse_args().override:
    key, _, value = text.partition("=")
    config[key] = type(config[key])(value)
fleet.init(is_collective=True)
paddle.seed(0)
model = fleet.distributed_model(paddle.nn.Linear(8, 4))
rate = paddle.optimizer.lr.PiecewiseDecay(boundaries=[30], values=[config["lr"], config["lr"] / 10])
optimizer = fleet.distributed_optimizer(paddle.optimizer.Momentum(rate, parameters=model.parameters()))
for epoch in range(config["epochs"]):
    for step in range(5):
        x, y = paddle.randn([config["batch"], 8]), paddle.randint(0, 4, [config["batch"]])
        loss = paddle.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        if fleet.worker_index() == 0:
            head = f"[Train][Epoch {epoch + 1}/{config['epochs']}][Iter: {step}/5]"
            print(
                f"{head}lr(PiecewiseDecay): {rate.get_lr():.8f}, CELoss: {loss.item():.5f}, loss: {loss.item():.5f}"
            )
    rate.step()
