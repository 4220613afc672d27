"""The places of a run's ranks: devices of this machine, several machines, or an engine's nodes."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import ipaddress
import os
import secrets
import socket
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from nbdist import config
from nbdist.devices.gpus import list_gpus, other_cards
from nbdist.devices.usage import cpu_count
from nbdist.engines.options import ADDRESS, find_address
from nbdist.errors import UsageMistake
from nbdist.frameworks.environment import Placement, rank_environment
from nbdist.model import Device
from nbdist.options import Options
from nbdist.store.paths import make_private, write_private
from nbdist.text import say


def choose_devices(options: Options, environ: Mapping[str, str]) -> tuple[list[Device], list[str]]:
    """Return a device for each rank, and notes on the choice. Raises UsageMistake."""
    count, language = options.nproc, config.language()
    gpus = usable_gpus(environ) if count is None or options.any_device or options.gpus is not None else {}
    cards = "" if gpus else other_cards(environ)
    if options.gpus is None:
        # with --nproc_per_node as torchrun and paddle do: GPUs where there are enough
        count = count or len(gpus) or options.without_gpus or (cpu_count() if options.any_device else 2)
        if gpus and len(gpus) >= count:
            return list(gpus.values())[:count], []
        silent = options.nproc is not None or options.any_device
        note = "other-cards" if cards else "few-gpus" if gpus else "" if silent else "no-gpu"
        words = {"gpus": len(gpus), "count": count, "cards": cards}
        return [Device()] * count, [say(f"runs.{note}", language, **words)] if note else []
    wanted = list(gpus) if options.gpus == "all" else [int(index) for index in options.gpus]
    if not gpus:
        count, ids = count or len(wanted) or 2, ",".join(map(str, wanted)) or "all"
        refusal = "runs.other-cards" if cards else "runs.needs-gpu"
        text = say(refusal, language, cards=cards, ids=ids, instead=count)
        raise UsageMistake(text, add=f"-n {count}", instead_of="--gpus")
    if missing := [str(index) for index in wanted if index not in gpus]:
        fields = {"missing": ", ".join(missing), "known": ", ".join(map(str, gpus))}
        raise UsageMistake(say("runs.no-such-gpu", language, ids=",".join(map(str, gpus)), **fields))
    if options.nproc is not None and options.nproc != len(wanted):
        raise UsageMistake(f"-n {options.nproc} and {len(wanted)} GPUs disagree: leave out -n")
    return [gpus[index] for index in wanted], []


def usable_gpus(environ: Mapping[str, str]) -> dict[int, Device]:
    """Return this machine's usable GPUs by their ids in nvidia-smi."""
    gpus = list_gpus(environ.get("CUDA_VISIBLE_DEVICES"))
    return {gpu.index: Device(kind="gpu", index=gpu.index, name=gpu.name) for gpu in gpus}


DEFAULT_PORT = 29500
_RANK_FLAGS = ("--node-rank", "--node_rank", "--rank")
_LEAST_SECRET = 32  # characters of a key file: a full disk may have cut it off
TOKEN = "NBDIST_TOKEN"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSet:
    """The machines of a run, whose ranks meet at ``host`` and ``port``; ``addresses`` are the typed ones."""

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
) -> NodeSet:
    """Return the machines that ``options`` name. ``own`` returns this machine's addresses, ``resolve`` the
    address of a name. Raises UsageMistake where this machine cannot be one of them."""
    own, resolve = own or _own_addresses, resolve or _resolved
    count = options.nodes or len(options.ips) or 1
    if count == 1:
        return NodeSet()
    host, _, port = options.master.rpartition(":")
    addresses = tuple(resolve(name) for name in options.ips)
    address = resolve(host) if host else addresses[0]
    here = own()
    rank = options.node_rank
    if rank is None:
        rank = _place_among(addresses, here) if addresses else _place_by_master(count, address, here)
    if rank == 0 and address not in here:
        raise UsageMistake(
            f"--master {host or address} is no address of this machine ({_listed(here)}), so it is not node "
            "0: write  --node-rank 1  here, or its own address behind  --master"
        )
    if options.host and options.host not in here:
        raise UsageMistake(f"--host {options.host} is not here: write one of {_listed(here)}")
    return NodeSet(count=count, rank=rank, host=address, port=int(port or DEFAULT_PORT), addresses=addresses)


