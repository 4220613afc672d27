"""Programs of several tests on several machines."""

SAVES = """
import time
print("ready", flush=True)
try:
    time.sleep(600)
except KeyboardInterrupt:
    time.sleep(0.5)
    print("saved", flush=True)
"""

FAILS_ON_RANK_1 = """
import os, time
print("ready", flush=True)
if os.environ["RANK"] == "1":
    raise ValueError("boom")
time.sleep(600)
"""

# rank 0 waits from the beginning, rank 1 works for longer than the limit first
HANGS = """
import os, threading, time
print("ready", flush=True)
if os.environ["RANK"] == "0":
    threading.Event().wait()
end = time.time() + 6
while time.time() < end:
    sum(range(10_000))
open("worked", "w").write(str(time.time()))
time.sleep(600)
"""
HANGS_AT = "rank 0 is in wait at line 5 of train.py; rank 1 is in time.sleep at line 10 of train.py"
