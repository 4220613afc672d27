"""Ranks that wait for each other in native code get to their ``finally``, however their run ends.

Each situation of torch and of paddle ends by a stop, an interrupt, the time limit or the failure of another
rank: by the next of them in each round.
"""

from __future__ import annotations

import re
import socketserver
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path

import pytest

from nbdist import processes, runner
from nbdist.diagnosis import first_failure
from nbdist.feed.summary import facts_of, remarks
from nbdist.store.control import request_interrupt
from tests.programs import until, until_ready

pytestmark = pytest.mark.usefixtures("leaves_nothing")

# ranks 0 and 1 are in the situation; rank 2 is there where one is to fail
PROGRAM = """
import os, time
rank = int(os.environ["RANK"])
def save():
    time.sleep(0.2)
    with open(f"saved-{{rank}}", "w") as file:
        file.write("all of it")
{join}
print("ready", flush=True)
if rank == 2:
    while not os.path.exists("go"): time.sleep(0.01)
    raise ValueError("no data")
try:
    {situation}
finally:
    save()
"""

SLEEP = "time.sleep(1000)"
# Python 3.11 leaves a try by an interrupt of a loop that is the first statement in it
PYTHON = {"a loop of Python": "rank += 0\n    while True: rank += 0", "sleep": SLEEP}
TORCH_JOIN = """
import torch, torch.distributed as dist
dist.init_process_group("gloo")
pair, tensor = dist.new_group([0, 1]), torch.ones(4)
store = dist.distributed_c10d._get_default_store()
"""
MODEL = "model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))\n"
TORCH = {
    "one in all_reduce": f"dist.all_reduce(tensor, group=pair) if rank == 0 else {SLEEP}",
    "all in recv of each other": "dist.recv(tensor, src=1 - rank)",
    "a send of 16 MB": "dist.send(torch.ones(4_000_000), 1) if rank == 0 else dist.recv(tensor, 0, tag=7)",
    "barrier": f"dist.barrier(pair) if rank == 0 else {SLEEP}",
    "backward of DDP alone": f"model(tensor).sum().backward() if rank == 0 else {SLEEP}",
    "store.get": "store.get('never')",
    "new_group alone": f"dist.new_group([0, 1]) if rank == 0 else {SLEEP}",
}
PADDLE_JOIN = """
import paddle, paddle.distributed as dist
dist.init_parallel_env()
pair, tensor = dist.new_group([0, 1]), paddle.ones([4])
store = paddle.base.core.create_or_get_global_tcp_store()
"""
# what gloo raises in backward ends a process of paddle: no finally is reached there
PADDLE = {
    "one in all_reduce": f"dist.all_reduce(tensor, group=pair) if rank == 0 else {SLEEP}",
    "all in recv of each other": "dist.recv(tensor, src=1 - rank, group=pair)",
    # to receive less ends the process
    "a send of 16 MB": f"dist.send(paddle.ones([4_000_000]), 1, group=pair) if rank == 0 else {SLEEP}",
    "barrier": f"dist.barrier(pair) if rank == 0 else {SLEEP}",
    "new_group alone": f"dist.new_group([0, 1]) if rank == 0 else {SLEEP}",
    "store.get": "store.get('never')",
}
FRAMEWORKS = {"": ("", PYTHON), "torch": (TORCH_JOIN, TORCH), "paddle": (PADDLE_JOIN, PADDLE)}
ENDS = ("a stop", "an interrupt", "the time limit", "a failure")
LIMIT = 25


def cases() -> Iterator[object]:
    for framework, (join, situations) in FRAMEWORKS.items():
        absent = bool(framework) and find_spec(framework) is None
        missing = pytest.mark.skipif(absent, reason=f"{framework} is not installed")
        for number, (name, situation) in enumerate(situations.items()):
            model = MODEL if "model(" in situation else ""
            program = PROGRAM.format(join=join + model, situation=situation)
            yield pytest.param(program, number, id=f"{framework} {name}".strip(), marks=missing)


def until_it_waits(handle: runner.RunHandle) -> None:
    """Wait until the main threads of ranks 0 and 1 sleep without being woken, or compute."""
    before: list[object] = []

    def steady() -> bool:
        nonlocal before
        pids = [rank.process.pid for rank in handle.run.ranks[:2] if rank.process is not None]
        last, before = before, [processes.activity(pid) for pid in pids]
        return all(
            now is not None and (now.state == "R" or now == then)
            for now, then in zip(before, last, strict=False)
        ) and bool(last)

    until(steady)


