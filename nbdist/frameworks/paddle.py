"""PaddlePaddle: the variables that ``paddle.distributed.launch`` gives its trainers.

Names and meanings: paddle.distributed.launch (controllers/collective.py) and ParallelEnv. The ports of
the endpoints are never bound; only the master's is.
"""

from __future__ import annotations

from collections.abc import Mapping

from nbdist.frameworks.base import Placement


class Paddle:
    name = "paddle"
    module = "paddle"
    extra = "paddle"

    def environment(self, place: Placement, backend: str) -> Mapping[str, str]:
        endpoints = [_endpoint(place, rank) for rank in range(place.world_size)]
        environment = {
            "PADDLE_TRAINER_ID": str(place.rank),
            "PADDLE_TRAINERS_NUM": str(place.world_size),
            "PADDLE_CURRENT_ENDPOINT": endpoints[place.rank],
            "PADDLE_TRAINER_ENDPOINTS": ",".join(endpoints),
            "PADDLE_MASTER": "{host}:{port}",
            "PADDLE_GLOBAL_RANK": str(place.rank),
            "PADDLE_GLOBAL_SIZE": str(place.world_size),
            "PADDLE_LOCAL_RANK": str(place.local_rank),
            "PADDLE_LOCAL_SIZE": str(place.local_world_size),
            "PADDLE_NNODES": str(place.nodes),
            "PADDLE_RANK_IN_NODE": str(place.local_rank),
        }
        if place.gpus:
            # an index into CUDA_VISIBLE_DEVICES, which holds the chosen GPUs alone
            environment["FLAGS_selected_gpus"] = str(place.local_rank)
        if backend != "auto":
            environment["PADDLE_DISTRI_BACKEND"] = backend
        elif not place.gpus:
            environment["PADDLE_DISTRI_BACKEND"] = "gloo"
        return environment


def _endpoint(place: Placement, rank: int) -> str:
    if place.nodes == 1:
        return f"{{host}}:{{port+{rank + 1}}}"
    # behind the port of nbdist's own
    return f"{{host{rank // place.local_world_size}}}:{{port+{rank % place.local_world_size + 2}}}"
