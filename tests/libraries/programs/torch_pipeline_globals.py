# line: -n 2
# each: stage \d of 2 is done
# needs: torch.distributed.pipelining
# more: its ranks meet as those of torch_collectives, in a cell whose globals are its own
"""A pipeline of two stages, with globals that the module itself declares, as tutorials write it."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

global rank, device, pp_group, stage_index, num_stages


def init_distributed():
    global rank, device, pp_group, stage_index, num_stages
    rank = int(os.environ["LOCAL_RANK"])
    world_size = int(os.environ["WORLD_SIZE"])
    device = torch.device("cpu")
    dist.init_process_group("gloo")
    pp_group = dist.new_group()
    stage_index = rank
    num_stages = world_size


init_distributed()
part = nn.Linear(8, 8)
stage = PipelineStage(part, stage_index, num_stages, device)
schedule = ScheduleGPipe(stage, n_microbatches=2, loss_fn=nn.MSELoss())
x = torch.randn(4, 8)
if rank == 0:
    schedule.step(x)
else:
    losses = []
    schedule.step(target=torch.zeros(4, 8), losses=losses)
    print("loss", torch.stack(losses).mean().item())
print(f"stage {stage_index} of {num_stages} is done")
dist.barrier()
dist.destroy_process_group()
