# expect: rank 1, line 7, signature none
import os
import time


def rate(settings):
    return settings["learning_rate"]


def configure():
    try:
        return rate({})
    except KeyError as error:
        raise RuntimeError("the settings are not complete") from error


if os.environ["RANK"] == "1":
    configure()
time.sleep(30)
