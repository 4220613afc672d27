"""Supervisor of one node of a run on an engine, which starts it on each: ``python -I -S node.py RUN_DIR LIFE
ATTEMPTS [MASTER]``.

It works as on one of several machines, but the run's directory is shared: files with one writer are in the
node's own part. ``NBDIST_NODE`` or Slurm numbers the node.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import MutableMapping, Sequence
from dataclasses import replace
from pathlib import Path

if __name__ == "__main__" and not __package__:
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from nbdist import config
from nbdist.engines.slurm_batch import STEP_BEGINS
from nbdist.launch.lifetime import Lifeline, write_into
from nbdist.launch.reaper import keep
from nbdist.launch.supervisor import Supervisor
from nbdist.model import Reason, RunSpec
from nbdist.store.paths import NodeDirectory, RunDirectory, make_private, write_private
from nbdist.store.run_store import read_spec

# with these a rank takes Slurm for its launcher (Lightning does), or waits for an absent MPI
_MISLEADING = ("SLURM_NTASKS", "SLURM_NPROCS", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_TASK", "PMI_", "PMIX_")


def main(arguments: Sequence[str]) -> int:
    """Supervise the node; return 0 once the run's end here is recorded, whatever it is."""
    path, life, attempts, *rest = arguments
    run = RunDirectory(Path(path))
    spec = read_spec(run)
    node = int(os.environ.get("NBDIST_NODE") or os.environ["SLURM_NODEID"])
    master = rest[0] if rest else ""
    if node == 0 and (step := os.environ.get("SLURM_STEP_ID")):
        # ``slurm_batch.find_step`` waits for this line in the job's log
        print(f"{STEP_BEGINS}{os.environ['SLURM_JOB_ID']}.{step}", flush=True)
    directory = NodeDirectory(run.path, f"{life}-{node}")
    make_private(directory.own)
    make_private(directory.control)
    spec = spec_of_node(spec, node, master)
    write_private(directory.spec, json.dumps(spec.to_dict(), indent=1))
    if spec.log_dir:
        os.makedirs(spec.log_dir, exist_ok=True)
    write_into(directory.supervisor_log)
    for name in [name for name in os.environ if name.startswith(_MISLEADING)]:
        del os.environ[name]
    line = _lifeline(os.environ)

    def supervise() -> None:
        lifeline = Lifeline(None, line, Reason("engine-process-ended"))
        Supervisor(directory, spec, lifeline, attempts=int(attempts)).run()

    return keep(directory, supervise)


def spec_of_node(spec: RunSpec, node: int, master: str) -> RunSpec:
    """Return the run for this node's supervisor: one of several machines, without an owner."""
    log_dir = spec.log_dir
    if log_dir and spec.nodes > 1:
        log_dir = os.path.join(log_dir, f"node-{node}")  # local ranks have the same names on each
    if spec.limit == "auto" and spec.until is None:
        spec = replace(spec, until=config.end_of_job(os.environ))
    return replace(spec, engine="", node_rank=node, master=master, log_dir=log_dir, owner=None, detached=True)


def _lifeline(environment: MutableMapping[str, str]) -> int | None:
    """Return the descriptor that becomes readable when the engine's process on this node ends, and leave that
    process; None where the engine set none."""
    descriptor = environment.pop("NBDIST_LIFELINE", "")
    if descriptor and os.fork():
        os._exit(0)
    return int(descriptor) if descriptor else None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
