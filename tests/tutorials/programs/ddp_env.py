import os
from datetime import datetime

import torch
import torch.distributed as dist
import torch.nn as nn
from digits_for_torch import MNIST  # torchvision.datasets.MNIST, without a network
from torch.utils.data import DataLoader, DistributedSampler, Subset

import nbdist

EPOCHS = 2


class ConvNet(nn.Module):
    def __init__(self, num_classes=10):
        super(ConvNet, self).__init__()
        self.layer1 = nn.Sequential(
            nn.Conv2d(1, 16, kernel_size=5, stride=1, padding=2),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.MaxPool2d(kernel_size=2, stride=2),
        )
        self.layer2 = nn.Sequential(
            nn.Conv2d(16, 32, kernel_size=5, stride=1, padding=2),
            nn.BatchNorm2d(32),
            nn.ReLU(),
            nn.MaxPool2d(kernel_size=2, stride=2),
        )
        self.fc = nn.Linear(7 * 7 * 32, num_classes)

    def forward(self, x):
        out = self.layer1(x)
        out = self.layer2(out)
        out = out.reshape(out.size(0), -1)
        out = self.fc(out)
        return out


def train(rank, world_size, device):
    torch.manual_seed(0)
    model = ConvNet().to(device)
    model = nn.parallel.DistributedDataParallel(
        model, device_ids=[device.index] if device.type == "cuda" else None
    )
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), 5e-2)
    train_dataset = MNIST(train=True)
    # each rank sees its own part; shuffling is the sampler's, so the loader's stays off
    train_sampler = DistributedSampler(train_dataset, num_replicas=world_size, rank=rank)
    train_loader = DataLoader(train_dataset, batch_size=100, shuffle=False, sampler=train_sampler)
    start = datetime.now()
    for epoch in range(EPOCHS):
        train_sampler.set_epoch(epoch)  # without it every epoch has the order of the first
        for i, (images, labels) in enumerate(train_loader):
            images, labels = images.to(device, non_blocking=True), labels.to(device, non_blocking=True)
            loss = criterion(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            nbdist.log(step=epoch * len(train_loader) + i, loss=loss.item())
            if (i + 1) % 5 == 0 and rank == 0:
                where = f"Epoch [{epoch + 1}/{EPOCHS}], Step [{i + 1}/{len(train_loader)}]"
                print(f"{where}, Loss: {loss.item():.4f}")
    if rank == 0:
        print("Training complete in: " + str(datetime.now() - start))
    return model


def evaluate(model, rank, world_size, device):
    test_dataset = MNIST(train=False)
    mine = Subset(test_dataset, range(rank, len(test_dataset), world_size))
    model.eval()
    count = total = 0
    with torch.no_grad():
        for images, labels in DataLoader(mine, batch_size=100):
            count += (model(images.to(device)).argmax(1) == labels.to(device)).sum().item()
            total += len(labels)
    # each rank has counted its part; the sum is the same on all
    t = torch.tensor([count, total], dtype=torch.float64, device=device)
    dist.barrier()
    dist.all_reduce(t, op=dist.ReduceOp.SUM)
    all_count, all_total = (int(value) for value in t.tolist())
    accuracy = f"{all_count} of {all_total} = {all_count / all_total:.3f}"
    print(f"rank {rank}: {count} of {total}; all ranks: {accuracy}")
    nbdist.result(accuracy=all_count / all_total)


dist.init_process_group()  # rank, world size and address are in the environment
rank, world_size = dist.get_rank(), dist.get_world_size()
local_rank = int(os.environ["LOCAL_RANK"])
device = torch.device("cuda", local_rank) if torch.cuda.is_available() else torch.device("cpu")
if device.type == "cuda":
    torch.cuda.set_device(device)
evaluate(train(rank, world_size, device), rank, world_size, device)
dist.destroy_process_group()
