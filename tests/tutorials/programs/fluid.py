import paddle
import paddle.fluid as fluid
from paddle.fluid.dygraph.nn import FC, Conv2D, Pool2D


class MNIST(fluid.dygraph.Layer):
    def __init__(self, name_scope):
        super(MNIST, self).__init__(name_scope)
        name_scope = self.full_name()
        self.conv1 = Conv2D(name_scope, num_filters=20, filter_size=5, stride=1, padding=2, act="relu")
        self.pool1 = Pool2D(name_scope, pool_size=2, pool_stride=2, pool_type="max")
        self.fc = FC(name_scope, size=10, act="softmax")

    def forward(self, inputs):
        return self.fc(self.pool1(self.conv1(inputs)))


def train_multi_gpu():
    place = fluid.CUDAPlace(fluid.dygraph.parallel.Env().dev_id)
    with fluid.dygraph.guard(place):
        strategy = fluid.dygraph.parallel.prepare_context()
        model = MNIST("mnist")
        model = fluid.dygraph.parallel.DataParallel(model, strategy)
        model.train()
        train_loader = paddle.batch(paddle.dataset.mnist.train(), batch_size=100)
        train_loader = fluid.contrib.reader.distributed_batch_reader(train_loader)
        optimizer = fluid.optimizer.SGDOptimizer(learning_rate=0.01)
        for batch_id, data in enumerate(train_loader()):
            image = fluid.dygraph.to_variable(data[0])
            label = fluid.dygraph.to_variable(data[1])
            loss = fluid.layers.cross_entropy(model(image), label)
            avg_loss = model.scale_loss(fluid.layers.mean(loss))
            avg_loss.backward()
            model.apply_collective_grads()
            optimizer.minimize(avg_loss)
            model.clear_gradients()


train_multi_gpu()
