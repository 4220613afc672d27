import paddle
import paddle.nn as nn


class LinearNet(nn.Layer):
    def __init__(self):
        super(LinearNet, self).__init__()
        self._linear1 = nn.Linear(10, 10)
        self._linear2 = nn.Linear(10, 1)

    def forward(self, x):
        return self._linear2(self._linear1(x))


paddle.disable_static()

layer = LinearNet()
loss_fn = nn.MSELoss()
adam = paddle.optimizer.Adam(learning_rate=0.001, parameters=layer.parameters())

for step in range(20):
    inputs = paddle.randn([10, 10], "float32")
    outputs = layer(inputs)
    labels = paddle.randn([10, 1], "float32")
    loss = loss_fn(outputs, labels)
    print("step:{}\tloss:{}".format(step, loss.numpy()))
    loss.backward()
    adam.step()
    adam.clear_grad()