def link_keys(environ: Mapping[str, str], source: str, token: str = "") -> tuple[str, ...]:
    """Return the keys by which the machines of a run know each other: from the token in ``environ``, else
    from the home directory and the program, and on node 0 from the ``token`` it made. Raises UsageMistake."""
    if chosen := environ.get(TOKEN):
        return (_digest("token", chosen),)
    file = config.machines_key(environ)
    keys = [_digest("home", secret, source)] if (secret := _secret_of_home(file)) else []
    keys += [_digest("token", token)] if token else []
    if not keys:
        raise UsageMistake(
            f"{file} can be neither read nor made, and node 0 would not know this machine: "
            f"put the  {TOKEN}=…  that node 0 has printed before the command"
        )
    return tuple(keys)


def new_token() -> str:
    """Return a token for one run that a person can type."""
    letters = base64.b32encode(secrets.token_bytes(10)).decode()
    return "-".join(letters[at : at + 4] for at in range(0, len(letters), 4))


def words_of_node_1(words: Sequence[str]) -> list[str]:
    """Return node 0's command line with the number of node 1, if it has one."""
    changed: list[str] = []
    for before, word in zip(("", *words), words, strict=False):
        flag, _, value = word.partition("=")
        if flag in _RANK_FLAGS and value == "0":
            word = f"{flag}=1"
        elif before in _RANK_FLAGS and word == "0":
            word = "1"
        changed.append(word)
    return changed


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode(errors="surrogatepass")).hexdigest()


def _secret_of_home(path: Path) -> str:
    """Return the content of the key file, and make it where it is missing; empty where neither works."""
    with contextlib.suppress(OSError, UnicodeDecodeError):
        # a file system would cache a missing name for a while (0018): list the directory
        if path.name not in os.listdir(make_private(path.parent)):
            draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
            write_private(draft, secrets.token_hex(32))
            try:
                # another machine may make it at the same moment: the first link wins
                with contextlib.suppress(FileExistsError):
                    os.link(draft, path)
            finally:
                draft.unlink()
        secret = path.read_text(encoding="utf-8").strip()
        return secret if len(secret) >= _LEAST_SECRET else ""
    return ""


def _own_addresses() -> frozenset[str]:
    """Return the IPv4 addresses of this machine."""
    import psutil

    every = (address for addresses in psutil.net_if_addrs().values() for address in addresses)
    return frozenset(address.address for address in every if address.family == socket.AF_INET)


def _place_among(addresses: tuple[str, ...], here: Collection[str]) -> int:
    places = [place for place, address in enumerate(addresses) if address in here]
    if len(places) == 1:
        return places[0]
    which = "none is" if not places else "several are"
    raise UsageMistake(
        f"of --ips {','.join(addresses)} {which} of this machine, which has {_listed(here)}: "
        "write its number, as in  --node-rank 0"
    )


def _place_by_master(count: int, master: str, here: Collection[str]) -> int:
    if not ipaddress.ip_address(master).is_loopback:
        if master in here:
            return 0
        if count == 2:
            return 1
    raise UsageMistake(
        f"--nodes {count} needs the number of this machine: add  --node-rank 0  on the one with {master}, "
        f"--node-rank 1  to  {count - 1}  on the others"
    )


def _resolved(name: str) -> str:
    try:
        addresses = socket.getaddrinfo(name, None, socket.AF_INET, socket.SOCK_STREAM)
    except OSError as error:
        raise UsageMistake(f"no machine has the name {name} ({error.strerror}): write its address") from None
    return str(addresses[0][4][0])


def _listed(addresses: Collection[str]) -> str:
    beyond = sorted(address for address in addresses if not ipaddress.ip_address(address).is_loopback)
    return ", ".join(beyond) or "no address but its own loopback"


def engine_devices(options: Options) -> list[Device]:
    """Return a device for each rank of a node."""
    if options.gpus is None:
        return [Device()] * (options.nproc or 1)
    return [Device(kind="gpu", index=index) for index in range(int(options.gpus[0]))]


def unplaced_environment(place: Placement, backend: str) -> dict[str, str]:
    """Return ``rank_environment`` without the GPUs, which the engine sets on the node."""
    gpus = ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER")
    return {key: value for key, value in rank_environment(place, backend).items() if key not in gpus}


def engine_options(options: Options, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the engine's options as the run's spec keeps them. Raises UsageMistake."""
    if options.engine == "ray":
        return (f"{ADDRESS}{find_address(options.ray, environ)}",)
    return options.slurm
