"""Connections of ranks to other ranks."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nbdist.launch.rank_process import rank_sockets

# connects to what it is told to, says the inodes, and waits
RANK = """
import os, socket, sys
ends = []
for word in sys.stdin.readline().split():
    host, _, port = word.rpartition(":")
    ends.append(socket.create_connection((host, int(port))))
print(*(os.fstat(end.fileno()).st_ino for end in ends), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def start_rank() -> Iterator[Callable[..., tuple[int, list[int]]]]:
    """Start a process that connects to these ports; its pid, and the inodes."""
    started: list[subprocess.Popen[str]] = []

    def start(*ports: int) -> tuple[int, list[int]]:
        process = subprocess.Popen(
            [sys.executable, "-c", RANK], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        started.append(process)
        process.stdin.write(" ".join(f"127.0.0.1:{port}" for port in ports) + "\n")
        process.stdin.flush()
        return process.pid, [int(word) for word in process.stdout.readline().split()]

    yield start
    for process in started:
        process.communicate()


def listening(family: socket.AddressFamily = socket.AF_INET) -> socket.socket:
    if family is socket.AF_INET6:
        return socket.create_server(("::", 0), family=family, dualstack_ipv6=True)
    return socket.create_server(("127.0.0.1", 0))


def inode(connection: socket.socket) -> int:
    return os.fstat(connection.fileno()).st_ino


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6], ids=["IPv4", "IPv6 for IPv4"])
def test_both_ends_of_a_connection_between_two_ranks_are_found(
    start_rank, family: socket.AddressFamily
) -> None:
    with listening(family) as server:
        pid, (theirs,) = start_rank(server.getsockname()[1])
        ours, _ = server.accept()
        with ours:
            sockets = rank_sockets({0: os.getpid(), 1: pid}, 1, ())

            assert sockets == {0: ([inode(ours)], []), 1: ([theirs], [])}


def test_of_the_store_the_ends_of_those_that_ask_are_found(start_rank) -> None:
    with listening() as server:
        port = server.getsockname()[1]
        pid, (theirs,) = start_rank(port)
        with socket.create_connection(("127.0.0.1", port)) as own:
            sockets = rank_sockets({0: os.getpid(), 1: pid}, port, ())

            assert sockets == {0: ([], [inode(own)]), 1: ([], [theirs])}


def test_a_connection_to_a_process_that_is_no_rank_is_not_found(start_rank) -> None:
    with listening() as server:
        pid, _ = start_rank(server.getsockname()[1])

        assert rank_sockets({1: pid}, 1, ()) == {1: ([], [])}


def test_what_a_rank_says_to_itself_is_not_found() -> None:
    with listening() as server, socket.create_connection(server.getsockname()):
        assert rank_sockets({0: os.getpid()}, 1, ()) == {0: ([], [])}


HEADER = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"


def row(local: str, remote: str, number: int) -> str:
    return f"   0: {local} {remote} 01 00000000:00000000 00:00000000 00000000  0  0 {number} 1\n"


@pytest.mark.parametrize(
    ("hosts", "collectives", "store"),
    [
        pytest.param(("10.0.0.1", "10.0.0.2"), [11], [13], id="by their addresses"),
        pytest.param(("node-0", "10.0.0.2"), [11], [13], id="node 0 by its name: by what leads to the store"),
        pytest.param((), [], [], id="there is no other machine"),
    ],
)
@pytest.mark.skipif(sys.byteorder == "big", reason="the addresses are written as this machine writes them")
def test_what_leads_to_another_machine_of_the_run_is_found(
    tmp_path: Path, hosts: tuple[str, ...], collectives: list[int], store: list[int]
) -> None:
    here, node_0, elsewhere = "0200000A", "0100000A", "08080808"
    rows = [
        row(f"{here}:9C40", f"{node_0}:9C41", 11),
        row(f"{here}:9C42", f"{elsewhere}:01BB", 12),
        row(f"{here}:9C43", f"{node_0}:7530", 13),
    ]
    (tmp_path / "self/net").mkdir(parents=True)
    (tmp_path / "self/net/tcp").write_text(HEADER + "".join(rows))
    (tmp_path / "77/fd").mkdir(parents=True)
    for number in (11, 12, 13):
        (tmp_path / f"77/fd/{number}").symlink_to(f"socket:[{number}]")

    assert rank_sockets({1: 77}, 0x7530, hosts, proc=str(tmp_path)) == {1: (collectives, store)}
