"""Slurm of our own on this machine: one controller and several nodes, in one directory, with no privilege.

``python -m tests.engines.cluster COMMAND …`` runs a command with it, and takes it down again.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from nbdist import processes
from tests.engines.ports import free_ports

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scancel", "scontrol", "sinfo", "srun")
_PATH = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])
_UP = 150.0


class NoSlurm(Exception):
    """No Slurm here, for the reason in the message."""


def program(name: str) -> str:
    path = shutil.which(name, path=_PATH)
    if path is None:
        raise NoSlurm(f"no {name}: install slurm-wlm, slurm-client and munge")
    return path


class Cluster:
    """``nodes`` machines with ``cpus`` cores and ``gpus`` GPUs each, as Slurm believes."""

    def __init__(self, folder: Path, *, nodes: int = 2, cpus: int = 4, gpus: int = 2) -> None:
        self.folder = folder
        self.names = [f"n{number}" for number in range(1, nodes + 1)]
        self._cpus, self._gpus = cpus, gpus
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def configuration(self) -> Path:
        return self.folder / "slurm.conf"

    @property
    def environment(self) -> Mapping[str, str]:
        """Return the variables that lead Slurm's commands to this one."""
        return {"SLURM_CONF": str(self.configuration)}

    def up(self) -> None:
        """Start it, and wait until every node can be used. Raises NoSlurm."""
        for name in PROGRAMS:
            program(name)
        for name in ("state", "log", "run"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        self.folder.chmod(0o755)
        self._configure()
        self._start_munge()
        self._start("slurmctld", "-D", "-f", str(self.configuration))
        for name in self.names:
            self.start_node(name)
        self.wait_for_nodes()

    def down(self) -> None:
        """End it, and the jobs with it."""
        with contextlib.suppress(subprocess.SubprocessError, OSError, NoSlurm):
            if "slurmctld" in self._running:
                self.call("scancel", "--user", str(os.getuid()), limit=5)
                self._until(lambda: not self.call("squeue", "-h", limit=5), "jobs do not end", limit=10)
        for process in reversed(list(self._running.values())):
            process.terminate()
        for process in self._running.values():
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        # what ran in jobs whose controller has gone, and waits for it
        jobs = {process.pid for process in processes.marked("SLURM_CONF", str(self.configuration))}
        for pid in (*self._step_daemons(), *(jobs - {os.getpid()})):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _step_daemons(self) -> Iterator[int]:
        """Yield the daemons of steps that outlived their node's: they would wait forever."""
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if "slurmstepd" in (entry / "cmdline").read_text():
                    links = [os.readlink(link) for link in (entry / "fd").iterdir()]
                    if any(link.startswith(f"{self.folder}/") for link in links):
                        yield int(entry.name)

    def start_node(self, name: str) -> None:
        (self.folder / f"spool.{name}").mkdir(exist_ok=True)
        self._start("slurmd", "-D", "-f", str(self.configuration), "-N", name, key=name)

    def kill(self, key: str) -> None:
        """Kill a node, or ``slurmctld``."""
        process = self._running.pop(key)
        process.send_signal(signal.SIGKILL)
        process.wait()

    def wait_for_nodes(self) -> None:
        """Wait until every node is idle."""
        count = str(len(self.names))
        self._until(lambda: self.call("sinfo", "-h", "-t", "idle", "-o", "%D") == count, "no idle nodes")

    def call(self, *words: str, limit: float = 60) -> str:
        """Return the output of a Slurm command."""
        done = subprocess.run(
            [program(words[0]), *words[1:]],
            env=os.environ | self.environment,
            capture_output=True,
            text=True,
            timeout=limit,
        )
        return done.stdout.strip()

    def _start(self, name: str, *words: str, key: str = "") -> None:
        with open(self.folder / "log" / f"{key or name}.out", "ab") as log:
            self._running[key or name] = subprocess.Popen(
                [program(name), *words],
                env=os.environ | self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _start_munge(self) -> None:
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o600)
        run, log = self.folder / "run", self.folder / "log"
        self._start(
            *("munged", "--foreground", "--force", f"--key-file={key}", "--num-threads=2"),
            *(f"--socket={run}/munge.sock", f"--pid-file={run}/munged.pid"),
            *(f"--log-file={log}/munged.log", f"--seed-file={run}/munge.seed"),
        )
        self._until((run / "munge.sock").exists, "munged did not start")

    def _until(self, condition: Callable[[], object], failed: str, limit: float = _UP) -> None:
        deadline = time.monotonic() + limit
        while not condition():
            if time.monotonic() > deadline or any(p.poll() is not None for p in self._running.values()):
                raise NoSlurm(f"{failed}: see {self.folder / 'log'}")
            time.sleep(0.1)

    def _configure(self) -> None:
        folder, user = self.folder, pwd.getpwuid(os.getuid()).pw_name
        host = socket.gethostname().partition(".")[0]
        ports = free_ports(1 + len(self.names))
        nodes = "\n".join(
            f"NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs={self._cpus} "
            f"RealMemory=3000 Gres=gpu:{self._gpus} State=UNKNOWN"
            for name, port in zip(self.names, ports[1:], strict=True)
        )
        devices = []
        for number in range(self._gpus):
            device = folder / "run" / f"gpu{number}"
            if not device.exists():
                device.symlink_to("/dev/null")
            devices += [f"NodeName={name} Name=gpu File={device}" for name in self.names]
        (folder / "gres.conf").write_text("\n".join(devices) + "\n")
        (folder / "cgroup.conf").write_text("CgroupAutomount=no\n")
        self.configuration.write_text(
            f"""ClusterName=nbdist
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/run/munge.sock
CredType=cred/munge
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=1,batch_sched_delay=0,bf_interval=1
GresTypes=gpu
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/run/slurmctld.pid
SlurmdPidFile={folder}/run/slurmd.%n.pid
SlurmctldLogFile={folder}/log/slurmctld.log
SlurmdLogFile={folder}/log/slurmd.%n.log
ReturnToService=2
SlurmctldTimeout=30
SlurmdTimeout=30
KillWait=5
MinJobAge=300
JobAcctGatherType=jobacct_gather/none
JobCompType=jobcomp/none
AccountingStorageType=accounting_storage/none
PropagateResourceLimits=NONE
SlurmdParameters=config_overrides
{nodes}
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=NO
PartitionName=closed Nodes=ALL MaxTime=INFINITE State=DOWN OverSubscribe=NO
"""
        )


@contextlib.contextmanager
def slurm() -> Iterator[Cluster]:
    """Run a Slurm. Raises NoSlurm."""
    # sockets have short names: not below a test's own long path
    with tempfile.TemporaryDirectory(prefix="nbslurm", ignore_cleanup_errors=True) as folder:
        cluster = Cluster(Path(folder))
        try:
            cluster.up()
            yield cluster
        finally:
            cluster.down()


def main() -> int:
    try:
        with slurm() as cluster:
            return subprocess.run(sys.argv[1:], env=os.environ | cluster.environment).returncode
    except NoSlurm as why:
        print(f"*** {why}: NOT shown ***", file=sys.stderr)
        return 0


if __name__ == "__main__":
    sys.exit(main())
