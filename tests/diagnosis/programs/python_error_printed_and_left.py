# expect: rank 1, line 8, signature file-missing
import os
import time
import traceback


def load():
    return open("data/train.csv").read()


if os.environ["RANK"] == "1":
    try:
        load()
    except OSError:
        traceback.print_exc()
        os._exit(1)
time.sleep(30)
