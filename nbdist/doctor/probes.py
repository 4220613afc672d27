"""Probes of host, memory, disk, limits, network, and GPUs with their processes and peer access."""

from __future__ import annotations

import itertools
import os
import platform
import resource
import shutil
import socket
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from nbdist import config, control_groups
from nbdist.devices.gpus import describe_holder, driver, list_gpus, open_loads, other_cards
from nbdist.devices.usage import GpuLoad, cpu_count, memory_total
from nbdist.doctor.examination_report import Entry, Level, checks, find


def examine_host(environ: Mapping[str, str] = os.environ, root: Path = Path("/")) -> Iterator[Entry]:
    name = f"{platform.system()} {platform.release()} {platform.machine()}"
    if sys.platform == "darwin":
        yield find("host.system-mac", name=name)
    else:
        yield find("host.system", name=f"{name} (WSL)" if "microsoft" in name.lower() else name)
    for code, host in checks()["host"].items():
        if any(variable in environ for variable in host.get("variables", ())) or any(
            (root / path).exists() for path in host.get("paths", ())
        ):
            yield find(f"host.{code}")


_MB, _GB = 1 << 20, 1 << 30
_ENOUGH_SHARED, _TIGHT_SHARED = _GB, 128 * _MB
_ENOUGH_DISK, _ENOUGH_FILES = 2 * _GB, 1024
_NETWORK = frozenset({"nfs", "nfs4", "cifs", "smb3", "lustre", "gpfs", "beegfs", "ceph", "9p", "fuse.sshfs"})


def _size_of(path: Path) -> tuple[int, int]:
    usage = shutil.disk_usage(path)
    return usage.total, usage.free


def examine_machine(
    *,
    shared: Path = Path("/dev/shm"),
    home: Path | None = None,
    size_of: Callable[[Path], tuple[int, int]] = _size_of,
    file_limit: int | None = None,
    no_group: str | None = None,
) -> Iterator[Entry]:
    """Examine the machine. ``size_of`` returns size and free bytes of a file system, ``no_group`` is why no
    control group can be made (empty: one can)."""
    count, total = cpu_count(), memory_total()
    memory = f"{total / _GB:.1f} GB" if total else "?"
    yield find("machine.cpus", Level.OK if count > 1 else None, count=count, memory=memory)
    if shared.is_dir():
        size, free = size_of(shared)
        level = Level.OK if min(size, free) >= _ENOUGH_SHARED else None
        if free < _TIGHT_SHARED:
            level = Level.ERROR
        yield find("machine.shared-memory", level, free=free // _MB, size=size // _MB)
    yield from _disk(config.home() if home is None else home, size_of)
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0] if file_limit is None else file_limit
    if limit == resource.RLIM_INFINITY:
        yield find("machine.files-unlimited")
    else:
        yield find("machine.files", Level.OK if limit >= _ENOUGH_FILES else None, limit=limit)
    if sys.platform == "linux":
        problem = control_groups.problem() if no_group is None else no_group
        yield find("machine.no-group", problem=problem) if problem else find("machine.group")


def _disk(home: Path, size_of: Callable[[Path], tuple[int, int]]) -> Iterator[Entry]:
    place = home
    while not place.exists() and place != place.parent:
        place = place.parent
    free = size_of(place)[1]
    kind = config.filesystem_of(home)
    facts = {"home": home, "kind": kind or "?", "free": free / _GB}
    if not os.access(place, os.W_OK | os.X_OK):
        yield find("machine.runs-unwritable", **facts)
    elif free < config.MIN_FREE_DISK:
        yield find("machine.runs", Level.ERROR, **facts)
    else:
        yield find("machine.runs", Level.OK if free >= _ENOUGH_DISK else None, **facts)
    if kind in _NETWORK:
        yield find("machine.runs-on-network", home=home, local=config.local_home())


_PROXIES = ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
_INTERFACES = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME", "TP_SOCKET_IFNAME")


def _connect() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(2.0)
        with socket.create_connection(server.getsockname(), timeout=2.0):
            accepted, _ = server.accept()
            accepted.close()


def examine_loopback(connect: Callable[[], None] = _connect) -> Iterator[Entry]:
    try:
        connect()
    except OSError as error:
        yield find("network.no-loopback", error=error)
    else:
        yield find("network.loopback")


