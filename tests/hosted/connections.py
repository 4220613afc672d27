"""A kernel and a stream of a user's server, asked as pages ask them."""

from __future__ import annotations

import contextlib
import json
import time
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import websocket

from tests.fakes.wires import split_frame
from tests.hosted.services import TRAINING, Host, until

if TYPE_CHECKING:
    from typing_extensions import Self

CELL = f"%%distributed -n 2 --name hosted --no-check\n{TRAINING}"


def socket_to(host: Host, path: str) -> websocket.WebSocket:
    url = host.url.replace("http", "ws", 1) + path
    return websocket.create_connection(url, header=[f"Authorization: token {host.token}"], timeout=60)


class Connection:
    """A socket that is closed at the end of a block."""

    socket: websocket.WebSocket

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()


class Kernel(Connection):
    """A kernel of a user's server, asked as a notebook asks it."""

    def __init__(self, host: Host) -> None:
        status, body = host.ask("api/kernels", "POST", {"name": "python3"})
        assert status == 201, body
        self.host = host
        self.id = json.loads(body)["id"]
        self.socket = socket_to(host, f"api/kernels/{self.id}/channels")

    def submit(self, code: str) -> str:
        """Send a cell; do not wait for it."""
        message = uuid.uuid4().hex
        content = {"code": code, "silent": False, "store_history": True, "allow_stdin": False}
        # for a moment after an error the kernel would drop what comes next
        content["stop_on_error"] = False
        whole = {
            "header": {"msg_id": message, "msg_type": "execute_request", "session": "s", "version": "5.3"},
            "parent_header": {},
            "metadata": {},
            "content": content,
            "channel": "shell",
        }
        self.socket.send(json.dumps(whole))
        return message

    def reply(self, message: str) -> dict[str, Any]:
        """Wait for the end of a cell and return its reply."""
        while True:
            data = self.socket.recv()
            got = json.loads(data) if isinstance(data, str) else {}
            if got.get("msg_type") == "execute_reply" and got["parent_header"].get("msg_id") == message:
                return dict(got["content"])

    def run(self, code: str) -> dict[str, Any]:
        return self.reply(self.submit(code))


class Stream(Connection):
    """A page's end of the stream."""

    def __init__(self, host: Host) -> None:
        self.socket = socket_to(host, "nbdist/api/stream")
        self.lines = 0
        self.state = ""

    def watch(self, run_id: str) -> None:
        self.socket.send(json.dumps({"kind": "watch", "run_id": run_id}))

    def until(self, condition: Callable[[], bool], limit: float = 60.0) -> None:
        deadline = time.monotonic() + limit
        while not condition():
            assert time.monotonic() < deadline
            header, _buffers = split_frame(self.socket.recv())
            self.lines += sum(delta["count"] for delta in header.get("deltas", ()))
            self.state = (header.get("view") or {}).get("state", self.state)
            self.socket.send(json.dumps({"kind": "ack", "run_id": header["run_id"]}))


def runs_of(host: Host) -> list[dict[str, Any]]:
    status, body = host.ask("nbdist/api/runs")
    assert status == 200, body
    return list(json.loads(body)["runs"])


def a_run_is_watched_and_stopped_while_its_kernel_is_busy(host: Host) -> str:
    with contextlib.ExitStack() as opened:
        return _the_story(host, opened)


def _the_story(host: Host, opened: contextlib.ExitStack) -> str:
    kernel = opened.enter_context(Kernel(host))
    assert kernel.run("%load_ext nbdist")["status"] == "ok"
    cell = kernel.submit(CELL)
    run_id = str(until(lambda: runs_of(host))[0]["run_id"])
    page = opened.enter_context(Stream(host))
    page.watch(run_id)
    page.until(lambda: page.lines > 20 and page.state == "running")

    # another page, as after a reload
    again = opened.enter_context(Stream(host))
    again.watch(run_id)
    again.until(lambda: again.lines > 20)
    path = f"nbdist/api/runs/{run_id}/ranks/1/log"
    log = until(lambda: host.ask(path)[1].partition(b"\n")[0])
    assert log == b"step 0 of rank 1"

    status, body = host.ask("nbdist/api/board", "POST", {"run_ids": [run_id]})
    assert status == 200, body
    below = json.loads(body)["url"].split("/nbdist/", 1)[1]
    status, board = host.ask(f"nbdist/{below}")
    assert (status, b"VisualDL" in board) == (200, True)

    assert host.ask(f"nbdist/api/runs/{run_id}/stop", "POST", {"reason": "enough"})[0] == 202
    page.until(lambda: page.state == "stopped")
    # the cell is done, and the kernel is free again
    kernel.reply(cell)
    assert kernel.run("1 + 1")["status"] == "ok"
    host.ask(f"api/kernels/{kernel.id}", "DELETE")
    return run_id
