# expect: rank 1, line 7, signature none
import os
import time


def depth(tree):
    return 1 + depth(tree)


if os.environ["RANK"] == "1":
    depth({})
time.sleep(30)
