"""What of the machine a run uses: which host it is, memory, disk, limits, loopback, names."""

from __future__ import annotations

import os
import platform
import resource
import shutil
import socket
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from nbdist import config, control_groups
from nbdist.devices.usage import memory_total
from nbdist.doctor.report import Entry, Level


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """A kind of place that notebooks run in, how it is known, and what works there."""

    name: str
    variables: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    works: str
    works_zh: str

    def is_here(self, environ: Mapping[str, str], root: Path) -> bool:
        return any(name in environ for name in self.variables) or any(
            (root / path).exists() for path in self.paths
        )


HOSTS = (
    Host(
        name="AI Studio",
        paths=("home/aistudio",),
        works="runs, panel, Stop by the kernel's interrupt; curves through …/api_serving/PORT/ : set "
        "NBDIST_PROXY_URL where the link does not open",
        works_zh="运行、面板、用中断内核停止；曲线经 …/api_serving/端口/ 打开，打不开时设置 NBDIST_PROXY_URL",
    ),
    Host(
        name="Colab",
        variables=("COLAB_RELEASE_TAG", "COLAB_GPU"),
        works="runs and panel; Stop by the platform's own interrupt; no server extension, so no dashboard",
        works_zh="运行和面板；用平台自己的中断来停止；没有服务器扩展，因此没有总览页",
    ),
    Host(
        name="Kaggle",
        variables=("KAGGLE_KERNEL_RUN_TYPE", "KAGGLE_URL_BASE"),
        works="runs; the panel where the editor draws widgets, else text (--no-panel); no dashboard",
        works_zh="运行；编辑器支持组件时有面板，否则为文本（--no-panel）；没有总览页",
    ),
    Host(
        name="JupyterHub",
        variables=("JUPYTERHUB_SERVICE_PREFIX", "JUPYTERHUB_USER"),
        works="everything; links carry the hub's prefix",
        works_zh="全部功能；链接带有 hub 的前缀",
    ),
    Host(
        name="VS Code",
        variables=("VSCODE_PID", "VSCODE_CWD", "VSCODE_IPC_HOOK_CLI"),
        works="runs and panel; after a reload the summary, and %dist_attach for the panel; no dashboard",
        works_zh="运行和面板；重新加载后显示静态摘要，用 %dist_attach 重新显示面板；没有总览页",
    ),
    Host(
        name="Slurm job",
        variables=("SLURM_JOB_ID",),
        works="runs on what the job was given; they end with the job",
        works_zh="在作业分到的资源上运行；作业结束时一并结束",
    ),
    Host(
        name="container",
        variables=("KUBERNETES_SERVICE_HOST",),
        paths=(".dockerenv", "run/.containerenv"),
        works="everything; mind /dev/shm and the memory limit below",
        works_zh="全部功能；注意下面的 /dev/shm 和内存限制",
    ),
)


def examine_host(environ: Mapping[str, str] = os.environ, root: Path = Path("/")) -> Iterator[Entry]:
    yield _system(root)
    for host in HOSTS:
        if host.is_here(environ, root):
            yield Entry(
                section="host", title=host.name, level=Level.INFO, what=host.works, what_zh=host.works_zh
            )


def _system(root: Path) -> Entry:
    name = f"{platform.system()} {platform.release()} {platform.machine()}"
    if sys.platform == "darwin":
        return Entry(
            section="host",
            title="system",
            level=Level.WARNING,
            what=f"{name}: CPU ranks; its kernel has neither parent-death signals nor subreapers",
            fix="after a crash of the kernel look for what is left with  %dist_status",
            what_zh=f"{name}：CPU 进程；系统没有父进程死亡信号和 subreaper",
            fix_zh="内核崩溃后用  %dist_status  查看是否有残留",
        )
    try:
        wsl = "microsoft" in (root / "proc/version").read_text().lower()
    except OSError:
        wsl = False
    return Entry(section="host", title="system", level=Level.OK, what=f"{name} (WSL)" if wsl else name)


_MB, _GB = 1 << 20, 1 << 30
_ENOUGH_SHARED = _GB
_TIGHT_SHARED = 128 * _MB
_ENOUGH_DISK = 2 * _GB
_ENOUGH_FILES = 1024
_NETWORK = frozenset({"nfs", "nfs4", "cifs", "smb3", "lustre", "gpfs", "beegfs", "ceph", "9p", "fuse.sshfs"})


def examine_machine(
    *,
    shared: Path = Path("/dev/shm"),
    home: Path | None = None,
    size_of: Callable[[Path], tuple[int, int]] | None = None,
    file_limit: int | None = None,
    no_group: str | None = None,
) -> Iterator[Entry]:
    """``size_of`` tells the size and the free space of a file system in bytes, ``no_group`` why no control
    group can be made (empty: one can)."""
    size_of = size_of or _size_of
    yield _cpus_and_memory()
    if shared.is_dir():
        yield _shared_memory(*size_of(shared))
    yield from _disk(config.home() if home is None else home, size_of)
    yield _files(resource.getrlimit(resource.RLIMIT_NOFILE)[0] if file_limit is None else file_limit)
    if sys.platform == "linux":
        yield _control_group(control_groups.problem() if no_group is None else no_group)


