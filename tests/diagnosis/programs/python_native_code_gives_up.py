# expect: rank 1, line 8, signature none
# needs: Linux
import ctypes
import os
import time

if os.environ["RANK"] == "1":
    ctypes.CDLL("libstdc++.so.6")._ZSt9terminatev()
time.sleep(30)
