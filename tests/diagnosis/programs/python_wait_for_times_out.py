# expect: rank 1, line 12, signature none
import asyncio
import os


async def answer():
    await asyncio.sleep(60)


async def main():
    if os.environ["RANK"] == "1":
        await asyncio.wait_for(answer(), timeout=0.5)
    await answer()


asyncio.run(main())
