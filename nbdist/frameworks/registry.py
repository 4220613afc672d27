"""The frameworks nbdist knows, in the order in which a program is searched for them."""

from __future__ import annotations

from nbdist.errors import UsageMistake
from nbdist.frameworks.base import Framework
from nbdist.frameworks.jax import Jax
from nbdist.frameworks.paddle import Paddle
from nbdist.frameworks.torch import Torch

FRAMEWORKS: tuple[Framework, ...] = (Torch(), Paddle(), Jax())


def by_name(name: str) -> Framework:
    """The framework ``name``. Raises UsageMistake when there is none of this name."""
    for framework in FRAMEWORKS:
        if framework.name == name:
            return framework
    names = ", ".join(framework.name for framework in FRAMEWORKS)
    raise UsageMistake(f"no framework {name}: write --framework auto, none, {names}")
