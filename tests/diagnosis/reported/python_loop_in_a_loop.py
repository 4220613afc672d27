# expect: rank any
# cause: running event loop|loop already runs
# fix: await
"""run-llama/llama_index#9978: asyncio.run() is called by code that an event loop runs already."""

import asyncio


async def fetch(name):
    return name


def load(name):
    return asyncio.run(fetch(name))  # here


async def main():
    print(load("train.parquet"))


asyncio.run(main())
