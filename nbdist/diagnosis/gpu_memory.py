"""The processes that hold a full GPU's memory: others, or ranks with a GPU of their own."""

from __future__ import annotations

import re
from dataclasses import dataclass

from nbdist.diagnosis.known import Hint, hint
from nbdist.diagnosis.rank_failure import Failure
from nbdist.model import Run

_SIZE = r"(?P<{}>[\d.]+ ?(?:[KMGT]i?B|bytes|B))"
_ASKED = re.compile("(?:Tried to allocate|you tried to allocate) " + _SIZE.format("size"), re.IGNORECASE)
_TOTAL = re.compile(
    f"total capaci?ty of {_SIZE.format('new')} of which|{_SIZE.format('old')} total capacity;"
)
_FREE = re.compile(f"of which {_SIZE.format('new')} is free|{_SIZE.format('old')} free;")
_OWN = re.compile(f"this process has {_SIZE.format('size')} memory in use")
_OTHER = re.compile(f"Process (?P<pid>\\d+) has {_SIZE.format('size')} memory in use")
_NUMBER = re.compile(r"GPU (\d+) has a total|\(GPU (\d+);")
_ALLOWED = re.compile(f"{_SIZE.format('size')} allowed;")
_ALLOCATED = re.compile(
    f"{_SIZE.format('new')} is allocated by PyTorch|{_SIZE.format('old')} already allocated"
)
_UNUSED = re.compile(f"{_SIZE.format('size')} is reserved by PyTorch but unallocated")
_RESERVED = re.compile(f"{_SIZE.format('size')} reserved in total by PyTorch")
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_GIB, _MIB = 1 << 30, 1 << 20

_LITTLE = 20  # the part of a GPU, one twentieth, that a process may hold there though it computes elsewhere
_CONTEXT = 1.5 * _GIB  # Bytes that CUDA itself takes of a GPU for a process, at most


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuRoom:
    """Bytes in torch's message about a GPU, 0 where absent. ``limited``: the program set a limit itself."""

    asked: int
    total: int
    own: int
    others: int
    limited: bool

    @classmethod
    def parse(cls, message: str) -> GpuRoom:
        total, free, own = _size(_TOTAL, message), _size(_FREE, message), _size(_OWN, message)
        held = _size(_RESERVED, message) or _size(_ALLOCATED, message) + _size(_UNUSED, message)
        others = sum(_bytes(process["size"]) for process in _OTHER.finditer(message)) if own else 0
        if total and not own and total - free - held > _CONTEXT:
            # a container may hide this process's pid in the list
            others = int(total - free - held - _CONTEXT)
        return cls(
            asked=_size(_ASKED, message),
            total=total,
            own=own or held,
            others=others,
            limited=bool(_size(_ALLOWED, message)),
        )


def hint_from_gpu_memory(failure: Failure, run: Run) -> Hint | None:
    """Return the other holders of a full GPU; None where this process alone filled it."""
    message = failure.said
    mine = run.ranks[failure.rank].spec
    devices = [rank.spec.device for rank in run.ranks if rank.spec.node_rank == mine.node_rank]
    if mine.device.kind == "gpu" and devices.count(mine.device) > 1:
        return None  # the user shared the GPU out among these ranks
    if (ranks := _ranks_on(message, failure, run)) is not None:
        return ranks
    room = GpuRoom.parse(message)
    if not room.total or room.limited or room.asked >= room.total or room.others <= room.total / 2:
        return None
    sizes = {"own": room.own, "others": room.others, "total": room.total, "asked": room.asked}
    return hint("gpu-held-by-others", **{name: _written(size) for name, size in sizes.items()})


def _ranks_on(message: str, failure: Failure, run: Run) -> Hint | None:
    full = _NUMBER.search(message)
    mine = run.ranks[failure.rank].spec
    near = [rank for rank in run.ranks if rank.spec.node_rank == mine.node_rank]
    gpus = {str(rank.spec.device) for rank in near if rank.spec.device.kind == "gpu"}
    if full is None or run.spec.framework != "torch" or len(gpus) != len(near):
        return None
    number = int(next(filter(None, full.groups())))
    least = GpuRoom.parse(message).total / _LITTLE
    pids = {int(process["pid"]) for process in _OTHER.finditer(message) if _bytes(process["size"]) > least}
    others = {rank.rank for rank in near if rank.process is not None and rank.process.pid in pids}
    if number != mine.local_rank:
        others |= {rank.rank for rank in near if rank.spec.local_rank == number}
    others -= {failure.rank}
    ranks = tuple(sorted({failure.rank, *others}))
    return hint("gpu-of-several-ranks", ranks=ranks, gpu=number) if others else None


def _size(pattern: re.Pattern[str], message: str) -> int:
    match = pattern.search(message)
    return _bytes(next(filter(None, match.groups()), "0 B")) if match is not None else 0


def _bytes(text: str) -> int:
    number = re.match(r"[\d.]+", text)
    unit = text[number.end() :].strip() if number is not None else ""
    return int(float(number[0].rstrip(".")) * _UNITS.get(unit[:1], 1)) if number is not None else 0


def _written(size: float) -> str:
    return f"{size / _GIB:.1f} GiB" if size >= _GIB else f"{size / _MIB:.0f} MiB"
