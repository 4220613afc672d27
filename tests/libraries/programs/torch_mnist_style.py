# line: -n 2
# each: Train Epoch: 1 \[\s*64/128 \(\s*50%\)\]\tLoss: \d
# first: Test set: Average loss: \d+\.\d+, Accuracy: \d+/64
# more: notebooks 02 and 09 train the same way
"""A script of arguments, two loaders, a train and a test function, as small examples have it."""

import argparse
import os

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn, optim
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3)
        self.fc = nn.Linear(4 * 6 * 6, 10)

    def forward(self, x):
        return F.log_softmax(self.fc(F.relu(self.conv(x)).flatten(1)), dim=1)


def digits(count):
    labels = torch.arange(count) % 10
    images = torch.randn(count, 1, 8, 8) * 0.1 + labels.view(-1, 1, 1, 1) / 10
    return TensorDataset(images, labels)


def train(args, model, loader, optimizer, epoch):
    model.train()
    for number, (data, target) in enumerate(loader):
        optimizer.zero_grad()
        loss = F.nll_loss(model(data), target)
        loss.backward()
        optimizer.step()
        if number % args.log_interval == 0:
            done, total = number * len(data) * dist.get_world_size(), len(loader.dataset)
            print(
                f"Train Epoch: {epoch} [{done:5}/{total} ({100 * number / len(loader):3.0f}%)]\tLoss: {loss:.6f}"
            )


@torch.no_grad()
def test(model, loader):
    model.eval()
    loss = correct = 0
    for data, target in loader:
        output = model(data)
        loss += F.nll_loss(output, target, reduction="sum").item()
        correct += (output.argmax(1) == target).sum().item()
    total = len(loader.dataset)
    print(
        f"Test set: Average loss: {loss / total:.4f}, Accuracy: {correct}/{total} ({100 * correct / total:.0f}%)"
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--log-interval", type=int, default=1)
    args = parser.parse_args()
    torch.manual_seed(1)
    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    model = DistributedDataParallel(Net())
    data = digits(128)
    loader = DataLoader(data, args.batch_size, sampler=DistributedSampler(data))
    optimizer = optim.SGD(model.parameters(), lr=args.lr)
    for epoch in range(1, args.epochs + 1):
        loader.sampler.set_epoch(epoch)
        train(args, model, loader, optimizer, epoch)
        if int(os.environ["RANK"]) == 0:
            test(model.module, DataLoader(digits(64), 64))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
