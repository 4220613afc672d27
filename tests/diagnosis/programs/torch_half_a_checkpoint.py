# expect: rank any, line 10, signature checkpoint-corrupt
import io

import torch

whole = io.BytesIO()
torch.save({"weight": torch.ones(1000)}, whole)
half = io.BytesIO(whole.getvalue()[: len(whole.getvalue()) // 2])
print("loading")
torch.load(half)
