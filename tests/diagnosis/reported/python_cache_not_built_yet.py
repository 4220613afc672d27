# expect: rank 1
# cause: not there yet|no .*doc_idx|there is no
# fix: barrier
"""deepspeedai/Megatron-DeepSpeed#356: rank 0 builds an index, and the others do not wait for it."""

import os
import time

import numpy as np

path = "index-cache/doc_idx.npy"
if os.environ["RANK"] == "0":
    time.sleep(10)
    os.makedirs("index-cache")
    np.save(path, np.arange(8))
documents = np.load(path)  # here
