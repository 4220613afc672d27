# expect: rank any
# cause: 1-?D|one dimension|2-?D
# fix: mesh\[.tp.\]|\[.tp.\]|one dimension of the mesh|slice
# run: -n 4
"""pytorch/examples#1257: parallelize_module() gets a mesh of two dimensions."""

import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module

dist.init_process_group("gloo")
mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
model = nn.Sequential(nn.Linear(8, 8))
parallelize_module(model, mesh, {"0": ColwiseParallel()})  # here
