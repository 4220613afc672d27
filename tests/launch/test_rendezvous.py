"""The port where the ranks of an attempt meet."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from nbdist.errors import LaunchError
from nbdist.launch.rank_process import Reservation, port_was_taken


@pytest.fixture
def reservation() -> Iterator[Reservation]:
    held = Reservation()
    yield held
    held.release()


def bind(port: int, *, reuse: bool, listen: bool = False) -> None:
    """Bind the port as another process would. Raises OSError when it is taken."""
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, int(reuse))
        other.bind(("127.0.0.1", port))
        if listen:
            other.listen()


def test_a_rank_can_bind_and_listen_on_the_port(reservation: Reservation) -> None:
    bind(reservation.rendezvous.port, reuse=True, listen=True)


def test_nobody_else_is_given_the_port(reservation: Reservation) -> None:
    with pytest.raises(OSError, match="in use"):
        bind(reservation.rendezvous.port, reuse=False)


def test_a_port_that_is_released_is_free_again() -> None:
    reservation = Reservation()
    reservation.release()

    bind(reservation.rendezvous.port, reuse=False)


def test_a_host_that_is_not_this_machine_is_refused() -> None:
    # TEST-NET-1 of RFC 5737: nobody's address
    with pytest.raises(LaunchError, match=r"no free port on 192\.0\.2\.1"):
        Reservation("192.0.2.1")


@pytest.mark.parametrize(
    ("log", "taken"),
    [
        pytest.param(
            "DistNetworkError: The server socket has failed to listen on any local network address. "
            "port: 23456, useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use",
            True,
            id="torch says so",
        ),
        pytest.param("bind 127.0.0.1:23456 failed: Address already in use", True, id="others say so"),
        pytest.param("OSError: [Errno 98] Address already in use, port 8080", False, id="of another port"),
        pytest.param("step 23456 loss 0.1", False, id="a number that happens to be the same"),
    ],
)
def test_a_stolen_port_is_recognised(log: str, taken: bool) -> None:
    assert port_was_taken(log, 23456) is taken
