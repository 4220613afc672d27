# expect: hang, rank any
# cause: different collectives|rank 0 (alone|only)
# fix: every rank|all ranks|outside|is_main_process|\bif\b
# run: -n 2 --hang-after 2s
"""huggingface/accelerate#2785: gather() is called under is_main_process."""

import torch
from accelerate import Accelerator

accelerator = Accelerator(cpu=True)
predictions = torch.ones(4, device=accelerator.device)
if accelerator.is_main_process:
    print(accelerator.gather(predictions).mean())  # here
accelerator.wait_for_everyone()  # here
