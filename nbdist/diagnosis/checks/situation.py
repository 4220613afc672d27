"""What the checks know beside the program: the ranks, the machine, what is installed, the notebook."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    """An installed framework. ``cuda`` is the version it was built for; empty for a CPU build."""

    version: str
    cuda: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """Memory of a GPU, in bytes, that somebody has already; ``holder`` says who, as far as is known."""

    gpu: int
    memory: int
    total: int
    holder: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where the notebook has a name from.

    ``kind`` is "import", "definition", "data" or "ranks" (an earlier cell of ranks, which have ended).
    ``code`` is what to write into the cell to have it there, where that is short; ``cell`` the number
    in the brackets before the cell that made it, None where that is not known.
    """

    kind: str
    code: str = ""
    cell: int | None = None
    type: str = ""


def _nothing(_: str) -> None:
    return None


def _everything(_: str) -> bool:
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """``gpus`` are the physical ids of the ranks' GPUs, empty for CPU ranks; ``machine_gpus`` tells how
    many this machine has. ``environment`` is what the ranks inherit, ``args`` what they get behind the
    program's name; ``shared_memory`` the size of /dev/shm in bytes. The callables look only when they
    are asked: whether a module can be imported, which version of a distribution is installed, how a
    framework was built, where the notebook has a name from.
    """

    world_size: int = 2
    python: str = sys.executable
    gpus: tuple[int, ...] = ()
    machine_gpus: Callable[[], int] = lambda: 0
    args: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    shared_memory: int | None = None
    driver_cuda: str = ""
    held: tuple[Holding, ...] = ()
    installed: Callable[[str], bool] = _everything
    version: Callable[[str], str | None] = _nothing
    build: Callable[[str], Build | None] = _nothing
    origin: Callable[[str], Origin | None] = _nothing
