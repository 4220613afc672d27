# expect: rank 1, line 6, signature interrupted
import os
import time

if os.environ["RANK"] == "1":
    raise KeyboardInterrupt
time.sleep(30)
