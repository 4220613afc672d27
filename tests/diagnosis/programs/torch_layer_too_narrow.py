# expect: rank any, line 12, signature matmul-shapes
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(400, 10)

    def forward(self, x):
        return self.fc(x.flatten(1))


Net()(torch.randn(4, 1, 28, 28))
