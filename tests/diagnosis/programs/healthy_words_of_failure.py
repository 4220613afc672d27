# expect: nothing
import logging
import os
import sys
import traceback

print("RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB", file=sys.stderr)
print("Connection closed by peer; Timed out waiting 1800000ms for recv operation to complete")
print("terminate called after throwing an instance of 'std::bad_alloc'\n  what():  std::bad_alloc")
try:
    os.stat("resume.pt")
except FileNotFoundError:
    traceback.print_exc()
logging.error("NCCL error: unhandled system error, trying gloo")
