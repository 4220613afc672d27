"""What every framework is to nbdist: a name, a module, and variables per rank."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol


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


class Framework(Protocol):
    """``environment`` gives templates for Rendezvous.fill: the port is known only at the start."""

    name: str
    module: str
    extra: str

    def environment(self, place: Placement, backend: str) -> Mapping[str, str]: ...
