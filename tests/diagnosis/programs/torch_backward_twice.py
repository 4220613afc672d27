# expect: rank any, line 9, signature backward-twice
import torch

weight = torch.ones(3, requires_grad=True)
total = torch.zeros(())
for step in range(3):
    total = total + (weight * weight).sum()
    print("step", step)
    total.backward()
