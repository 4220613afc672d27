# expect: rank 1, line 8, signature none
# needs: python 3.11
import os
import time


def check(name):
    raise ValueError(f"no {name} in the settings")


if os.environ["RANK"] == "1":
    errors = []
    for name in ("width", "depth"):
        try:
            check(name)
        except ValueError as error:
            errors.append(error)
    raise ExceptionGroup("settings", errors)  # noqa: F821 - new in Python 3.11
time.sleep(30)
