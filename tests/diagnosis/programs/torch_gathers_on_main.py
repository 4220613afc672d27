# expect: rank 0, line 15, signature left-alone, early 1
import torch.distributed as dist

dist.init_process_group("gloo")


def is_main():
    return dist.get_rank() == 0


scores = [None] * dist.get_world_size()
dist.barrier()
print("evaluating", flush=True)
if is_main():
    dist.all_gather_object(scores, {"accuracy": 0.9})
    print(scores)