def _size_of(path: Path) -> tuple[int, int]:
    usage = shutil.disk_usage(path)
    return usage.total, usage.free


def _cpus_and_memory() -> Entry:
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    total = memory_total()
    memory = f"{total / _GB:.1f} GB" if total else "?"
    return Entry(
        section="machine",
        title="CPU, memory",
        level=Level.OK if count > 1 else Level.WARNING,
        what=f"{count} CPU{'s' if count > 1 else ''} and {memory} of memory for this process",
        what_zh=f"本进程可用 {count} 个 CPU、{memory} 内存",
        fix="" if count > 1 else "several ranks share one CPU: expect them to be slow",
        fix_zh="" if count > 1 else "多个进程共用一个 CPU，会比较慢",
    )


def _shared_memory(size: int, free: int) -> Entry:
    level = Level.OK
    if min(size, free) < _ENOUGH_SHARED:
        level = Level.ERROR if free < _TIGHT_SHARED else Level.WARNING
    fine = level is Level.OK
    return Entry(
        section="machine",
        title="/dev/shm",
        level=level,
        what=f"{free // _MB} of {size // _MB} MB free",
        what_zh=f"{size // _MB} MB 中空闲 {free // _MB} MB",
        fix="" if fine else "start the container with  --shm-size=8g ; until then  num_workers=0",
        fix_zh="" if fine else "启动容器时加  --shm-size=8g；在此之前用  num_workers=0",
    )


def _disk(home: Path, size_of: Callable[[Path], tuple[int, int]]) -> Iterator[Entry]:
    place = home
    while not place.exists() and place != place.parent:
        place = place.parent
    _, free = size_of(place)
    writable = os.access(place, os.W_OK | os.X_OK)
    level = Level.OK if free >= _ENOUGH_DISK else Level.WARNING
    if free < config.MIN_FREE_DISK or not writable:
        level = Level.ERROR
    kind = config.filesystem_of(home)
    fine = level is Level.OK
    yield Entry(
        section="machine",
        title="runs",
        level=level,
        what=f"{home} ({kind or '?'}): {free / _GB:.1f} GB free" + ("" if writable else ", not writable"),
        what_zh=f"{home}（{kind or '?'}）：空闲 {free / _GB:.1f} GB" + ("" if writable else "，不可写"),
        fix="" if fine else "free some space, or choose another disk with  %env NBDIST_HOME=/another/disk",
        fix_zh="" if fine else "清理空间，或用  %env NBDIST_HOME=/另一块盘  换一处",
    )
    if kind in _NETWORK:
        yield Entry(
            section="machine",
            title="runs",
            level=Level.WARNING,
            what=f"{home} lies on a network file system: logs and locks lag behind",
            what_zh=f"{home} 在网络文件系统上：日志和锁会滞后",
            fix=f"choose a local disk with  %env NBDIST_HOME={config.local_home()}",
            fix_zh=f"用  %env NBDIST_HOME={config.local_home()}  换到本地盘",
        )


def _files(limit: int) -> Entry:
    unlimited = limit == resource.RLIM_INFINITY
    fine = unlimited or limit >= _ENOUGH_FILES
    return Entry(
        section="machine",
        title="open files",
        level=Level.OK if fine else Level.WARNING,
        what="no limit" if unlimited else f"at most {limit} a process",
        what_zh="没有限制" if unlimited else f"每个进程最多 {limit} 个",
        fix="" if fine else "ulimit -n 65536  before the server starts (DataLoader workers need many)",
        fix_zh="" if fine else "启动服务前执行  ulimit -n 65536（DataLoader 工作进程需要很多）",
    )


def _control_group(problem: str) -> Entry:
    if not problem:
        return Entry(
            section="machine",
            title="control groups",
            level=Level.OK,
            what="the ranks of a run are in a control group of their own, and what they start ends with it",
            what_zh="一次运行的各个进程在自己的控制组中，它们启动的进程随之结束",
        )
    return Entry(
        section="machine",
        title="control groups",
        level=Level.INFO,
        what=f"a run has no control group ({problem}): what its ranks start is found by its parents and its "
        "environment",
        what_zh=f"运行没有控制组（{problem}）：各个进程启动的进程靠父进程和环境变量来找到",
        fix="systemd-run --user --scope -p Delegate=yes jupyter lab  starts a server that may make them; a "
        "container needs a cgroup namespace that it may write",
        fix_zh="用  systemd-run --user --scope -p Delegate=yes jupyter lab  启动服务；"
        "容器则需要可写的 cgroup 命名空间",
    )


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
