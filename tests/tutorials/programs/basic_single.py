import paddle
from digits_for_paddle import MNIST  # paddle.vision.datasets.MNIST, without a network
from paddle.vision.transforms import ToTensor

train_dataset = MNIST(mode="train", transform=ToTensor())
lenet = paddle.vision.models.LeNet()
train_loader = paddle.io.DataLoader(train_dataset, batch_size=64, shuffle=True)


def train():
    epochs = 1
    adam = paddle.optimizer.Adam(learning_rate=0.001, parameters=lenet.parameters())
    for epoch in range(epochs):
        for batch_id, data in enumerate(train_loader()):
            x_data, y_data = data
            predicts = lenet(x_data)
            loss = paddle.nn.functional.cross_entropy(predicts, y_data, reduction="mean")
            acc = paddle.metric.accuracy(predicts, y_data, k=1)
            avg_acc = paddle.mean(acc)
            loss.backward()
            if batch_id % 40 == 0:
                print(
                    "epoch: {}, batch_id: {}, loss is: {}, acc is: {}".format(
                        epoch, batch_id, loss.numpy(), avg_acc.numpy()
                    )
                )
            adam.step()
            adam.clear_grad()


train()
