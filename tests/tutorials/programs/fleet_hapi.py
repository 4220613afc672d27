import paddle
from digits_for_paddle import MNIST  # paddle.vision.datasets.MNIST, without a network
from paddle.vision.transforms import ToTensor

train_dataset = MNIST(mode="train", transform=ToTensor())
lenet = paddle.vision.models.LeNet()

model = paddle.Model(lenet)
model.prepare(
    paddle.optimizer.Adam(learning_rate=0.001, parameters=model.parameters()),
    paddle.nn.CrossEntropyLoss(),
    paddle.metric.Accuracy(topk=(1, 2)),
)


def train():
    callback = paddle.callbacks.VisualDL(log_dir="visualdl_log")
    model.fit(train_dataset, epochs=1, batch_size=64, callbacks=callback, log_freq=10, verbose=2)


if __name__ == "__main__":
    train()
