# expect: rank 1, line 8, signature disk-full
# needs: Linux
import os
import time

if os.environ["RANK"] == "1":
    checkpoint = os.open("/dev/full", os.O_WRONLY)
    os.write(checkpoint, b"weights")
time.sleep(30)
