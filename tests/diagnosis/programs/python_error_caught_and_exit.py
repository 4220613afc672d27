# expect: rank 1, line 8, signature module-missing
import os
import sys
import time


def load():
    from a_module_of_nobody import images

    return images


if os.environ["RANK"] == "1":
    try:
        load()
    except ImportError:
        sys.exit(1)
time.sleep(30)
