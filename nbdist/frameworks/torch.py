"""PyTorch: the variables of its ``env://`` rendezvous.

Names and meanings: torch.distributed.run, "Environment Variables". ``TORCHELASTIC_*`` is not set:
with ``TORCHELASTIC_USE_AGENT_STORE`` rank 0 would expect somebody else to hold the store.
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
        }
