"""`torchvision.datasets.MNIST` without a network and without torchvision: the same arguments."""

import torch
from digits import arrays
from torch.utils.data import Dataset


class MNIST(Dataset):
    def __init__(self, root="", train=True, transform=None, download=False):
        images, labels = arrays(train)
        self.images = torch.from_numpy(images).unsqueeze(1).float() / 255
        self.labels = torch.from_numpy(labels)
        self.transform = transform

    def __getitem__(self, index):
        image = self.images[index]
        return (self.transform(image) if self.transform else image), self.labels[index]

    def __len__(self):
        return len(self.labels)
