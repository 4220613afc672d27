"""Which frameworks there are, which a program imports, and the environment that its ranks get."""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass

from nbdist.errors import UsageMistake

FRAMEWORKS = ("torch", "paddle", "jax")
"""Each is also the name of its module, and of what pip installs with nbdist for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Where one rank stands among the others. ``gpus`` are the physical ids of the run, none on the CPU."""

    rank: int
    world_size: int
    local_rank: int
    local_world_size: int
    node_rank: int
    nodes: int
    gpus: tuple[int, ...]


def check_framework(name: str) -> None:
    """Raises UsageMistake when there is none of this name."""
    if name not in FRAMEWORKS:
        raise UsageMistake(f"no framework {name}: write --framework auto, none, {', '.join(FRAMEWORKS)}")


def frameworks_of(tree: ast.AST) -> tuple[str, ...]:
    """Return the frameworks that a program imports."""
    imported = set(imported_modules(tree))
    return tuple(name for name in FRAMEWORKS if name in imported)


def imported_modules(tree: ast.AST) -> list[str]:
    """Return the top-level modules that a program cannot do without: imported, and not inside a ``try``."""
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
    """Return whether ``import module`` would find something, for this interpreter and its path."""
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):
        return False


# What another launcher, or a notebook's kernel, has set for itself and a rank must not take for its own.
_DROPPED = frozenset(
    {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE", "ROLE_RANK"}
    | {"ROLE_NAME", "ROLE_WORLD_SIZE", "POD_IP", "TRAINING_ROLE", "JPY_PARENT_PID", "JPY_SESSION_NAME"}
    | {"JPY_API_TOKEN", "JUPYTERHUB_API_TOKEN", "JUPYTER_TOKEN", "NBDIST_PARAMS"}
)
_DROPPED_PREFIXES = ("PADDLE_", "FLAGS_selected_", "TORCHELASTIC_", "MASTER_", "JAX_COORDINATOR_", "PYDEVD_")
# A kernel makes its own children colour what they write, for its page; a rank's libraries write to a log
_FORCED_BY_KERNELS = frozenset({"FORCE_COLOR", "CLICOLOR", "CLICOLOR_FORCE"})
# ipykernel's plot backend draws into a notebook that a rank does not have
_INLINE_BACKENDS = ("module://matplotlib_inline", "module://ipykernel")


def inherited(environ: Mapping[str, str], world_size: int, *, gpus: bool = False) -> dict[str, str]:
    """Return what the ranks get of the environment of the process that starts the run, and defaults beside
    it. Several ranks on one machine get one thread each unless the user chose, as torchrun does. Hugging Face
    takes CPU ranks for single processes unless it is told that the CPU is meant."""
    dropped = _DROPPED | (_FORCED_BY_KERNELS if "JPY_PARENT_PID" in environ else frozenset())
    kept = {
        key: value
        for key, value in environ.items()
        if key not in dropped and not key.startswith(_DROPPED_PREFIXES)
    }
    # rich draws its bars only where escape sequences are understood, as they are in a log of nbdist's
    kept.setdefault("TTY_COMPATIBLE", "1")
    if kept.get("MPLBACKEND", "").startswith(_INLINE_BACKENDS):
        # the ranks themselves show figures (worker.figures), what they start draws none
        kept |= {"MPLBACKEND": "agg", "NBDIST_FIGURES": "inline"}
    if world_size > 1:
        kept.setdefault("OMP_NUM_THREADS", "1")
    kept.setdefault("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1")  # as torchrun does
    if not gpus:
        kept.setdefault("ACCELERATE_USE_CPU", "true")
    return kept


def rank_environment(place: Placement, backend: str) -> dict[str, str]:
    """Return what nbdist sets for one rank, with templates for Rendezvous.fill: the variables of every
    framework (they do not conflict), and the GPUs of the run in the order of nvidia-smi, so that LOCAL_RANK
    is an index into them; none for CPU ranks."""
    environment = _torch(place) | _paddle(place, backend)
    # jax.distributed.initialize; ``worker.framework_hooks`` tells it the processes and which one this is
    environment["JAX_COORDINATOR_ADDRESS"] = "{host}:{port}"
    environment["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, place.gpus))
    if place.gpus:
        environment["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
    return environment


def _torch(place: Placement) -> dict[str, str]:
    """Return the variables of its ``env://`` rendezvous, and those by which libraries see a launcher
    (torch.distributed.run, "Environment Variables"). Rank 0 opens the store itself, and nbdist keeps the
    exception itself: ``TORCHELASTIC_ERROR_FILE`` is left out."""
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


def _paddle(place: Placement, backend: str) -> dict[str, str]:
    """Return the variables that ``paddle.distributed.launch`` gives its trainers (controllers/collective.py,
    ParallelEnv). The ports of the endpoints are never bound; only the master's is."""
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
    if backend != "auto" or not place.gpus:
        environment["PADDLE_DISTRI_BACKEND"] = "gloo" if backend == "auto" else backend
    return environment


def _endpoint(place: Placement, rank: int) -> str:
    if place.nodes == 1:
        return f"{{host}}:{{port+{rank + 1}}}"
    # behind the port of nbdist's own
    return f"{{host{rank // place.local_world_size}}}:{{port+{rank % place.local_world_size + 2}}}"
