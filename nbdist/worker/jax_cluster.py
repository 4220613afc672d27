"""Lets ``jax.distributed.initialize()`` without arguments find the ranks of a run.

JAX reads only the coordinator's address from the environment. How many processes there are, and which one
this is, it asks of the cluster environments it knows (jax._src.clusters, a private module: where it has
changed, the program has to give ``num_processes`` and ``process_id`` itself).
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType


def join_cluster(clusters: ModuleType) -> None:
    """Make the run a cluster environment that comes before all others: a run may itself be in a Slurm job.

    ``clusters`` is jax._src.clusters.cluster.
    """
    known = getattr(getattr(clusters, "ClusterEnv", None), "_cluster_types", None)
    if not isinstance(known, list):
        return

    class Run(clusters.ClusterEnv):  # type: ignore[name-defined, misc]
        name = "nbdist"

        @classmethod
        def is_env_present(cls) -> bool:
            return "JAX_COORDINATOR_ADDRESS" in os.environ and "RANK" in os.environ

        @classmethod
        def get_coordinator_address(cls, *_: object, **__: object) -> str:
            return os.environ["JAX_COORDINATOR_ADDRESS"]

        @classmethod
        def get_process_count(cls) -> int:
            return int(os.environ["WORLD_SIZE"])

        @classmethod
        def get_process_id(cls) -> int:
            return int(os.environ["RANK"])

        @classmethod
        def get_local_process_id(cls) -> int:
            return int(os.environ["LOCAL_RANK"])

    # ClusterEnv has put it at the end
    known.insert(0, known.pop())
