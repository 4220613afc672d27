"""PyTorch: the variables of its ``env://`` rendezvous, and those by which libraries see a launcher.

Names and meanings: torch.distributed.run, "Environment Variables". ``TORCHELASTIC_USE_AGENT_STORE`` is False:
rank 0 opens the store itself. ``TORCHELASTIC_ERROR_FILE`` is left out: nbdist keeps the exception itself.
"""

from __future__ import annotations

from collections.abc import Mapping

from nbdist.frameworks.base import Placement


class Torch:
    name = "torch"
    module = "torch"
    extra = "torch"

    def environment(self, place: Placement, backend: str) -> Mapping[str, str]:
        return {
            "RANK": str(place.rank),
            "WORLD_SIZE": str(place.world_size),
            "LOCAL_RANK": str(place.local_rank),
            "LOCAL_WORLD_SIZE": str(place.local_world_size),
            "GROUP_RANK": str(place.node_rank),
            "GROUP_WORLD_SIZE": str(place.nodes),
            "ROLE_NAME": "default",
            "ROLE_RANK": str(place.rank),
            "ROLE_WORLD_SIZE": str(place.world_size),
            "MASTER_ADDR": "{host}",
            "MASTER_PORT": "{port}",
            "TORCHELASTIC_RUN_ID": "{run}",
            "TORCHELASTIC_RESTART_COUNT": "{restarts}",
            "TORCHELASTIC_MAX_RESTARTS": "{retries}",
            "TORCHELASTIC_USE_AGENT_STORE": "False",
        }
