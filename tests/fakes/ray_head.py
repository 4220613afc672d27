"""A dashboard of Ray's that answers what a test wants: for what a real one does rarely, or never to us."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class RayHead:
    """``answers`` are by path, status and text; what is not among them is not found. A path in ``mute`` is
    heard, and never answered."""

    answers: dict[str, tuple[int, str]] = field(default_factory=dict)
    mute: frozenset[str] = frozenset()
    headers: dict[str, str] = field(default_factory=dict)
    heard: list[tuple[str, str, str]] = field(default_factory=list)
    """Of each request the method and path, what it said of who asks, and its body."""
    address: str = ""

    def says(self, path: str, value: object, status: int = 200) -> None:
        self.answers[path] = (status, value if isinstance(value, str) else json.dumps(value))


@contextlib.contextmanager
def ray_head(**known: object) -> Iterator[RayHead]:
    """Start a head that listens, and answers with its version."""
    head = RayHead(**known)  # type: ignore[arg-type]
    head.answers.setdefault("/api/version", (200, json.dumps({"version": "4", "ray_version": "2.60.0"})))
    over = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
            head.heard.append((f"{self.command} {self.path}", self.headers.get("Authorization", ""), body))
            if self.path in head.mute:
                over.wait(60)
                return
            status, text = head.answers.get(self.path, (404, "there is no such thing"))
            self.send_response(status)
            for name, value in head.headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(text.encode())

        def do_POST(self) -> None:
            self.do_GET()

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    head.address = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield head
    finally:
        over.set()
        server.shutdown()
        thread.join()
        server.server_close()
