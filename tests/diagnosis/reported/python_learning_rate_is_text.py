# expect: rank any
# cause: text|string|'str'
# fix: float\(|1\.0e-4|0\.0001
"""hiyouga/LlamaFactory#4149: YAML reads 1e-4 as a text, and the optimizer compares it with a number."""

import torch
import yaml

settings = yaml.safe_load("learning_rate: 1e-4")
model = torch.nn.Linear(2, 2)
optimizer = torch.optim.Adam(model.parameters(), lr=settings["learning_rate"])  # here
