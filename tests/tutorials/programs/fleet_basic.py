import paddle
from digits_for_paddle import MNIST  # paddle.vision.datasets.MNIST, without a network
from paddle.distributed import fleet
from paddle.vision.transforms import ToTensor

train_dataset = MNIST(mode="train", transform=ToTensor())
train_loader = paddle.io.DataLoader(train_dataset, batch_size=64, shuffle=True)

fleet.init(is_collective=True)


def train():
    epochs = 1
    net = paddle.vision.models.LeNet()
    adam = paddle.optimizer.Adam(learning_rate=0.001, parameters=net.parameters())

    strategy = fleet.DistributedStrategy()
    adam = fleet.distributed_optimizer(adam, strategy=strategy)
    net = fleet.distributed_model(net)

    for epoch in range(epochs):
        for batch_id, data in enumerate(train_loader()):
            x_data = data[0]
            y_data = data[1]
            predicts = net(x_data)
            acc = paddle.metric.accuracy(predicts, y_data, k=2)
            avg_acc = paddle.mean(acc)
            loss = paddle.nn.functional.cross_entropy(predicts, y_data, reduction="mean")
            loss.backward()
            if batch_id % 40 == 0:
                print(
                    "epoch: {}, batch_id: {}, loss is: {}, acc is: {}".format(
                        epoch, batch_id, loss.numpy(), avg_acc.numpy()
                    )
                )
            adam.step()
            adam.clear_grad()


if __name__ == "__main__":
    train()
