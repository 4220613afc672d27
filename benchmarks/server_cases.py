"""Processes around the measured server: writers of logs, watchers of them, and clients with other requests.

    python server_cases.py write SECONDS RATE LOG…          bytes a second into each log
    python server_cases.py watch URL TOKEN SECONDS RUN…     a page that watches these runs
    python server_cases.py ask URL TOKEN SECONDS            one request after the other, 50 a second

Each prints what it saw as one line of JSON.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import sys
import time
from urllib.parse import urlsplit

LINE = b"step %09d loss 0.%06d throughput 1234.5 samples/s lr 3.0e-4 rank 0 and more of what is printed\n"
PERIOD = 0.02


def write(seconds: float, rate: float, logs: list[str]) -> dict[str, float]:
    """Write ``rate`` bytes a second into each log, in pieces."""
    files = [open(log, "ab", buffering=0) for log in logs]  # noqa: SIM115
    piece = b"".join(LINE % (number, number) for number in range(max(1, int(rate * PERIOD / len(LINE)))))
    begun, pieces = time.monotonic(), 0
    while (now := time.monotonic()) < begun + seconds:
        for file in files:
            file.write(piece)
        pieces += 1
        time.sleep(max(0.0, begun + pieces * PERIOD - now))
    return {"megabytes_a_second": pieces * len(piece) * len(files) / seconds / 1e6}


def ask(url: str, token: str, seconds: float) -> dict[str, list[float]]:
    """Return the milliseconds of each answer of the server's own ``api/status``."""
    address = urlsplit(url)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=30)
    took: list[float] = []
    begun = time.monotonic()
    for number in range(int(seconds / PERIOD)):
        time.sleep(max(0.0, begun + number * PERIOD - time.monotonic()))
        started = time.perf_counter()
        connection.request("GET", f"{address.path}api/status", headers={"Authorization": f"token {token}"})
        connection.getresponse().read()
        took.append(1000 * (time.perf_counter() - started))
        if time.monotonic() > begun + seconds:
            break
    return {"took": took}


async def watch(url: str, token: str, seconds: float, runs: list[str]) -> dict[str, float]:
    """Return the amount that arrives, and the seconds until every run has sent its first lines."""
    from tornado.httpclient import HTTPRequest
    from tornado.websocket import websocket_connect

    address = url.replace("http", "ws", 1) + "nbdist/api/stream"
    request = HTTPRequest(address, headers={"Authorization": f"token {token}"})
    socket = await websocket_connect(request)
    started = time.monotonic()
    for run in runs:
        await socket.write_message(json.dumps({"kind": "watch", "run_id": run}))
    seen, lines, size, first = set(), 0, 0, 0.0
    while (left := started + seconds - time.monotonic()) > 0:
        try:
            data = await asyncio.wait_for(socket.read_message(), left)
        except asyncio.TimeoutError:
            break
        header = json.loads(data[4 : 4 + int.from_bytes(data[:4], "little")])
        count = sum(delta["count"] for delta in header.get("deltas", ()))
        lines, size = lines + count, size + len(data)
        if count and header["run_id"] not in seen:
            seen.add(header["run_id"])
            first = time.monotonic() - started
        await socket.write_message(json.dumps({"kind": "ack", "run_id": header.get("run_id", "")}))
    return {"lines": lines, "megabytes": size / 1e6, "first": first, "runs": len(seen)}


def main(words: list[str]) -> None:
    match words:
        case ["write", seconds, rate, *logs]:
            print(json.dumps(write(float(seconds), float(rate), logs)))
        case ["ask", url, token, seconds]:
            print(json.dumps(ask(url, token, float(seconds))))
        case ["watch", url, token, seconds, *runs]:
            print(json.dumps(asyncio.run(watch(url, token, float(seconds), runs))))
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
