"""What chooses the data of a loader, in torch and in paddle."""

from __future__ import annotations

import operator

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def sampler_of(iterator: Any) -> Any:
    """What chooses the data of a loader's iterator: in torch the sampler that the one of batches has."""
    batches = getattr(iterator, "_batch_sampler", None)
    if batches is None:
        batches = getattr(iterator, "_index_sampler", None)
    return getattr(batches, "sampler", batches)


def share_of(sampler: Any) -> int | None:
    """Which share of the data a sampler takes, by number; None of one that takes all, or its own way."""
    found = (getattr(sampler, name, None) for name in ("rank", "local_rank"))
    return next((one for one in found if type(one) is int), None)


def is_read(indices: Any, sampler: Any) -> bool:
    """Whether a pass has come to its end; batches that are not full may have been left out."""
    if hasattr(indices, "gi_frame"):
        return indices.gi_frame is None
    return 0 <= operator.length_hint(indices, -1) <= len(sampler) // 10
