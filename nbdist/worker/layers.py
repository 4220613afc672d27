"""The layer that refused its input although it has trained: then the input is another one than before."""

from __future__ import annotations

from nbdist.worker.operands import MISSING, attribute, frames_of, is_library

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any

_MADE = 5
"""Changes of a parameter in place that are more than its making, loading and sending: an optimizer steps."""

_INPUTS = {
    "torch": {"Linear": (1, -1), "Conv1d": (1, 1), "Conv2d": (1, 1), "Conv3d": (1, 1)},
    "paddle": {"Linear": (0, -1), "Conv1D": (1, 1), "Conv2D": (1, 1), "Conv3D": (1, 1)},
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
    kind = type(layer)
    places = _INPUTS.get(kind.__module__.partition(".")[0], {}).get(kind.__name__)
    given: Any = next((frame.f_locals[name] for name in ("input", "x") if name in frame.f_locals), None)
    weight = attribute(layer, "weight")
    if places is None or not hasattr(given, "shape") or _groups(layer) != 1:
        return None
    shape = tuple(given.shape)
    want, got = int(weight.shape[places[0]]), int(shape[places[1]]) if len(shape) > 1 else 0
    return (kind.__name__, want, got) if got and want != got and _has_trained(weight) else None


def _groups(layer: Any) -> object:
    return next(
        (found for name in ("groups", "_groups") if (found := attribute(layer, name)) is not MISSING), 1
    )


def _has_trained(weight: Any) -> bool:
    return getattr(weight, "grad", None) is not None or int(getattr(weight, "_version", 0)) >= _MADE
