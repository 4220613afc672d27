import paddle
import paddle.nn as nn
from paddle.distributed import fleet


class LinearNet(nn.Layer):
    def __init__(self):
        super(LinearNet, self).__init__()
        self._linear1 = nn.Linear(10, 10)
        self._linear2 = nn.Linear(10, 1)

    def forward(self, x):
        return self._linear2(self._linear1(x))


paddle.disable_static()
fleet.init(is_collective=True)

layer = LinearNet()
loss_fn = nn.MSELoss()
adam = paddle.optimizer.Adam(learning_rate=0.001, parameters=layer.parameters())
adam = fleet.distributed_optimizer(adam)
dp_layer = fleet.distributed_model(layer)

for step in range(20):
    inputs = paddle.randn([10, 10], "float32")
    outputs = dp_layer(inputs)
    labels = paddle.randn([10, 1], "float32")
    loss = loss_fn(outputs, labels)
    print("step:{}\tloss:{}".format(step, loss.numpy()))
    loss = dp_layer.scale_loss(loss)
    loss.backward()
    dp_layer.apply_collective_grads()
    adam.step()
    adam.clear_grad()
