"""``--backend`` for torch: what ``init_process_group()`` picks when the program names no backend."""

from __future__ import annotations

import os
from types import ModuleType


def prefer_backend(module: ModuleType) -> None:
    """Make NBDIST_BACKEND the default for every device it can serve.

    torch has no environment variable for it; ``Backend.default_device_backend_map`` is the table that
    ``init_process_group`` reads (torch.distributed.distributed_c10d). A program that names a backend
    gets the one it named.
    """
    wanted = os.environ.get("NBDIST_BACKEND", "auto")
    if wanted == "auto":
        return
    table = module.Backend.default_device_backend_map
    for device in ("cpu", "cuda"):
        if device in table and (wanted, device) != ("nccl", "cpu"):
            table[device] = wanted
