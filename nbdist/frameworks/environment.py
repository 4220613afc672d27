"""The frameworks, those that a program imports, and the environment of its ranks."""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass

from nbdist.errors import UsageMistake

FRAMEWORKS = ("torch", "paddle", "jax")
"""Each is also the name of its module, and of nbdist's extra for pip."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """The place of one rank among the others. ``gpus`` are the physical ids of the run, none on the CPU."""

    rank: int
    world_size: int
    local_rank: int
    local_world_size: int
    node_rank: int
    nodes: int
    gpus: tuple[int, ...]


def check_framework(name: str) -> None:
    """Raise UsageMistake for an unknown framework."""
    if name not in FRAMEWORKS:
        raise UsageMistake(f"no framework {name}: write --framework auto, none, {', '.join(FRAMEWORKS)}")


def frameworks_of(tree: ast.AST) -> tuple[str, ...]:
    """Return the frameworks that a program imports."""
    imported = set(imported_modules(tree))
    return tuple(name for name in FRAMEWORKS if name in imported)


def imported_modules(tree: ast.AST) -> list[str]:
    """Return the top-level modules that a program imports outside of any ``try``."""
    modules, nodes = [], [tree]
    while nodes:
        node = nodes.pop()
        if isinstance(node, ast.Import):
            modules += [alias.name.partition(".")[0] for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            modules.append(node.module.partition(".")[0])
        elif not isinstance(node, ast.Try):
            nodes += reversed(list(ast.iter_child_nodes(node)))
    return modules


def is_installed(module: str) -> bool:
    """Return whether this interpreter can find a module."""
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):
        return False


# Variables of another launcher, or of a notebook's kernel, that a rank must not inherit.
_DROPPED = frozenset(
    {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE", "ROLE_RANK"}
    | {"ROLE_NAME", "ROLE_WORLD_SIZE", "POD_IP", "TRAINING_ROLE", "JPY_PARENT_PID", "JPY_SESSION_NAME"}
    | {"JPY_API_TOKEN", "JUPYTERHUB_API_TOKEN", "JUPYTER_TOKEN", "NBDIST_PARAMS"}
)
_DROPPED_PREFIXES = ("PADDLE_", "FLAGS_selected_", "TORCHELASTIC_", "MASTER_", "JAX_COORDINATOR_", "PYDEVD_")
# A kernel sets these so that its children colour their output; a rank's libraries write to a log
_FORCED_BY_KERNELS = frozenset({"FORCE_COLOR", "CLICOLOR", "CLICOLOR_FORCE"})
# ipykernel's plot backend draws into a notebook that a rank does not have
_INLINE_BACKENDS = ("module://matplotlib_inline", "module://ipykernel")


def inherited(environ: Mapping[str, str], world_size: int, *, gpus: bool = False) -> dict[str, str]:
    """Return the variables that ranks inherit, with defaults: one thread for each of several ranks, as by
    torchrun, and the CPU for Hugging Face, which otherwise takes CPU ranks for single processes."""
    dropped = _DROPPED | (_FORCED_BY_KERNELS if "JPY_PARENT_PID" in environ else frozenset())
    kept = {
        key: value
        for key, value in environ.items()
        if key not in dropped and not key.startswith(_DROPPED_PREFIXES)
    }
    kept["ROLE_NAME"] = "default"
    # rich draws its bars only for readers of escape sequences, such as those of nbdist's logs
    kept.setdefault("TTY_COMPATIBLE", "1")
    if kept.get("MPLBACKEND", "").startswith(_INLINE_BACKENDS):
        # the ranks show figures (worker.figures), their children do not
        kept |= {"MPLBACKEND": "agg", "NBDIST_FIGURES": "inline"}
    if world_size > 1:
        kept.setdefault("OMP_NUM_THREADS", "1")
    kept.setdefault("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1")  # as torchrun does
    if not gpus:
        kept.setdefault("ACCELERATE_USE_CPU", "true")
    return kept


def rank_environment(place: Placement, backend: str) -> dict[str, str]:
    """Return one rank's variables, with templates for Rendezvous.fill: those of every framework, and the
    run's GPUs in the order of nvidia-smi, indexed by LOCAL_RANK; none for CPU ranks."""
    environment = _torch(place) | _paddle(place, backend)
    # for jax.distributed.initialize, with ``worker.framework_hooks.join_cluster``
    environment["JAX_COORDINATOR_ADDRESS"] = "{host}:{port}"
    environment["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, place.gpus))
    if place.gpus:
        environment["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
    return environment


def _torch(place: Placement) -> dict[str, str]:
    """Return the variables of torchrun (torch.distributed.run, "Environment Variables"), without
    ``TORCHELASTIC_ERROR_FILE``, since nbdist writes the exception itself. Rank 0 opens the store."""
    return {
        "RANK": str(place.rank),
        "WORLD_SIZE": str(place.world_size),
        "LOCAL_RANK": str(place.local_rank),
        "LOCAL_WORLD_SIZE": str(place.local_world_size),
        "GROUP_RANK": str(place.node_rank),
        "GROUP_WORLD_SIZE": str(place.nodes),
        "ROLE_RANK": str(place.rank),
        "ROLE_WORLD_SIZE": str(place.world_size),
        "MASTER_ADDR": "{host}",
        "MASTER_PORT": "{port}",
        "TORCHELASTIC_RUN_ID": "{run}",
        "TORCHELASTIC_RESTART_COUNT": "{restarts}",
        "TORCHELASTIC_MAX_RESTARTS": "{retries}",
        "TORCHELASTIC_USE_AGENT_STORE": "False",
    }


def _paddle(place: Placement, backend: str) -> dict[str, str]:
    """Return the variables of ``paddle.distributed.launch`` (controllers/collective.py, ParallelEnv). paddle
    binds the master's port, and never those of the endpoints."""
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
        # an index into CUDA_VISIBLE_DEVICES
        environment["FLAGS_selected_gpus"] = str(place.local_rank)
    if backend != "auto" or not place.gpus:
        environment["PADDLE_DISTRI_BACKEND"] = "gloo" if backend == "auto" else backend
    return environment


def _endpoint(place: Placement, rank: int) -> str:
    if place.nodes == 1:
        return f"{{host}}:{{port+{rank + 1}}}"
    # after the port of nbdist's own
    return f"{{host{rank // place.local_world_size}}}:{{port+{rank % place.local_world_size + 2}}}"
