"""Where nodes of Slurm are, asked for on one of them: names, addresses, and two free ports in a row."""

from __future__ import annotations

import socket
import subprocess

_FIRST_PORT, _PORTS = 20_000, 10_000


def hosts_of(nodelist: str) -> list[str]:
    """The names in a list as Slurm writes it: ``n[1-2]``."""
    return _output("scontrol", "show", "hostnames", nodelist).split()


def address_of(node: str) -> str:
    """The address of a node: Slurm may know one that its name does not lead to. Raises OSError."""
    for word in _output("scontrol", "-o", "show", "node", node).split():
        if word.startswith("NodeAddr="):
            node = word.partition("=")[2]
    return str(socket.getaddrinfo(node, None, socket.AF_INET, socket.SOCK_STREAM)[0][4][0])


def own_address(other: str) -> str:
    """The address of this node by which ``other`` reaches it. Names lead to a loopback address too often."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        # nothing is sent: the route says it
        asked.connect((other, 9))
        return str(asked.getsockname()[0])


def free_ports(address: str, job: int) -> int:
    """A port that is free here, and so is the next: the ranks' and the supervisors'."""
    for attempt in range(200):
        port = _FIRST_PORT + (2 * job + 2 * attempt) % _PORTS
        if all(_is_free(address, each) for each in (port, port + 1)):
            return port
    raise SystemExit(f"nbdist: no two free ports in a row on {address} from {_FIRST_PORT} on")


def _is_free(address: str, port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as asked:
        try:
            asked.bind((address, port))
        except OSError:
            return False
    return True


def _output(*words: str) -> str:
    """Empty where Slurm knows nothing of it."""
    return subprocess.run(words, check=False, capture_output=True, text=True).stdout
