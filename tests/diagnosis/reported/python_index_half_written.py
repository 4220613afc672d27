# expect: rank 1
# cause: still (being )?writ|incomplete|empty|another rank
# fix: os\.replace|barrier
"""mosaicml/streaming#345: a rank reads an index that rank 0 has opened, but not written yet."""

import json
import os
import time

if os.environ["RANK"] == "0":
    with open("index.json", "w") as file:
        time.sleep(6)
        json.dump({"shards": 3}, file)
else:
    while not os.path.exists("index.json"):
        time.sleep(0.01)
    with open("index.json") as file:
        index = json.load(file)  # here
