# expect: rank 1, line 13, signature none
import os
import time
import traceback

print("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB; halving the batch")
print("RuntimeError: Connection closed by peer [127.0.0.1]:5529, trying once more")
try:
    os.stat("resume.pt")
except FileNotFoundError:
    traceback.print_exc()
if os.environ["RANK"] == "1":
    {}["learning_rate"]
time.sleep(30)
