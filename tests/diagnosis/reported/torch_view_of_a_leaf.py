# expect: rank any
# cause: leaf
# fix: no_grad|\.data|copy_
"""PingoLH/FCHarDNet#61: the weights of a part of a layer are set while gradients are recorded."""

import torch

layer = torch.nn.Linear(4, 2)
layer.weight[0].fill_(0.5)  # here
