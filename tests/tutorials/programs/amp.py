import os

import torch
import torch.distributed as dist
import torch.nn as nn
from digits_for_torch import MNIST  # torchvision.datasets.MNIST, without a network
from torch.nn.parallel import DistributedDataParallel as DDP


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


dist.init_process_group()
rank, world_size = dist.get_rank(), dist.get_world_size()
local_rank = int(os.environ["LOCAL_RANK"])
device = torch.device("cuda", local_rank) if torch.cuda.is_available() else torch.device("cpu")
# half precision with 16 bits: float16 on GPUs, whose gradients need scaling; bfloat16 on CPUs
half = torch.float16 if device.type == "cuda" else torch.bfloat16

torch.manual_seed(0)
model = DDP(ConvNet().to(device), device_ids=[device.index] if device.type == "cuda" else None)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), 5e-2)
# apex: model, optimizer = amp.initialize(model, optimizer, opt_level="O2")
scaler = torch.amp.GradScaler(device.type, enabled=half is torch.float16)
train_dataset = MNIST(train=True)
sampler = torch.utils.data.distributed.DistributedSampler(train_dataset)
loader = torch.utils.data.DataLoader(train_dataset, batch_size=100, sampler=sampler)
for i, (images, labels) in enumerate(loader):
    with torch.amp.autocast(device.type, dtype=half):
        outputs = model(images.to(device))
        loss = criterion(outputs, labels.to(device))
    optimizer.zero_grad()
    scaler.scale(loss).backward()  # apex: with amp.scale_loss(loss, optimizer) as scaled_loss
    scaler.step(optimizer)
    scaler.update()
    if (i + 1) % 5 == 0 and rank == 0:
        kinds = f"outputs {outputs.dtype}, weights {model.module.fc.weight.dtype}"
        print(f"Step [{i + 1}/{len(loader)}], Loss: {loss.item():.4f}, {kinds}")
dist.destroy_process_group()
