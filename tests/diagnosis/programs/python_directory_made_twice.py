# expect: rank any, line 7, signature file-made-twice
import os
import tempfile
import time

shared = os.path.join(tempfile.gettempdir(), "checkpoints-" + os.environ["NBDIST_RUN_ID"])
os.mkdir(shared)
time.sleep(5)
os.rmdir(shared)
