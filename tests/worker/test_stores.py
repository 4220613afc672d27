"""A rank other than 0 asks for its store when there is one, and not before."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from datetime import timedelta
from types import ModuleType

import pytest

from nbdist.worker import framework_hooks

TIMEOUT = timedelta(seconds=20)


@pytest.fixture
def place() -> Iterator[socket.socket]:
    """Return a bound port on which nobody listens."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


class Rendezvous(ModuleType):
    """A stand-in for torch.distributed.rendezvous that notes each call, and whether the port listened."""

    def __init__(self) -> None:
        super().__init__("rendezvous")
        self.asked: list[tuple[bool, bool, timedelta]] = []
        framework_hooks.torch_looks(self)

    def TCPStore(self, host_name: str, port: int, *, is_master: bool, timeout: timedelta) -> str:
        self.asked.append((is_master, listens(port), timeout))
        return f"the store of {host_name}"


def test_a_rank_asks_for_the_store_when_rank_0_listens(place: socket.socket) -> None:
    rendezvous, port = Rendezvous(), place.getsockname()[1]
    listening = threading.Timer(0.2, place.listen)
    listening.start()

    store = rendezvous.TCPStore(host_name="localhost", port=port, is_master=False, timeout=TIMEOUT)

    listening.join()
    [(is_master, open_before, timeout)] = rendezvous.asked
    assert (store, is_master, open_before) == ("the store of localhost", False, True)
    assert TIMEOUT / 2 < timeout < TIMEOUT


def test_nobody_waits_longer_than_it_was_told(place: socket.socket) -> None:
    rendezvous, port = Rendezvous(), place.getsockname()[1]

    rendezvous.TCPStore("127.0.0.1", port, is_master=False, timeout=timedelta(seconds=0.4))

    [(_, open_before, timeout)] = rendezvous.asked
    assert not open_before
    assert timeout <= timedelta(seconds=0.2)


@pytest.mark.parametrize(("host", "is_master"), [("127.0.0.1", True), ("node-7", False)])
def test_rank_0_and_ranks_of_other_machines_do_not_wait(
    place: socket.socket, host: str, is_master: bool
) -> None:
    rendezvous, port = Rendezvous(), place.getsockname()[1]

    rendezvous.TCPStore(host, port, is_master=is_master, timeout=TIMEOUT)

    assert rendezvous.asked == [(is_master, False, TIMEOUT)]
