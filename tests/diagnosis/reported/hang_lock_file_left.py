# expect: hang, rank any
# cause: lock
# fix: delete|remove|rm |left over|timeout
# run: -n 2 --hang-after 2s
"""huggingface/huggingface_hub#3944: the lock of a download was left by a process that was killed."""

import os
import time

with open("model.safetensors.lock", "w") as file:
    file.write("4242")  # the process that was killed
while os.path.exists("model.safetensors.lock"):
    time.sleep(0.2)  # here
print("downloading")
