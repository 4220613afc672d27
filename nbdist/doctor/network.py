"""Whether ranks can meet on this machine: loopback, the host's name, interfaces, proxies."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence

from nbdist.doctor.report import Entry, Level

_PROXIES = ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
_INTERFACES = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME", "TP_SOCKET_IFNAME")


def examine_loopback(connect: Callable[[], None] | None = None) -> Iterator[Entry]:
    try:
        (connect or _through_loopback)()
    except OSError as error:
        yield Entry(
            section="network",
            title="loopback",
            level=Level.ERROR,
            what=f"127.0.0.1 does not work: {error}",
            what_zh=f"127.0.0.1 不可用：{error}",
            fix="ranks meet there: let the container or firewall allow it ( ip link set lo up )",
            fix_zh="各进程在此会合：请在容器或防火墙里放行（ ip link set lo up ）",
        )
        return
    yield Entry(
        section="network",
        title="loopback",
        level=Level.OK,
        what="ranks can meet at 127.0.0.1",
        what_zh="各进程可以在 127.0.0.1 会合",
    )


def _through_loopback() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(2.0)
        with socket.create_connection(server.getsockname(), timeout=2.0):
            accepted, _ = server.accept()
            accepted.close()


def examine_host_name(
    name: str | None = None,
    resolve: Callable[[str], str] = socket.gethostbyname,
    bind: Callable[[str], None] | None = None,
) -> Iterator[Entry]:
    """gloo takes the address that the host's own name has, where it can bind it."""
    name = socket.gethostname() if name is None else name
    try:
        address = resolve(name)
    except OSError:
        yield _name_entry(Level.WARNING, f"the host's name {name} has no address", f"主机名 {name} 无法解析")
        return
    try:
        (bind or _bind)(address)
    except OSError:
        yield _name_entry(
            Level.WARNING,
            f"the host's name {name} is {address}, which is no address of this machine",
            f"主机名 {name} 解析为 {address}，不是本机地址",
        )
        return
    yield _name_entry(Level.OK, f"{name} is {address}", f"{name} 是 {address}")


def _name_entry(level: Level, what: str, what_zh: str) -> Entry:
    fine = level is Level.OK
    return Entry(
        section="network",
        title="host name",
        level=level,
        what=what,
        what_zh=what_zh,
        fix="" if fine else "if gloo cannot connect:  --env GLOO_SOCKET_IFNAME=lo  for ranks of one machine",
        fix_zh="" if fine else "gloo 连不上时，单机可用：--env GLOO_SOCKET_IFNAME=lo",
    )


def _bind(address: str) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind((address, 0))


def examine_settings(
    environ: Mapping[str, str] = os.environ, interfaces: Sequence[str] | None = None
) -> Iterator[Entry]:
    """Variables that send ranks to an interface, and clients to a proxy."""
    if interfaces is None:
        interfaces = [name for _, name in socket.if_nameindex()]
    for variable in _INTERFACES:
        if value := environ.get(variable):
            yield _interface(variable, value, interfaces)
    set_ones = [name for name in _PROXIES if environ.get(name)]
    if not set_ones:
        return
    exempt = environ.get("no_proxy") or environ.get("NO_PROXY") or ""
    fine = "*" in exempt or ("127.0.0.1" in exempt and "localhost" in exempt)
    yield Entry(
        section="network",
        title="proxy",
        level=Level.OK if fine else Level.WARNING,
        what=f"{', '.join(set_ones)} set" + ("" if fine else "; no_proxy leaves out this machine"),
        what_zh=f"设置了 {', '.join(set_ones)}" + ("" if fine else "；no_proxy 没有排除本机"),
        fix="" if fine else "%env no_proxy=localhost,127.0.0.1",
    )


def _interface(variable: str, value: str, interfaces: Sequence[str]) -> Entry:
    wanted = [name.strip() for name in value.lstrip("^=").split(",") if name.strip()]
    # both take the beginning of a name, and ^ for all others
    there = value.startswith("^") or any(name.startswith(part) for part in wanted for name in interfaces)
    listed = ", ".join(interfaces)
    return Entry(
        section="network",
        title=variable,
        level=Level.OK if there else Level.ERROR,
        what=value if there else f"{value}: this machine has {listed}",
        what_zh=value if there else f"{value}：本机有 {listed}",
        fix="" if there else f"unset {variable} , or set it to one of these",
        fix_zh="" if there else "去掉这个变量，或改为其中之一",
    )
