# line: -n 2 --args "--epochs 1 --print-freq 2"
# first: Epoch: \[0\]\[2/4\].*Loss \d
# first: \* Acc@1 \d+\.\d+ Acc@5 \d+\.\d+
# more: torch_mnist_style runs the same way
"""Meters, a learning rate schedule and a checkpoint of the best epoch, as scripts for large data have it."""

import argparse
import os
import tempfile
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


class Meter:
    def __init__(self, name, form=":f"):
        self.name, self.form, self.value, self.sum, self.count = name, form, 0, 0, 0

    def update(self, value, n=1):
        self.value, self.sum, self.count = value, self.sum + value * n, self.count + n

    def __str__(self):
        average = self.sum / max(1, self.count)
        return ("{} {%s} ({%s})" % (self.form, self.form)).format(self.name, self.value, average)

    def all_reduce(self):
        total = torch.tensor([self.sum, self.count], dtype=torch.float32)
        dist.all_reduce(total)
        self.sum, self.count = total.tolist()


def accuracy(output, target, topk=(1, 5)):
    _, predicted = output.topk(max(topk), 1)
    right = predicted.eq(target.view(-1, 1))
    return [right[:, :k].any(1).float().mean().item() * 100 for k in topk]


def one_epoch(loader, model, criterion, optimizer, epoch, every):
    times, losses, top1 = Meter("Time", ":6.3f"), Meter("Loss", ":.4e"), Meter("Acc@1", ":6.2f")
    end = time.time()
    for number, (images, target) in enumerate(loader):
        output = model(images)
        loss = criterion(output, target)
        losses.update(loss.item(), len(images))
        top1.update(accuracy(output, target)[0], len(images))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.update(time.time() - end)
        end = time.time()
        if number % every == 0 and dist.get_rank() == 0:
            head = f"Epoch: [{epoch}][{number}/{len(loader)}]"
            print("\t".join([head, str(times), str(losses), str(top1)]))


def validate(loader, model):
    top1, top5 = Meter("Acc@1", ":6.2f"), Meter("Acc@5", ":6.2f")
    with torch.no_grad():
        for images, target in loader:
            first, fifth = accuracy(model(images), target)
            top1.update(first, len(images))
            top5.update(fifth, len(images))
    top1.all_reduce()
    top5.all_reduce()
    if dist.get_rank() == 0:
        print(f" * Acc@1 {top1.sum / top1.count:.3f} Acc@5 {top5.sum / top5.count:.3f}")
    return top1.sum / top1.count


parser = argparse.ArgumentParser()
parser.add_argument("--epochs", default=90, type=int)
parser.add_argument("--print-freq", "-p", default=10, type=int)
parser.add_argument("--dist-url", default="env://")
parser.add_argument("--dist-backend", default="gloo")
parser.add_argument("--world-size", default=-1, type=int)
parser.add_argument("--rank", default=-1, type=int)
args = parser.parse_args()
if args.dist_url == "env://" and args.rank == -1:
    args.rank = int(os.environ["RANK"])
    args.world_size = int(os.environ["WORLD_SIZE"])
dist.init_process_group(
    args.dist_backend, init_method=args.dist_url, world_size=args.world_size, rank=args.rank
)
torch.manual_seed(0)
data = TensorDataset(torch.randn(64, 12), torch.arange(64) % 10)
sampler = DistributedSampler(data)
loader = DataLoader(data, batch_size=8, sampler=sampler, num_workers=1)
model = DistributedDataParallel(nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 10)))
optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, weight_decay=1e-4)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=30, gamma=0.1)
best = 0
for epoch in range(args.epochs):
    sampler.set_epoch(epoch)
    one_epoch(loader, model, nn.CrossEntropyLoss(), optimizer, epoch, args.print_freq)
    best = max(best, validate(loader, model))
    schedule.step()
    if args.rank == 0:
        state = {"epoch": epoch + 1, "state": model.state_dict()}
        torch.save(state, os.path.join(tempfile.mkdtemp(), "best.pt"))
dist.destroy_process_group()
