"""What a node of a cluster finds out about itself and its neighbours: a program, standard library only.

Its text is sent to each node (``python -c``), since the nodes may not see this file. It says what it finds,
an object a line behind ``MARK``, and is told by lines on stdin where to look next. It runs on whatever Python
is there, so it is written for old ones, too.
"""

from __future__ import annotations

import glob
import json
import os
import socket
import sys
import threading
import time
from importlib import metadata, util
from typing import Any

MARK = "nbdist-doctor "
PACKAGES = {
    "nbdist": ("nbdist",),
    "torch": ("torch",),
    "paddle": ("paddlepaddle-gpu", "paddlepaddle"),
}
"""What is imported, and the names under which it may be installed."""

_SEEN_LIMIT = 20.0
_GROWN_LIMIT = 70.0  # an attribute cache of NFS keeps a size for up to a minute
_CONNECT_LIMIT = 4.0
_LOOK = 0.02


def say(what: str, **found: Any) -> None:
    text = json.dumps(dict(found, say=what, name=node_name()))
    sys.stdout.write(MARK + text + "\n")
    sys.stdout.flush()


def node_name() -> str:
    given = os.environ.get("NBDIST_NODE_NAME") or os.environ.get("SLURMD_NODENAME")
    return given or socket.gethostname()


def node_number() -> int:
    return int(os.environ.get("NBDIST_NODE") or os.environ.get("SLURM_NODEID") or 0)


def versions() -> dict[str, list[str]]:
    """Version and place of each package that is there. Nothing is imported."""
    found = {}
    for name, projects in PACKAGES.items():
        try:
            spec = util.find_spec(name)
        except (ImportError, ValueError):
            spec = None
        if spec is None:
            continue
        place = os.path.dirname(spec.origin) if spec.origin else ""
        found[name] = [_version(projects), place]
    return found


def _version(projects: tuple[str, ...]) -> str:
    for project in projects:
        try:
            return metadata.version(project)
        except metadata.PackageNotFoundError:
            continue
    return "?"


def gpus() -> int:
    """GPUs that the driver of this machine has, usable or not."""
    return len(glob.glob("/proc/driver/nvidia/gpus/*"))


def wait_for(path: str, token: str, limit: float) -> float | None:
    """Seconds until the file has the token in it; None when that does not come."""
    begun = time.monotonic()
    while time.monotonic() - begun < limit:
        try:
            with open(path, encoding="utf-8") as file:
                if token in file.read():
                    return time.monotonic() - begun
        except OSError:
            pass
        time.sleep(_LOOK)
    return None


def answer(listener: socket.socket, token: str) -> None:
    """Tell each client that it is this program that listens here."""
    while True:
        try:
            connection, _ = listener.accept()
            connection.sendall(token.encode())
            connection.close()
        except OSError:
            return


def reach(address: str, port: int, token: str) -> str:
    """Why the neighbour cannot be reached at this port; empty when it can."""
    try:
        with socket.create_connection((address, port), timeout=_CONNECT_LIMIT) as connection:
            heard = connection.recv(64)
    except OSError as error:
        return str(error)
    return "" if heard == token.encode() else "another program answers there"


def resolve(name: str) -> str:
    """The address of a name; empty when it has none."""
    try:
        return str(socket.getaddrinfo(name, None, socket.AF_INET)[0][4][0])
    except OSError:
        return ""


def look(told: dict[str, Any]) -> None:
    """The shared directory, the folder, the neighbours."""
    seen = wait_for(told["here"], told["token"], _SEEN_LIMIT if os.path.isdir(told["shared"]) else 2.0)
    try:
        with open(told["mine"].format(node=node_number()), "w", encoding="utf-8") as file:
            file.write(told["token"])
        wrote = ""
    except OSError as error:
        wrote = error.strerror or str(error)
    peers = [peer for peer in told["peers"] if peer["name"] != node_name()]
    say(
        "looked",
        seen=seen,
        wrote=wrote,
        folder=os.path.isdir(told["folder"]),
        names={peer["name"]: resolve(peer["name"]) for peer in told["peers"]},
        unreachable={
            peer["name"]: why
            for peer in peers
            for why in [reach(peer["address"], peer["port"], told["token"])]
            if why
        },
    )


def main() -> None:
    token = sys.argv[1]
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.bind(("", 0))
    listener.listen(128)
    threading.Thread(target=answer, args=(listener, token), daemon=True).start()
    say(
        "hello",
        number=node_number(),
        job=os.environ.get("SLURM_JOB_ID", ""),
        host=socket.gethostname(),
        port=listener.getsockname()[1],
        python=".".join(str(part) for part in sys.version_info[:3]),
        time=time.time(),
        packages=versions(),
        gpus=gpus(),
    )
    for line in sys.stdin:
        told = json.loads(line)
        if "grown" in told:
            say("grown", after=wait_for(told["here"], told["grown"], _GROWN_LIMIT))
        else:
            look(told)


if __name__ == "__main__":
    main()
