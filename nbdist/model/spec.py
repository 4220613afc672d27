"""What was asked for: a run and its ranks. Written once as spec.json, never changed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from nbdist.model.process import ProcessId

FORMAT = 1
_PORT = re.compile(r"\{port(?:\+(\d+))?\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendezvous:
    """Where the ranks of one attempt meet. Only ``port`` itself is ever bound."""

    host: str
    port: int

    def fill(self, template: str) -> str:
        """``template`` with ``{host}``, ``{port}`` and ``{port+K}`` put in."""
        text = template.replace("{host}", self.host)
        return _PORT.sub(lambda match: str(self.port + int(match[1] or 0)), text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """What a rank computes on: the CPU, or the GPU with this index in nvidia-smi."""

    kind: str = "cpu"
    index: int = 0

    def __str__(self) -> str:
        return "CPU" if self.kind == "cpu" else f"GPU {self.index}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RankSpec:
    """One rank of a run. ``rank`` is global; ``environment`` holds templates for Rendezvous.fill."""

    rank: int
    local_rank: int
    node_rank: int = 0
    device: Device = Device()
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSpec:
    """One run, as it was asked for.

    ``program`` is the file that every rank runs as ``__main__``, ``module`` its name where it is run as
    ``python -m`` would; ``python_path`` is what ``sys.path`` is in a rank (empty: what the interpreter
    makes it). Times are Unix seconds, durations seconds.
    ``environment`` is what the user asked to be set, with values that look like secrets masked: the
    ranks inherit the real ones from process to process, never through a file. ``scrape``: numbers that the
    ranks print become curves.
    """

    run_id: str
    name: str
    created: float
    program: str
    python: str
    cwd: str
    ranks: tuple[RankSpec, ...]
    framework: str
    backend: str
    args: tuple[str, ...] = ()
    module: str = ""
    python_path: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    detached: bool = False
    timeout: float | None = None
    retries: int = 0
    scrape: bool = True
    owner: ProcessId | None = None
    notebook: str = ""
    format: int = FORMAT

    @property
    def world_size(self) -> int:
        return len(self.ranks)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> RunSpec:
        """The spec in ``data``; what a newer version of nbdist added is left out.

        Raises KeyError or TypeError when ``data`` is not a spec.
        """
        known = _known(cls, data)
        known["ranks"] = tuple(_rank_from(rank) for rank in data["ranks"])
        known["args"] = tuple(data.get("args", ()))
        known["python_path"] = tuple(data.get("python_path", ()))
        owner = data.get("owner")
        known["owner"] = ProcessId(**_known(ProcessId, owner)) if owner else None
        return cls(**known)


def _rank_from(data: Mapping[str, Any]) -> RankSpec:
    known = _known(RankSpec, data)
    known["device"] = Device(**_known(Device, data.get("device", {})))
    return RankSpec(**known)


def _known(cls: type, data: object) -> dict[str, Any]:
    if not isinstance(data, Mapping):
        raise TypeError(f"no {cls.__name__}: {data!r:.80}")
    names = {f.name for f in fields(cls)}
    return {name: value for name, value in data.items() if name in names}
