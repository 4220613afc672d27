# expect: rank 1, line 9, signature exit-bus-error
import os
import signal
import time


def read_the_mapped_file():
    if os.environ["RANK"] == "1":
        signal.raise_signal(signal.SIGBUS)
    time.sleep(30)


read_the_mapped_file()
