# line: -n 2
# needs: jax
# each: process \d of 2: loss \d+\.\d+ after 20 steps
# more: tests/runner/test_jax.py joins the same way
"""JAX over processes: initialize() without arguments, a mesh over all devices, one jitted step."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec

jax.distributed.initialize()
mesh = Mesh(np.array(jax.devices()), ("data",))
rng = np.random.default_rng(jax.process_index())
mine = rng.normal(size=(16, 4)).astype(np.float32)
x = multihost_utils.host_local_array_to_global_array(mine, mesh, PartitionSpec("data"))


def loss_of(weights, x):
    return jnp.mean((x @ weights - x.sum(1)) ** 2)


@jax.jit
def step(weights, x):
    loss, gradient = jax.value_and_grad(loss_of)(weights, x)
    return weights - 0.1 * gradient, loss


weights = jax.device_put(jnp.zeros(4), NamedSharding(mesh, PartitionSpec()))
for _ in range(20):
    weights, loss = step(weights, x)
print(f"process {jax.process_index()} of {jax.process_count()}: loss {float(loss):.4f} after 20 steps")
