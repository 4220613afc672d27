import paddle
from digits_for_paddle import MNIST  # paddle.vision.datasets.MNIST, without a network
from paddle.distributed import fleet
from paddle.vision.transforms import ToTensor

BASE_LR, BATCH_SIZE, WARM_UP = 0.05, 32, 10

fleet.init(is_collective=True)
rank, world_size = fleet.worker_index(), fleet.worker_num()
# each rank keeps the batch of one card: the global batch grows with the number of ranks, and so does the
# rate; it is reached step by step, since the first steps could not bear it
scheduler = paddle.optimizer.lr.LinearWarmup(
    learning_rate=BASE_LR * world_size,
    warmup_steps=WARM_UP,
    start_lr=BASE_LR / 10,
    end_lr=BASE_LR * world_size,
)
net = paddle.vision.models.LeNet()
optimizer = paddle.optimizer.SGD(learning_rate=scheduler, parameters=net.parameters())
optimizer = fleet.distributed_optimizer(optimizer)
net = fleet.distributed_model(net)
dataset = MNIST(transform=ToTensor())
sampler = paddle.io.DistributedBatchSampler(dataset, BATCH_SIZE, shuffle=True, drop_last=True)
for step, (images, labels) in enumerate(paddle.io.DataLoader(dataset, batch_sampler=sampler)):
    loss = paddle.nn.functional.cross_entropy(net(images), labels)
    loss.backward()
    optimizer.step()
    optimizer.clear_grad()
    if step % 5 == 0:
        print(f"step {step}: lr {optimizer.get_lr():.4f}, loss {float(loss):.4f}")
    scheduler.step()
