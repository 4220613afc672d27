"""Signs of mistakes that raise nothing: digests of a rank's first batches, an order of the data that repeats
itself, a wrapper that is never called. They stand in the record of its steps as ``notes``, and
``diagnosis.silent`` compares the ranks.

A batch counts when the program then calls the wrapped model and an optimizer steps, not in an evaluation. The
model's inputs are part of the digest, since a program may cut its share out of a batch that all ranks read.
"""

from __future__ import annotations

import os
import sys
import weakref
import zlib
from collections.abc import Iterable, Iterator
from typing import Any

Weak = weakref.WeakKeyDictionary[Any, Any]

_BATCHES = 3
_LOOKS = 200  # optimizer steps without a batch after which the program has a loader of its own
_OF_TENSOR = 64  # elements at most, spread over it
_DEEPEST, _MOST_PARTS = 6, 64
_SUMS = ("all_reduce", "broadcast")  # collectives of data parallel training
_TENSORS = frozenset({"Tensor", "Parameter", "EagerParamBase", "ndarray"})
"""Types of tensors whose elements this process has: reading those of a DTensor is a collective."""
_INSTALLED = ("site-packages", "dist-packages", os.path.dirname(os.__file__))
_HERE = os.path.dirname(os.path.abspath(__file__))


class TrainingProbe:
    """The signs in one of ``ranks`` processes. It ``looks`` at so many steps more; ``places``: the lines of
    the program that made a DataLoader or wrapped a model; ``loaders``: what a note says, by iterator."""

    def __init__(self, ranks: int) -> None:
        self.notes: dict[str, Any] = {}
        self.looks = _LOOKS if ranks > 1 else 0
        self.is_split = False  # the ranks are laid out as a mesh: batches may be the same on purpose
        self.places, self.loaders, self.wrapped = Weak(), Weak(), Weak()
        self._ranks = ranks
        self._last: Any = None  # the loader that was read last
        self._read = self._given = 0  # digests of batches, and of what the wrapped model got with them
        self._batches: list[int] = []

    def reads(self, iterator: Any, batch: object) -> None:
        if self.wrapped:
            self._last, self._read = self.loaders.get(iterator), _digest(batch, self._read)

    def calls(self, model: Any, given: object) -> None:
        """Take a call of the wrapped model."""
        read, self._read = self._read, 0
        library = sys.modules["torch" if hasattr(model, "module") else "paddle"]
        if read and library.is_grad_enabled():
            self._given = _digest(given, read) if self.divides_data(model) else 0

    def exchanges(self, name: str) -> None:
        """Take a collective: one that is no sum shows a model that is divided by hand."""
        if self._batches and not name.startswith(_SUMS):
            self.looks = 0

    def steps(self) -> None:
        """Take an optimizer's step."""
        self.looks -= 1
        if self._given:
            self._batches.append(self._given)
            self._given = 0
            if len(self._batches) == _BATCHES:
                self.notes |= {"batches": self._batches, **(self._last or {})}
                self.looks = 0

    def uncalled(self, parameters: Iterable[Any]) -> dict[str, Any]:
        """Return the note of a training of these parameters, should it call no wrapper."""
        trained = set(map(id, parameters))
        for model, place in self.wrapped.items():
            if not trained.isdisjoint(map(id, model.parameters())):
                return {"uncalled": place}
        return {}

    def divides_data(self, model: Any) -> bool:
        """Return whether all ranks divide the data; ``model`` is the wrapped one, if there is one."""
        if self._ranks < 2 or self.is_split or "torch.distributed.pipelining" in sys.modules:
            return False
        return model is None or _is_over_the_world(model, self._ranks)


def _is_over_the_world(model: Any, ranks: int) -> bool:
    """Return whether the model is wrapped over all ranks, and no groups divide a model or a sequence."""
    if hasattr(model, "module"):
        distributed: Any = sys.modules["torch.distributed"]
        own = distributed.get_process_group_ranks(model.process_group)
        groups = sys.modules["torch.distributed.distributed_c10d"]._world.pg_group_ranks.values()
    else:
        own = model.group.ranks if model.group is not None else []
        groups = [group.ranks for group in sys.modules["paddle.distributed.collective"]._group_map.values()]
        topology = sys.modules.get("paddle.distributed.fleet.base.topology")
        laid_out = getattr(topology, "_HYBRID_PARALLEL_GROUP", None)
        if laid_out is not None and laid_out.get_data_parallel_world_size() != ranks:
            return False
    return len(own) == ranks and all(len(group) in (0, 1, ranks) for group in groups)


def _digest(value: object, before: int = 0) -> int:
    """Return a checksum of a batch; ``before`` for one without numbers and texts."""
    parts = list(_parts(value))
    return zlib.crc32(repr(parts).encode("utf-8", "replace"), before) or 1 if parts else before


def _parts(value: Any, depth: int = 0) -> Iterator[object]:
    if type(value).__name__ in _TENSORS:
        elements = value.flatten()
        yield str(value.dtype), tuple(value.shape), elements[:: len(elements) // _OF_TENSOR + 1].tolist()
    elif isinstance(value, str):
        yield value[:_MOST_PARTS]
    elif isinstance(value, (int, float)):
        yield value
    elif depth < _DEEPEST:
        items = value.items() if callable(getattr(value, "items", None)) else ()
        listed = value[:_MOST_PARTS] if isinstance(value, (list, tuple)) else ()
        for item in (*items, *listed):
            yield from _parts(item, depth + 1)


def program_line() -> tuple[str, int] | None:
    """Return the innermost line of the program and its modules that is being executed."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if not (file.startswith(("<", _HERE)) or any(folder in file for folder in _INSTALLED)):
            return file, frame.f_lineno
        frame = frame.f_back
    return None
