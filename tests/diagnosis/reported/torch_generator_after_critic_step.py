# expect: rank any
# cause: step\(\)
# fix: before .*step\(\)|step\(\) after|backward\(\) first|anew|again
# never: x \+= 1
"""manuelfritsche/real-world-sr#18: the critic steps before the generator's backward() runs through it."""

import torch
import torch.distributed as dist
from torch import nn

dist.init_process_group("gloo")
generator = nn.Linear(4, 4)
critic = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 1))
critic_steps = torch.optim.SGD(critic.parameters(), 0.1)
fake = generator(torch.randn(8, 4))
generator_loss = -critic(fake).mean()
critic_loss = critic(fake.detach()).mean()
critic_loss.backward()
critic_steps.step()
generator_loss.backward()  # here
