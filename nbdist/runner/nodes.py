"""Which of several machines this is, and where they meet: from the options, and this machine's addresses."""

from __future__ import annotations

import hashlib
import ipaddress
import socket
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from nbdist.errors import UsageMistake
from nbdist.options import Options

DEFAULT_PORT = 29500
TOKEN = "NBDIST_TOKEN"
LINK_KEY = "NBDIST_LINK_KEY"


@dataclass(frozen=True, slots=True, kw_only=True)
class Nodes:
    """The machines of a run. ``host`` and ``port`` are where their ranks meet, an address of node 0;
    ``addresses`` are all of theirs where they were given."""

    count: int = 1
    rank: int = 0
    host: str = ""
    port: int = 0
    addresses: tuple[str, ...] = ()

    @property
    def master(self) -> str:
        return f"{self.host}:{self.port}" if self.host else ""


def find_nodes(
    options: Options,
    *,
    own: Callable[[], Collection[str]] | None = None,
    resolve: Callable[[str], str] | None = None,
) -> Nodes:
    """The machines that ``options`` ask for. Raises UsageMistake where this cannot be one of them.

    ``own`` are this machine's addresses; ``resolve`` makes an address of a name.
    """
    own, resolve = own or own_addresses, resolve or _resolved
    count = options.nodes or len(options.ips) or 1
    if count == 1:
        return Nodes()
    host, _, port = options.master.rpartition(":")
    addresses = tuple(resolve(name) for name in options.ips)
    address = resolve(host) if host else addresses[0]
    here = own()
    rank = options.node_rank
    if rank is None:
        rank = _place_among(addresses, here) if addresses else _place_by_master(count, address, here)
    if rank == 0 and address not in here:
        raise UsageMistake(
            f"--master {host or address}: that is no address of this machine ({_listed(here)}), so it is not "
            "node 0: write  --node-rank 1  here, or its own address behind  --master"
        )
    if options.host and options.host not in here:
        raise UsageMistake(f"--host {options.host}: this machine has {_listed(here)}: write one of them")
    return Nodes(count=count, rank=rank, host=address, port=int(port or DEFAULT_PORT), addresses=addresses)


def link_key(environ: Mapping[str, str], source: str) -> str:
    """What the machines of a run prove to each other: a token where there is one, else that they have the
    same program."""
    token = environ.get(TOKEN, "")
    text = f"token\0{token}" if token else f"program\0{source}"
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


def own_addresses() -> frozenset[str]:
    """The IPv4 addresses of this machine."""
    import psutil

    every = (address for addresses in psutil.net_if_addrs().values() for address in addresses)
    return frozenset(address.address for address in every if address.family == socket.AF_INET)


def _place_among(addresses: tuple[str, ...], here: Collection[str]) -> int:
    places = [place for place, address in enumerate(addresses) if address in here]
    if len(places) == 1:
        return places[0]
    which = "none is" if not places else "several are"
    raise UsageMistake(
        f"--ips {','.join(addresses)}: {which} of this machine, which has {_listed(here)}: "
        "say which one it is:  --node-rank 0"
    )


def _place_by_master(count: int, master: str, here: Collection[str]) -> int:
    if not ipaddress.ip_address(master).is_loopback:
        if master in here:
            return 0
        if count == 2:
            return 1
    raise UsageMistake(
        f"--nodes {count}: which of them is this machine? add  --node-rank 0  on the one that has {master}, "
        f"--node-rank 1  to  {count - 1}  on the others"
    )


def _resolved(name: str) -> str:
    try:
        found = socket.getaddrinfo(name, None, socket.AF_INET, socket.SOCK_STREAM)
    except OSError as error:
        raise UsageMistake(f"{name}: no machine by this name ({error.strerror}): write its address") from None
    return str(found[0][4][0])


def _listed(addresses: Collection[str]) -> str:
    beyond = sorted(address for address in addresses if not ipaddress.ip_address(address).is_loopback)
    return ", ".join(beyond) or "no address but its own loopback"
