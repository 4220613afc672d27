"""What programs hold (tensors, arrays, lists) as what VisualDL's records hold; ``pictures`` has the rest.

numpy is asked for when something of it is needed, and is the only thing that is: WAV is written by the
standard library.
"""

from __future__ import annotations

import io

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

DEFAULT_BINS = 30
MOST_BINS = 512
MOST_THRESHOLDS = 127


def to_array(value: object) -> Any:
    """Any tensor, array or nested list as a numpy array in this process's memory."""
    import numpy

    tensor: Any = value
    if hasattr(tensor, "detach"):
        tensor = tensor.detach()
    if "bfloat16" in str(getattr(tensor, "dtype", "")):  # numpy has none
        tensor = tensor.astype("float32") if hasattr(tensor, "astype") else tensor.float()
    if hasattr(tensor, "cpu"):
        tensor = tensor.cpu()
    if isinstance(tensor, (list, tuple)) and any(hasattr(one, "detach") for one in tensor):
        return numpy.stack([to_array(one) for one in tensor])
    return numpy.asarray(tensor.numpy() if hasattr(tensor, "numpy") else tensor)


def to_wav(sound: object, sample_rate: int) -> tuple[bytes, int, int]:
    """A sound as the bytes of a WAV, its number of channels and of frames.

    ``sound``: one axis, or two with one or two channels. Floats go from -1 to 1; int16 as it is.

    :raises TypeError: when it is not that.
    """
    import wave

    import numpy

    samples = to_array(sound)
    if samples.dtype.kind not in "iuf":
        raise TypeError(f"{type(sound).__name__} of {samples.dtype} is no sound")
    if samples.ndim != 1:
        samples = samples.squeeze()
    if samples.ndim == 0:
        samples = samples.reshape(1)
    if samples.ndim == 2 and samples.shape[0] == 2:
        samples = samples.T
    if samples.ndim > 2 or (samples.ndim == 2 and samples.shape[1] != 2):
        raise TypeError(f"a sound has one or two channels, this one has shape {samples.shape}")
    if samples.dtype != numpy.int16:
        samples = numpy.clip(numpy.nan_to_num(samples.astype(numpy.float64)), -1, 1) * 32767
    channels = samples.ndim
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setnchannels(channels)
        writer.setsampwidth(2)
        writer.setframerate(sample_rate)
        writer.writeframes(samples.astype("<i2").tobytes())
    return file.getvalue(), channels, len(samples)


def to_histogram(
    values: object, bins: object, max_bins: int | None = None
) -> tuple[list[float], list[float]]:
    """Counts and edges, over what is finite. ``bins``: how many, or their edges; a rule by name
    ("auto", "tensorflow") is DEFAULT_BINS, since with a few values far out it would want millions."""
    import numpy

    flat = to_array(values).reshape(-1).astype(numpy.float64)
    wanted: Any = DEFAULT_BINS if isinstance(bins, str) else bins
    if isinstance(wanted, int):
        wanted = min(wanted, max_bins or MOST_BINS, MOST_BINS)
    counts, edges = numpy.histogram(flat[numpy.isfinite(flat)], bins=wanted)
    return counts.astype(float).tolist(), edges.astype(float).tolist()


def to_counts(
    labels: object, predictions: object, thresholds: int, weights: object = None
) -> list[list[int]]:
    """True positives, false positives, true negatives, false negatives where what is predicted with at
    least 0, 1/(n-1), 2/(n-1), … 1 counts as positive."""
    import numpy

    positive = to_array(labels).reshape(-1).astype(bool)
    predicted = to_array(predictions).reshape(-1).astype(numpy.float64)
    if len(positive) != len(predicted):
        raise TypeError(f"{len(positive)} labels and {len(predicted)} predictions")
    number = max(2, min(thresholds, MOST_THRESHOLDS))
    weight = numpy.ones(1) if weights is None else to_array(weights).reshape(-1).astype(numpy.float64)
    weight = numpy.broadcast_to(weight, predicted.shape)
    # the last threshold that each prediction reaches
    reached = numpy.clip(numpy.floor(numpy.nan_to_num(predicted) * (number - 1)), 0, number - 1).astype(int)

    def at_least(chosen: Any) -> Any:
        found = numpy.bincount(reached[chosen], weights=weight[chosen], minlength=number)
        return found[::-1].cumsum()[::-1]

    hits, alarms = at_least(positive), at_least(~positive)
    columns = (hits, alarms, alarms[0] - alarms, hits[0] - hits)
    return [column.astype(int).tolist() for column in columns]


def pr_rates(counts: list[list[int]]) -> list[list[float]]:
    """Precision and recall."""
    hits, alarms, _, misses = counts
    return [_shares(hits, alarms), _shares(hits, misses)]


def roc_rates(counts: list[list[int]]) -> list[list[float]]:
    """True positive rate and false positive rate."""
    hits, alarms, rejections, misses = counts
    return [_shares(hits, misses), _shares(alarms, rejections)]


def _shares(part: list[int], rest: list[int]) -> list[float]:
    return [one / (one + other) if one + other else 0.0 for one, other in zip(part, rest, strict=True)]


def to_vectors(matrix: object) -> list[bytes]:
    """Each row as little-endian float32. Raises TypeError for what has no rows."""
    array = to_array(matrix)
    if array.ndim != 2:
        raise TypeError(f"an embedding is a matrix with one row for each point, this has shape {array.shape}")
    return [row.tobytes() for row in array.astype("<f4")]


def to_labels(metadata: Any, rows: int) -> list[list[str]]:
    """The columns of each row's label; without any, its number. Raises TypeError where rows lack one."""
    if metadata is None:
        return [[str(row)] for row in range(rows)]
    if hasattr(metadata, "tolist"):
        metadata = to_array(metadata).tolist()
    labels = [list(map(str, one)) if isinstance(one, (list, tuple)) else [str(one)] for one in metadata]
    if len(labels) != rows:
        raise TypeError(f"{len(labels)} labels for {rows} points")
    return labels
