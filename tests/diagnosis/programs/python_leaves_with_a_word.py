# expect: rank 1, line 7, signature none
import os
import sys
import time

if os.environ["RANK"] == "1":
    sys.exit("no data on this rank")
time.sleep(30)
