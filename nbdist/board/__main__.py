"""The board server's process: ``python -m nbdist.board HOME``, started by ``ensure_board``.

It ends when no request has come for a while, when its home has gone, or on SIGTERM.
"""

from __future__ import annotations

import argparse
import fcntl
import logging
import os
import secrets
import signal
import sys
import threading
import time
from pathlib import Path

from nbdist import processes
from nbdist.board.server import (
    IDLE_SECONDS,
    READY,
    Board,
    BoardDirectory,
    find_board,
    read_board,
    write_board,
)
from nbdist.errors import NotPrivate
from nbdist.store import RunStore

_LOOK_SECONDS = 1.0  # between two checks whether to go on
_LOCK_SECONDS = 15.0  # for a predecessor to end, or to answer: on a busy machine it imports for so long


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m nbdist.board", description=__doc__)
    parser.add_argument("home", type=Path)
    parser.add_argument("--idle-seconds", type=float, default=IDLE_SECONDS)
    options = parser.parse_args()
    try:
        RunStore(options.home).check()
    except NotPrivate as error:
        sys.exit(str(error))
    if not _lock(options.home):
        return 0
    os.ftruncate(2, 0)
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(name)s: %(message)s")
    # drop what VisualDL prints (each download, whole); READY is all that goes out
    output = os.dup(1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return _serve(options.home, options.idle_seconds, output)


def _lock(home: Path) -> bool:
    """Lock this home for as long as this process lives; return False when a server has the lock."""
    lock = BoardDirectory(home / "board").lock
    handle = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    end = time.monotonic() + _LOCK_SECONDS
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            # a server that is starting cannot be found yet, one that is ending no more
            if find_board(home) is not None:
                return False
            if time.monotonic() > end:
                sys.exit(f"{lock} is held by a server that does not answer")
            time.sleep(0.05)


def _serve(home: Path, idle_seconds: float, output: int) -> int:
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        # VisualDL's import takes 0.8 s, and only the process that has the lock needs it
        from werkzeug.serving import WSGIRequestHandler, make_server

        from nbdist.board.patches import PATCHES, apply
        from nbdist.board.visualdl_app import BoardApp
    except ImportError as error:
        sys.exit(f"VisualDL cannot be imported by {sys.executable}: {error}")
    apply(PATCHES)

    class QuietHandler(WSGIRequestHandler):
        timeout = 60.0  # seconds that a connection may do nothing, and keep its thread

        def log(self, *_: object) -> None:
            """Log nothing: addresses hold the token."""

        def version_string(self) -> str:
            return "nbdist"

    app = BoardApp(home / "runs", secrets.token_urlsafe(32))
    server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=QuietHandler)
    process = processes.identify(os.getpid())
    assert process is not None
    board = Board(process=process, port=server.port, token=app.token)
    threading.Thread(target=server.serve_forever, name="accept", daemon=True).start()
    write_board(home, board)
    os.write(output, READY)
    os.close(output)
    while not stopping.wait(_LOOK_SECONDS):
        if app.idle_seconds() > idle_seconds or read_board(home) != board:
            break
    if read_board(home) == board:
        BoardDirectory(home / "board").discovery.unlink(missing_ok=True)
    server.shutdown()
    server.server_close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
