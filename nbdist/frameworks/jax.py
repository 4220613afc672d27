"""JAX: where its coordinator is. Count and number of a process are set in the rank
(``worker.framework_hooks``).

Source: jax.distributed.initialize, "JAX_COORDINATOR_ADDRESS".
"""

from __future__ import annotations

from collections.abc import Mapping

from nbdist.frameworks.base import Placement


class Jax:
    name = "jax"
    module = "jax"
    extra = "jax"

    def environment(self, place: Placement, backend: str) -> Mapping[str, str]:
        return {"JAX_COORDINATOR_ADDRESS": "{host}:{port}"}
