"""The probe: ``python nbdist/devices/__main__.py INDEX…`` answers each line on stdin with the GPUs' loads.

A process of its own, because a call of NVML may hang (in the kernel, where no signal ends it) when a
driver is in trouble, which is just when ranks die and have to be looked after.
"""

import os
import sys

if __name__ == "__main__":
    if not __package__:
        # the script's own directory would come first, and its modules are parts of a package
        sys.path[0] = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    from nbdist.devices.gpus import open_loads
    from nbdist.devices.usage import encode_loads

    with open_loads(map(int, sys.argv[1:])) as look:
        for _ in sys.stdin:
            print(encode_loads(look()), flush=True)