def end(handle: runner.RunHandle, how: str, folder: Path) -> None:
    if how == "a stop":
        handle.stop("enough")
    elif how == "an interrupt":
        for rank in range(2):
            request_interrupt(handle.directory, rank)
    elif how == "a failure":
        (folder / "go").touch()
    handle.wait(LIMIT + 20)


@pytest.mark.parametrize(("program", "number"), [*cases()])
def test_a_rank_gets_to_its_finally(
    start_cell, request: pytest.FixtureRequest, tmp_path: Path, program: str, number: int
) -> None:
    # a rank that waits for none of the others gets SIGTERM when one fails
    ends = ENDS if "dist." in program else ENDS[:3]
    how = ends[(number + request.node.callspec.params.get("fault_round", 0)) % len(ends)]
    limit = f"--timeout {LIMIT}s" if how == "the time limit" else ""
    handle = until_ready(start_cell(f"-n {3 if how == 'a failure' else 2} {limit}", program), limit=60)
    until_it_waits(handle)

    end(handle, how, tmp_path)

    saved = {rank for rank in (0, 1) if (tmp_path / f"saved-{rank}").exists()}
    texts = [(tmp_path / f"saved-{rank}").read_text() for rank in saved]
    waiting = {0} if SLEEP in program.partition("try:")[2] and how == "a failure" else {0, 1}
    assert saved >= waiting, "\n".join(handle.logs(rank) for rank in range(2))
    assert set(texts) == {"all of it"}
    failure = first_failure(handle.run, handle.directory)
    if how == "a failure":
        assert failure is not None
        assert (failure.rank, failure.report and failure.report.type) == (2, "ValueError")
    elif how == "a stop":
        assert handle.status == "stopped"
        assert failure is None


WITH_CONNECTIONS = """
import os, socket, urllib.request
import torch, torch.distributed as dist
from torch.utils.data import DataLoader
dist.init_process_group("gloo")
batches = iter(DataLoader(torch.arange(100.0), num_workers=1))
next(batches)
client = socket.create_connection(("127.0.0.1", {echo}))
download = urllib.request.urlopen("http://127.0.0.1:{http}/")
first = download.read(10)
print("ready", flush=True)
try:
    dist.recv(torch.ones(1), src=1 - dist.get_rank())
finally:
    client.sendall(b"?")
    print("echo", client.recv(1))
    print("batch", int(next(batches)[0]))
    print("download", len(first) + len(download.read()))
"""
SIZE = 100_000


class Echo(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        self.request.sendall(self.request.recv(1))
        self.server.requested.release()


class Slow(BaseHTTPRequestHandler):
    """A handler that sends the second half once both ranks have got the request to end and have written to
    the other server."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(SIZE))
        self.end_headers()
        self.wfile.write(b"x" * (SIZE // 2))
        self.wfile.flush()
        self.server.requested.acquire(timeout=60)
        self.wfile.write(b"x" * (SIZE // 2))

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def servers() -> Iterator[list[int]]:
    """Yield the ports of two servers of this process."""
    requested, running = threading.Semaphore(0), []
    for kind, handler in ((socketserver.ThreadingTCPServer, Echo), (ThreadingHTTPServer, Slow)):
        server = kind(("127.0.0.1", 0), handler)
        server.daemon_threads, server.requested = True, requested
        threading.Thread(target=server.serve_forever, daemon=True).start()
        running.append(server)
    yield [server.server_address[1] for server in running]
    for server in running:
        server.shutdown()
        server.server_close()


@pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")
def test_no_other_connection_of_a_freed_rank_ends(start_cell, servers: list[int]) -> None:
    echo, http = servers
    handle = until_ready(start_cell("-n 2", WITH_CONNECTIONS.format(echo=echo, http=http)), limit=60)
    until_it_waits(handle)

    assert handle.stop("enough") == "stopped"

    for rank in range(2):
        assert handle.logs(rank).splitlines()[1:4] == ["echo b'?'", "batch 1", f"download {SIZE}"], (
            handle.logs(rank)
        )
    lines = remarks(facts_of(handle.run, handle.directory), "en", ())
    # the one whose connection is ended first brings the other one back
    assert re.search(
        r"^ranks? \d(, 1)? (was|were) waiting in recv at line 13 and (was|were) interrupted$", lines[0]
    )
