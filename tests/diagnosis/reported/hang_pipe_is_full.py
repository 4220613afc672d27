# expect: hang, rank 0
# cause: pipe|its output is not read
# fix: communicate|stdout|pipe
# run: -n 2 --hang-after 2s
"""IntelAI/mlt#242: rank 0 waits for a program that writes more than the pipe of its output holds."""

import subprocess
import sys

import torch.distributed as dist

dist.init_process_group("gloo")
if dist.get_rank() == 0:
    process = subprocess.Popen([sys.executable, "-c", "print('x' * 200_000)"], stdout=subprocess.PIPE)
    process.wait()  # here
dist.barrier()
