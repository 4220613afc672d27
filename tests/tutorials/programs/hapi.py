import paddle
from digits_for_paddle import MNIST  # paddle.vision.datasets.MNIST, without a network
from paddle.vision.transforms import ToTensor

train_dataset = MNIST(mode="train", transform=ToTensor())
test_dataset = MNIST(mode="test", transform=ToTensor())
lenet = paddle.vision.models.LeNet()

model = paddle.Model(lenet)
model.prepare(
    paddle.optimizer.Adam(learning_rate=0.001, parameters=model.parameters()),
    paddle.nn.CrossEntropyLoss(),
    paddle.metric.Accuracy(topk=(1, 2)),
)
model.fit(train_dataset, epochs=1, batch_size=64, log_freq=10, verbose=2)
model.evaluate(test_dataset, batch_size=64, log_freq=2, verbose=2)
