import numpy as np
import paddle
from paddle.distributed import fleet, get_rank
from paddle.io import DataLoader, Dataset, DistributedBatchSampler
from paddle.vision.models import ResNet
from paddle.vision.models.resnet import BasicBlock  # BottleneckBlock and 50 layers where there are GPUs

base_lr = 0.1
momentum_rate = 0.9
l2_decay = 1e-4
epoch = 2
batch_num = 12
batch_size = 8
class_dim = 102


class RandomDataset(Dataset):
    def __init__(self, num_samples):
        self.num_samples = num_samples

    def __getitem__(self, idx):
        image = np.random.random([3, 32, 32]).astype("float32")
        label = np.random.randint(0, class_dim - 1, (1,)).astype("int64")
        return image, label

    def __len__(self):
        return self.num_samples


def optimizer_setting(parameter_list=None):
    optimizer = paddle.optimizer.Momentum(
        learning_rate=base_lr,
        momentum=momentum_rate,
        weight_decay=paddle.regularizer.L2Decay(l2_decay),
        parameters=parameter_list,
    )
    return optimizer


def train_model():
    fleet.init(is_collective=True)

    model = ResNet(BasicBlock, 18, num_classes=class_dim)
    optimizer = optimizer_setting(parameter_list=model.parameters())
    model = fleet.distributed_model(model)
    optimizer = fleet.distributed_optimizer(optimizer)

    dataset = RandomDataset(batch_num * batch_size)
    sampler = DistributedBatchSampler(
        dataset, rank=get_rank(), batch_size=batch_size, shuffle=False, drop_last=True
    )
    train_loader = DataLoader(dataset, batch_sampler=sampler, num_workers=1)

    for eop in range(epoch):
        model.train()
        for batch_id, data in enumerate(train_loader()):
            img, label = data
            label.stop_gradient = True
            out = model(img)
            loss = paddle.nn.functional.cross_entropy(input=out, label=label)
            avg_loss = paddle.mean(x=loss)
            acc_top1 = paddle.metric.accuracy(input=out, label=label, k=1)
            acc_top5 = paddle.metric.accuracy(input=out, label=label, k=5)
            avg_loss.backward()
            optimizer.step()
            model.clear_gradients()
            if batch_id % 5 == 0:
                print(
                    "[Epoch %d, batch %d] loss: %.5f, acc1: %.5f, acc5: %.5f"
                    % (eop, batch_id, avg_loss, acc_top1, acc_top5)
                )


if __name__ == "__main__":
    train_model()
