# expect: rank any, line 5, signature group-not-initialized
import torch.nn as nn

model = nn.Linear(2, 2)
nn.parallel.DistributedDataParallel(model)
