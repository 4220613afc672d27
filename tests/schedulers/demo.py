"""A cell that trains on two nodes of a Slurm, as a notebook has it: for ``make cluster-demo``."""

from __future__ import annotations

import os
import sys
import tempfile

from IPython.core.interactiveshell import InteractiveShell

CELL = """
import os, torch, torch.distributed as dist, nbdist
dist.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(20):
    inputs = torch.randn(64, 4)
    loss = (model(inputs) - inputs.sum(1, keepdim=True)).pow(2).mean()
    optimizer.zero_grad(); loss.backward(); optimizer.step()
    nbdist.log(step=step, loss=loss.item())
print(f"rank {dist.get_rank()} on {os.environ['SLURMD_NODENAME']}: loss {loss:.4f}")
dist.destroy_process_group()
"""


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="nbdist-demo") as home:
        os.environ.setdefault("NBDIST_HOME", home)
        shell = InteractiveShell.instance()
        shell.run_line_magic("load_ext", "nbdist")
        done = shell.run_cell(f"%%distributed --on slurm --nodes 2 -n 1 --name demo\n{CELL}")
        shell.run_line_magic("dist_status", "demo")
    return 0 if done.success else 1


if __name__ == "__main__":
    sys.exit(main())
