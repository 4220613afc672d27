"""Slurm job, which on its first node chooses where the nodes meet, and starts a supervisor on each.

``python -I -S slurm_batch.py RUN_DIR``, within the job. With ``--step`` it stands beside the job, where the
run was started, and the supervisors are a step of the job.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import socket
import subprocess
import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from nbdist import config
from nbdist.model import RunEnded, RunLost, RunSpec, RunState
from nbdist.store.journal import read_events
from nbdist.store.paths import NodeDirectory, RunDirectory
from nbdist.store.run_store import Heartbeat, read_spec

NODE = Path(__file__).parent / "node.py"


def main(arguments: list[str]) -> int:
    directory = RunDirectory(Path(arguments[0]))
    match arguments[1:]:
        case ["--meet", other]:
            print(_meeting(other))
            return 0
        case ["--step"]:
            return _start(directory, is_step=True)
        case _:
            return _start(directory, is_step=False)


def _start(directory: RunDirectory, *, is_step: bool) -> int:
    """Start the supervisors, and wait; return the exit code for Slurm."""
    spec = read_spec(directory)
    job, life = os.environ["SLURM_JOB_ID"], int(os.environ.get("SLURM_RESTART_COUNT") or 0)
    hosts = hosts_of(os.environ["SLURM_JOB_NODELIST"])[: spec.nodes]
    master = ""
    if spec.nodes > 1:
        master = _meeting_there(directory, hosts) if is_step else _meeting(hosts[1])
    print(f"nbdist: job {job} on {', '.join(hosts)}, life {life}, meeting at {master or 'home'}", flush=True)
    if any(isinstance(event, (RunEnded, RunLost)) for event in read_events(directory.journal)):
        print("nbdist: the run was given up while this job waited", flush=True)
        return 0
    words = _srun(directory, spec, hosts if is_step else [])
    words += [sys.executable, "-I", "-S", str(NODE), str(directory.path)]
    words += [str(life), str(attempts_before(directory)), *filter(None, [master])]
    # a secret of the supervisors: srun passes it on, and no file has it
    srun = subprocess.Popen(words, env=os.environ | {config.LINK_KEY: secrets.token_hex(32)})
    code = _wait(srun, directory, spec, "" if is_step else job)
    end = end_of_life(directory, life, nodes=1)
    return code or int(end is None or end.state is not RunState.FINISHED)


def _srun(directory: RunDirectory, spec: RunSpec, step_hosts: list[str]) -> list[str]:
    """Return the command of the job, or of a step on ``step_hosts`` beside others. Without a number of CPUs a
    step has all of the job's."""
    words = ["srun", "--kill-on-bad-exit=1", "--wait=60", "--export=ALL", "--mpi=none"]
    words += [f"--nodes={spec.nodes}", f"--ntasks={spec.nodes}", "--ntasks-per-node=1"]
    if cpus := os.environ.get("SLURM_CPUS_PER_TASK"):
        words.append(f"--cpus-per-task={cpus}")  # since 22.05 a step does not inherit it
    if step_hosts:
        words += ["--overlap", f"--job-name={directory.run_id}", f"--nodelist={','.join(step_hosts)}"]
    if step_hosts and any(rank.device.kind == "gpu" for rank in spec.ranks):
        words.append(f"--gpus-per-node={len(spec.ranks) // spec.nodes}")
    return words


def _meeting(other: str) -> str:
    """Return the address by which ``other`` reaches this node, with a free port."""
    try:
        address = own_address(address_of(other))
    except OSError as error:
        raise SystemExit(f"nbdist: {os.uname().nodename} does not reach {other}: {error.strerror}") from None
    return f"{address}:{free_ports(address, int(os.environ['SLURM_JOB_ID']))}"


def _meeting_there(directory: RunDirectory, hosts: list[str]) -> str:
    """Return the same for the first of ``hosts``, from a step of its own."""
    words = ["srun", "--overlap", "--mpi=none", "--nodes=1", "--ntasks=1", f"--nodelist={hosts[0]}"]
    words += [sys.executable, "-I", "-S", __file__, str(directory.path), "--meet", hosts[1]]
    done = subprocess.run(words, check=False, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise SystemExit(done.returncode)
    return done.stdout.strip()


STEP_BEGINS = "nbdist: node 0 of step "
_STEP = re.compile(rf"^{STEP_BEGINS}(\S+)$", re.MULTILINE)


def find_step(directory: RunDirectory) -> str:
    """Return the name of the step of the nodes (``node``); empty before it begins."""
    try:
        match = _STEP.search(directory.job_log.read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return ""
    return match[1] if match else ""


def attempts_before(directory: RunDirectory) -> int:
    """Return the number of attempts in earlier lives of the job: no log is written twice."""
    # a list, no look-ups: NFS remembers for a while that a name was missing
    ranks = directory.path / "ranks"
    names = {name for rank in os.listdir(ranks) for name in os.listdir(ranks / rank)}
    later = (int(name.partition("-")[2]) for name in names if name.startswith("attempt-"))
    return max(later, default=int("log" in names))


def _wait(srun: subprocess.Popen[bytes], directory: RunDirectory, spec: RunSpec, job: str) -> int:
    """Wait for the supervisors, and cancel a run whose owner has gone: ``job``, or if empty the step."""
    pulse = Heartbeat(directory.pulse)
    while True:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return srun.wait(10)
        if not spec.detached and pulse.has_stopped():
            print("nbdist: the process that waited for this run has gone, and the run ends", flush=True)
            subprocess.run(["scancel", "--signal=URG", job or find_step(directory)], check=False)
            pulse = Heartbeat(directory.pulse)


def end_of_life(directory: RunDirectory, life: int, nodes: int) -> RunEnded | None:
    """Return the end of the run in this life of its job, by the first node that recorded one."""
    journals = (NodeDirectory(directory.path, f"{life}-{node}").journal for node in range(nodes))
    events = (event for journal in journals for event in read_events(journal))
    return next((event for event in events if isinstance(event, RunEnded)), None)


_FIRST_PORT, _PORTS = 20_000, 10_000


def hosts_of(nodelist: str) -> list[str]:
    """Return the names of a list like ``n[1-2]``."""
    return _output("scontrol", "show", "hostnames", nodelist).split()


def address_of(node: str) -> str:
    """Return a node's address: Slurm may know one that its name does not resolve to. Raises OSError."""
    for word in _output("scontrol", "-o", "show", "node", node).split():
        if word.startswith("NodeAddr="):
            node = word.partition("=")[2]
    return str(socket.getaddrinfo(node, None, socket.AF_INET, socket.SOCK_STREAM)[0][4][0])


def own_address(other: str) -> str:
    """Return this node's address on the route to ``other``: its name may resolve to loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as route:
        # this sends nothing
        route.connect((other, 9))
        return str(route.getsockname()[0])


def free_ports(address: str, job: int) -> int:
    """Return the first of two free ports in a row, for ranks and supervisors."""
    for attempt in range(200):
        port = _FIRST_PORT + (2 * job + 2 * attempt) % _PORTS
        if all(_is_free(address, each) for each in (port, port + 1)):
            return port
    raise SystemExit(f"nbdist: no two free ports in a row on {address} from {_FIRST_PORT} on")


def _is_free(address: str, port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        try:
            probe.bind((address, port))
        except OSError:
            return False
    return True


def _output(*words: str) -> str:
    """Return a command's output; empty where Slurm knows no such thing."""
    return subprocess.run(words, check=False, capture_output=True, text=True).stdout


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
