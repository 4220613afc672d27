"""Which frameworks there are, which a program imports, and the environment that its ranks get."""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Mapping

from nbdist.errors import UsageMistake
from nbdist.frameworks.base import Framework, Placement
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


def imported_modules(tree: ast.AST) -> list[str]:
    """The top-level modules that a program cannot do without: imported, and not inside a ``try``."""
    found, left = [], [tree]
    while left:
        node = left.pop()
        if isinstance(node, ast.Import):
            found += [alias.name.partition(".")[0] for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.append(node.module.partition(".")[0])
        elif not isinstance(node, ast.Try):
            left += reversed(list(ast.iter_child_nodes(node)))
    return found


def is_installed(module: str) -> bool:
    """Whether ``import module`` would find something, for this interpreter and its path."""
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):
        return False


# What another launcher, or a notebook's kernel, has set for itself and a rank must not take for its own.
_DROPPED = frozenset(
    {
        "RANK",
        "WORLD_SIZE",
        "LOCAL_RANK",
        "LOCAL_WORLD_SIZE",
        "GROUP_RANK",
        "GROUP_WORLD_SIZE",
        "ROLE_RANK",
        "ROLE_NAME",
        "ROLE_WORLD_SIZE",
        "POD_IP",
        "TRAINING_ROLE",
        "JPY_PARENT_PID",
        "JPY_SESSION_NAME",
        "JPY_API_TOKEN",
        "JUPYTERHUB_API_TOKEN",
        "JUPYTER_TOKEN",
    }
)
_DROPPED_PREFIXES = (
    "PADDLE_",
    "FLAGS_selected_",
    "TORCHELASTIC_",
    "MASTER_",
    "JAX_COORDINATOR_",
    "PYDEVD_",
)
# A kernel makes its own children colour what they write, for its page. In a rank it would have each library
# believe that it writes to a terminal, a page or a file as it thinks best.
_KERNEL = "JPY_PARENT_PID"
_FORCED_BY_KERNELS = ("FORCE_COLOR", "CLICOLOR", "CLICOLOR_FORCE")
# ipykernel's plot backend draws into a notebook that a rank does not have
_INLINE_BACKENDS = ("module://matplotlib_inline", "module://ipykernel")


def inherited(environ: Mapping[str, str], world_size: int, *, gpus: bool = False) -> dict[str, str]:
    """What the ranks get of the environment of the process that starts the run, and defaults beside it.

    Several ranks on one machine get one thread each unless the user chose (torchrun does the same):
    each would otherwise start a thread per core. Hugging Face's accelerate and Trainer take CPU ranks for
    single processes unless they are told that the CPU is meant.
    """
    kept = {
        key: value
        for key, value in environ.items()
        if key not in _DROPPED and not key.startswith(_DROPPED_PREFIXES)
    }
    if _KERNEL in environ:
        for key in _FORCED_BY_KERNELS:
            kept.pop(key, None)
    # rich draws its bars only where escape sequences are understood, as they are in a log of nbdist's
    kept.setdefault("TTY_COMPATIBLE", "1")
    if kept.get("MPLBACKEND", "").startswith(_INLINE_BACKENDS):
        kept["MPLBACKEND"] = "agg"
    if world_size > 1:
        kept.setdefault("OMP_NUM_THREADS", "1")
    kept.setdefault("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1")  # as torchrun does
    if not gpus:
        kept.setdefault("ACCELERATE_USE_CPU", "true")
    return kept


def rank_environment(place: Placement, backend: str) -> dict[str, str]:
    """What nbdist sets for one rank: the variables of every framework (they do not conflict), and
    which GPUs it sees. Templates for Rendezvous.fill.

    ``CUDA_VISIBLE_DEVICES`` holds the GPUs of the run, so that LOCAL_RANK is an index into it, in the
    order of nvidia-smi; it is empty for CPU ranks.
    """
    environment: dict[str, str] = {}
    for framework in FRAMEWORKS:
        environment.update(framework.environment(place, backend))
    environment["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, place.gpus))
    if place.gpus:
        environment["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
    return environment
