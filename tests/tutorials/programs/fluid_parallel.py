import random

import numpy as np
import paddle
import paddle.distributed as dist
from digits import arrays  # ./work/mnist.json.gz, without the file
from paddle.nn import Conv2D, Linear, MaxPool2D  # fluid: Conv2D, Pool2D, FC


def load_data(mode="train"):
    imgs, labels = arrays(mode == "train")
    index_list = list(range(len(imgs)))
    BATCHSIZE = 100

    def data_generator():
        if mode == "train":
            random.shuffle(index_list)
        imgs_list = []
        labels_list = []
        for i in index_list:
            imgs_list.append(np.reshape(imgs[i] / 255, [1, 28, 28]).astype("float32"))
            labels_list.append(np.reshape(labels[i], [1]).astype("int64"))
            if len(imgs_list) == BATCHSIZE:
                yield np.array(imgs_list), np.array(labels_list)
                imgs_list = []
                labels_list = []
        if len(imgs_list) > 0:
            yield np.array(imgs_list), np.array(labels_list)

    return data_generator


class MNIST(paddle.nn.Layer):  # fluid.dygraph.Layer, with a name_scope
    def __init__(self):
        super().__init__()
        self.conv1 = Conv2D(1, 20, 5, stride=1, padding=2)
        self.pool1 = MaxPool2D(2, 2)
        self.conv2 = Conv2D(20, 20, 5, stride=1, padding=2)
        self.pool2 = MaxPool2D(2, 2)
        self.fc = Linear(20 * 7 * 7, 10)  # FC found the number of its inputs by itself

    def forward(self, inputs):
        x = self.pool1(paddle.nn.functional.relu(self.conv1(inputs)))  # act="relu"
        x = self.pool2(paddle.nn.functional.relu(self.conv2(x)))
        return self.fc(paddle.flatten(x, 1))  # the softmax is in cross_entropy today


def distributed_batch_reader(reader):
    """fluid.contrib.reader.distributed_batch_reader: of every world_size batches, this rank's."""

    def batches():
        mine = []
        for batch_id, data in enumerate(reader()):
            if batch_id % dist.get_world_size() == dist.get_rank():
                mine = data
            # only when every rank has one: uneven batches would let a rank wait for ever
            if batch_id % dist.get_world_size() == dist.get_world_size() - 1:
                yield mine

    return batches


def train_multi_gpu():
    dist.init_parallel_env()  # change 1: the place follows from the environment
    random.seed(0)  # each rank must shuffle alike before it takes its batches
    model = paddle.DataParallel(MNIST())  # change 2: fluid's prepare_context has gone
    model.train()
    train_loader = distributed_batch_reader(load_data("train"))  # change 3
    optimizer = paddle.optimizer.SGD(learning_rate=0.1, parameters=model.parameters())
    EPOCH_NUM = 1
    for epoch_id in range(EPOCH_NUM):
        for batch_id, data in enumerate(train_loader()):
            image = paddle.to_tensor(data[0])
            label = paddle.to_tensor(data[1])
            predict = model(image)
            loss = paddle.nn.functional.cross_entropy(predict, label)
            avg_loss = paddle.mean(loss)
            avg_loss.backward()  # change 4: scale_loss and apply_collective_grads are done in here today
            optimizer.step()
            model.clear_gradients()
            if batch_id % 5 == 0:
                print("epoch: {}, batch: {}, loss is: {}".format(epoch_id, batch_id, avg_loss.numpy()))
    if dist.get_rank() == 0:
        paddle.save(model.state_dict(), "mnist.pdparams")


train_multi_gpu()