def _bind(address: str) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind((address, 0))


def examine_host_name(
    name: str | None = None,
    resolve: Callable[[str], str] = socket.gethostbyname,
    bind: Callable[[str], None] = _bind,
) -> Iterator[Entry]:
    """Examine the address of the host's name, which gloo binds if it can."""
    name = socket.gethostname() if name is None else name
    try:
        address = resolve(name)
    except OSError:
        yield find("network.name-without-address", name=name)
        return
    try:
        bind(address)
    except OSError:
        yield find("network.name-elsewhere", name=name, address=address)
    else:
        yield find("network.name", name=name, address=address)


def examine_settings(
    environ: Mapping[str, str] = os.environ, interfaces: Sequence[str] | None = None
) -> Iterator[Entry]:
    """Examine the variables that name interfaces for ranks and proxies for clients."""
    if interfaces is None:
        interfaces = [name for _, name in socket.if_nameindex()]
    for variable in _INTERFACES:
        if value := environ.get(variable):
            wanted = [name.strip() for name in value.lstrip("^=").split(",") if name.strip()]
            # both libraries match beginnings of names; ^ excludes them
            exists = value.startswith("^") or any(name.startswith(tuple(wanted)) for name in interfaces)
            code = "network.interface" if exists else "network.no-interface"
            yield find(code, variable=variable, value=value, interfaces=tuple(interfaces))
    if proxies := tuple(name for name in _PROXIES if environ.get(name)):
        exempt = environ.get("no_proxy") or environ.get("NO_PROXY") or ""
        fine = "*" in exempt or ("127.0.0.1" in exempt and "localhost" in exempt)
        yield find("network.proxy" if fine else "network.proxy-for-loopback", variables=proxies)


_FULL = 0.9
_GB_OF_GPUS = 1e9


def examine_gpus(environ: Mapping[str, str] = os.environ, *, bindings: Any = None) -> Iterator[Entry]:
    installed = driver(bindings=bindings)
    if installed is None:
        yield find("gpus.no-driver", cards=other_cards(environ))
        return
    yield find("gpus.driver", version=installed.version, cuda=installed.cuda)
    every = list_gpus(bindings=bindings)
    visible = environ.get("CUDA_VISIBLE_DEVICES")
    usable = sorted({gpu.index for gpu in list_gpus(visible, bindings=bindings)})
    if visible is not None and len(usable) < len(every):
        level = None if usable else Level.ERROR
        yield find("gpus.hidden", level, visible=visible, usable=len(usable), count=len(every))
    with open_loads([gpu.index for gpu in every], bindings=bindings) as look:
        for gpu, load in zip(every, look(), strict=True):
            yield _gpu(gpu.index, gpu.name, load)
    if len(usable) > 1:
        yield from _peers(usable, bindings)


def _gpu(index: int, name: str, load: GpuLoad) -> Entry:
    if load.memory is None or not load.memory_total:
        return find("gpus.lost", index=index, name=name)
    holders = [describe_holder(pid) for pid, _ in load.processes[:4]] if load.ours else []
    return find(
        "gpus.memory",
        None if load.memory / load.memory_total >= _FULL else Level.OK,
        index=index,
        name=name,
        free=(load.memory_total - load.memory) / _GB_OF_GPUS,
        total=load.memory_total / _GB_OF_GPUS,
        holders=", ".join(holders),
    )


def _peers(indices: list[int], bindings: Any) -> Iterator[Entry]:
    """Examine whether each pair of GPUs reads the other's memory directly."""
    if bindings is None:
        import pynvml

        bindings = pynvml
    apart, unknown = [], 0
    bindings.nvmlInit()
    try:
        handles = {index: bindings.nvmlDeviceGetHandleByIndex(index) for index in indices}
        for first, second in itertools.combinations(indices, 2):
            try:
                status = bindings.nvmlDeviceGetP2PStatus(
                    handles[first], handles[second], bindings.NVML_P2P_CAPS_INDEX_READ
                )
            except bindings.NVMLError:
                unknown += 1
                continue
            if status != bindings.NVML_P2P_STATUS_OK:
                apart.append(f"{first}-{second}")
    finally:
        bindings.nvmlShutdown()
    if apart:
        yield find("gpus.apart", pairs=tuple(apart[:6]))
    elif not unknown:
        yield find("gpus.peers")
