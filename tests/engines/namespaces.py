"""Slurm whose nodes have a network namespace, a host name and an address each.

It needs root. Where that is refused, ``networked`` raises NoSlurm.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.engines.cluster import Cluster, NoSlurm, program
from tests.engines.views import Views

_NETWORK = "10.213.78"
# what is mounted is seen by this machine alone; not `ip netns exec`, which takes slurmd's cgroups away
_ENTER = (
    'mount --bind "$1" /etc/hosts && mount -t tmpfs -o mode=755 nbdist "$2" && mount --bind "$3" "$4" && '
    'hostname "$0" && shift 4 && exec "$@"'
)

_UNSHARE = "unshare --uts --mount --"


def ip(words: str) -> None:
    subprocess.run([program("ip"), *words.split()], check=True, capture_output=True, text=True)


class NetworkedCluster(Cluster):
    """The first machine is the login node, too, and has the controller. ``believes``: seconds that a machine
    believes what it has seen of a directory that all share."""

    def __init__(self, folder: Path, *, nodes: int = 3, believes: float = 0) -> None:
        super().__init__(folder, nodes=nodes, cpus=4, gpus=0)
        self._mark = f"nbc{os.getpid() % 100_000}"
        self.views = Views(self.shared, folder / "views", self.names, believes=believes) if believes else None

    @property
    def shared(self) -> Path:
        """Return the directory that the machines share."""
        return self.folder / "shared"

    @property
    def own(self) -> Path:
        """Return the directory that each machine has for itself, by the same name."""
        return self.folder / "own"

    def address(self, name: str) -> str:
        return f"{_NETWORK}.{self.names.index(name) + 1}"

    def inside(self, name: str) -> tuple[str, ...]:
        """Return the words that run a command on this machine."""
        enter = (program("nsenter"), f"--net=/run/netns/{self._mark}{name}", *_UNSHARE.split())
        shared = self.views.of(name) if self.views is not None else self.shared
        mounts = (self.folder / "hosts", self.own, shared, self.shared)
        return (*enter, "sh", "-c", _ENTER, name, *map(str, mounts))

    def up(self) -> None:
        self.own.mkdir()
        self.shared.mkdir()
        if self.views is not None:
            self.views.up()
        (self.folder / "hosts").write_text(
            "127.0.0.1 localhost\n" + "".join(f"{self.address(name)} {name}\n" for name in self.names)
        )
        try:
            self._wire()
            subprocess.run([*self.inside(self.names[0]), "true"], check=True, capture_output=True, text=True)
        except subprocess.CalledProcessError as refused:
            raise NoSlurm(f"machines need network namespaces: {refused.stderr.strip()}") from None
        super().up()

    def down(self) -> None:
        super().down()
        for name in ["sw", *self.names]:
            subprocess.run(["ip", "netns", "del", f"{self._mark}{name}"], capture_output=True)
        if self.views is not None:
            self.views.down()

    def separate(self, first: str, second: str) -> None:
        """Cut the route between two machines; they still reach the others."""
        for source, target in ((first, second), (second, first)):
            ip(f"-n {self._mark}{source} route add unreachable {self.address(target)}")

    def join(self, first: str, second: str) -> None:
        for source, target in ((first, second), (second, first)):
            ip(f"-n {self._mark}{source} route del unreachable {self.address(target)}")

    def call(self, *words: str, limit: float = 20) -> str:
        done = subprocess.run(
            [*self.inside(self.names[0]), *words],
            env=os.environ | self.environment,
            capture_output=True,
            text=True,
            timeout=limit,
        )
        return done.stdout.strip()

    def _wire(self) -> None:
        switch = f"{self._mark}sw"
        ip(f"netns add {switch}")
        ip(f"-n {switch} link add br0 type bridge")
        ip(f"-n {switch} link set br0 up")
        for name in self.names:
            machine = f"{self._mark}{name}"
            ip(f"netns add {machine}")
            ip(f"-n {machine} link add eth0 type veth peer name v{name} netns {switch}")
            ip(f"-n {switch} link set v{name} master br0 up")
            ip(f"-n {machine} addr add {self.address(name)}/24 dev eth0")
            for device in ("lo", "eth0"):
                ip(f"-n {machine} link set {device} up")

    def _start(self, name: str, *words: str, key: str = "") -> None:
        where = {"slurmctld": self.names[0], "slurmd": key}.get(name)
        if where is None:  # munge has no network
            super()._start(name, *words, key=key)
            return
        before = self.inside(where)
        super()._start(before[0], *before[1:], program(name), *words, key=key or name)

    def _configure(self) -> None:
        super()._configure()
        lines = []
        for line in self.configuration.read_text().splitlines():
            field = line.partition("=")[0]
            name = line.partition("=")[2].partition(" ")[0]
            match field:
                case "SlurmctldHost":
                    line = f"SlurmctldHost={self.names[0]}({self.address(self.names[0])})"
                case "NodeName":
                    line = (
                        f"NodeName={name} NodeAddr={self.address(name)} CPUs=4 RealMemory=3000 State=UNKNOWN"
                    )
                case "GresTypes":
                    continue
            lines.append(line)
        self.configuration.write_text("\n".join(lines) + "\nSlurmdPort=6818\n")


@contextlib.contextmanager
def networked(nodes: int = 3, *, believes: float = 0) -> Iterator[NetworkedCluster]:
    """Run such a Slurm. Raises NoSlurm."""
    if sys.platform != "linux" or any(shutil.which(name) is None for name in ("ip", "nsenter", "unshare")):
        raise NoSlurm("machines need Linux and the commands ip, nsenter and unshare")
    with tempfile.TemporaryDirectory(prefix="nbslurm", ignore_cleanup_errors=True) as folder:
        cluster = NetworkedCluster(Path(folder), nodes=nodes, believes=believes)
        try:
            cluster.up()
            yield cluster
        finally:
            cluster.down()
