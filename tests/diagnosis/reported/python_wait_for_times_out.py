# expect: rank 1
# cause: Timeout
# never: CancelledError
"""dask/distributed#1337: a rank waits for workers that do not start, with a time limit."""

import asyncio
import os
import time


async def worker():
    await asyncio.sleep(60)


async def main():
    await asyncio.wait_for(worker(), timeout=1)  # here


if os.environ["RANK"] == "1":
    asyncio.run(main())
time.sleep(30)
