"""What a job is: on its first node, finds where the nodes meet, and starts a supervisor on each.

``python -I -S slurm_batch.py RUN_DIR``, within the job.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import subprocess
import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from nbdist.engines.slurm_places import address_of, free_ports, hosts_of, own_address
from nbdist.model import RunEnded, RunLost, RunSpec, RunState
from nbdist.store.journal import read_events
from nbdist.store.paths import NodeDirectory, RunDirectory
from nbdist.store.run_store import Heartbeat, read_spec

NODE = Path(__file__).parent / "node.py"
LINK_KEY = "NBDIST_LINK_KEY"


def main(arguments: list[str]) -> int:
    directory = RunDirectory(Path(arguments[0]))
    spec = read_spec(directory)
    job, life = os.environ["SLURM_JOB_ID"], int(os.environ.get("SLURM_RESTART_COUNT") or 0)
    hosts = hosts_of(os.environ["SLURM_JOB_NODELIST"])
    master = ""
    if spec.nodes > 1:
        address = own_address(address_of(hosts[1]))
        master = f"{address}:{free_ports(address, int(job))}"
    print(f"nbdist: job {job} on {', '.join(hosts)}, life {life}, meeting at {master or 'home'}", flush=True)
    if any(isinstance(event, (RunEnded, RunLost)) for event in read_events(directory.journal)):
        print("nbdist: the run was given up while this job waited", flush=True)
        return 0
    words = ["srun", "--kill-on-bad-exit=1", "--wait=60", "--export=ALL", "--mpi=none"]
    words += [f"--nodes={spec.nodes}", f"--ntasks={spec.nodes}", "--ntasks-per-node=1"]
    if cpus := os.environ.get("SLURM_CPUS_PER_TASK"):
        words.append(f"--cpus-per-task={cpus}")  # since 22.05 a step does not inherit it
    words += [sys.executable, "-I", "-S", str(NODE), str(directory.path)]
    words += [str(life), str(attempts_before(directory)), *filter(None, [master])]
    # known to the supervisors alone: srun hands it on, and no file has it
    environment = os.environ | {LINK_KEY: secrets.token_hex(32)}
    step = subprocess.Popen(words, env=environment)
    code = _wait(step, directory, spec, job)
    return code or _verdict(directory, f"{life}-0")


def attempts_before(directory: RunDirectory) -> int:
    """How many attempts earlier lives of this job have made: no log is written twice."""
    # listed, not asked for by name: what is not there yet would be denied to this node for a while
    ranks = directory.path / "ranks"
    names = {name for rank in os.listdir(ranks) for name in os.listdir(ranks / rank)}
    later = (int(name.partition("-")[2]) for name in names if name.startswith("attempt-"))
    return max(later, default=int("log" in names))


def _wait(step: subprocess.Popen[bytes], directory: RunDirectory, spec: RunSpec, job: str) -> int:
    """Until the supervisors have ended; a run whose owner waited for it and has gone is ended."""
    pulse = Heartbeat(directory.pulse)
    while True:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return step.wait(10)
        if not spec.detached and pulse.has_stopped():
            print("nbdist: the process that waited for this run has gone, and the run ends", flush=True)
            subprocess.run(["scancel", "--signal=URG", job], check=False)
            pulse = Heartbeat(directory.pulse)


def _verdict(directory: RunDirectory, name: str) -> int:
    """The exit code by which Slurm is to remember the job."""
    node = NodeDirectory(directory.path, name)
    ends = [event for event in read_events(node.journal) if isinstance(event, RunEnded)]
    return 0 if ends and ends[-1].state is RunState.SUCCEEDED else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
