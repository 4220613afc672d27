"""The layer that refused its input although it has trained: then the input is another one than before."""

from __future__ import annotations

from nbdist.worker.failure.looks import family_of, name_of
from nbdist.worker.failure.operands import MISSING, attribute, frames_of, is_array, is_library

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any

_MADE = 12
"""Changes of a parameter in place that are more than its making, loading and sending, of which
``trunc_normal_()`` takes five: an optimizer steps."""

_INPUTS = {
    "torch": {"Linear": (1, -1), "Conv1d": (1, -2), "Conv2d": (1, -3), "Conv3d": (1, -4)},
    "paddle": {"Linear": (0, -1), "Conv1D": (1, -2), "Conv2D": (1, -3), "Conv3D": (1, -4)},
}
"""By layer, the dimensions of its weight and of its input that have to be the same."""


def refused(trace: TracebackType | None) -> tuple[str, int, int] | None:
    """The class of the innermost layer of a traceback, the features (or channels) with which it has trained,
    and what it got; None where these are the same, or it has not trained."""
    layers = [
        (layer, frame)
        for frame, _ in frames_of(trace)
        if is_library(frame.f_code.co_filename) and frame.f_code.co_name == "forward"
        for layer in [frame.f_locals.get("self")]
        if attribute(layer, "weight") is not MISSING
    ]
    if not layers:
        return None
    layer, frame = layers[-1]
    places = _INPUTS.get(family_of(type(layer)), {}).get(name := name_of(type(layer)))
    given: Any = next((frame.f_locals[name] for name in ("input", "x") if name in frame.f_locals), None)
    weight = attribute(layer, "weight")
    if places is None or not is_array(given) or not is_array(weight) or not _is_plain(layer):
        return None
    of_weight, shape = tuple(weight.shape), tuple(given.shape)
    # a weight that is sharded is flat
    dimensions = max(-places[1] + 1, 2)
    if len(of_weight) != dimensions or len(shape) < max(dimensions - 1, 2):
        return None
    most = len(shape) if dimensions == 2 else dimensions
    # paddle takes no image without a batch around it
    if len(shape) > most or (family_of(type(layer)) == "paddle" and len(shape) < dimensions):
        return None
    want, got = int(of_weight[places[0]]), int(shape[places[1]])
    return (name, want, got) if want != got and _has_trained(weight) else None


def _is_plain(layer: Any) -> bool:
    """Without groups of channels, and with these in front."""
    own = {name: attribute(layer, name) for name in ("groups", "_groups", "_data_format")}
    groups = [own[name] for name in ("groups", "_groups") if own[name] is not MISSING]
    last = own["_data_format"]
    return groups in ([], [1]) and (last is MISSING or str(last).startswith("NC"))


def _has_trained(weight: Any) -> bool:
    # what is computed from others has no gradient of its own, and warns of that
    grad = getattr(weight, "grad", None) if getattr(weight, "is_leaf", True) else None
    return grad is not None or int(getattr(weight, "_version", 0)) >= _MADE
