# expect: rank any
# cause: another rank|already (moved|renamed)|two ranks|both ranks
# fix: rank 0|own name|barrier
"""lucidrains/DALLE-pytorch#141: every rank downloads to the same temporary name, and renames it."""

import os
import time

with open("tmp.encoder.pkl", "wb") as file:
    file.write(b"weights")
with open(f"downloaded-{os.environ['RANK']}", "w"):
    pass
while not os.path.exists("downloaded-0") or not os.path.exists("downloaded-1"):
    time.sleep(0.01)
os.rename("tmp.encoder.pkl", "encoder.pkl")  # here
time.sleep(20)
