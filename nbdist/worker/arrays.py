"""Turns tensors, arrays, pixels, PIL's images and matplotlib's figures into VisualDL's content. It imports
numpy when needed; the standard library writes WAV and PNG."""

from __future__ import annotations

import io
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


DEFAULT_BINS = 30
MOST_BINS = 512
MOST_THRESHOLDS = 127


def to_array(value: object) -> Any:
    """Return any tensor, array or nested list as a numpy array in this process's memory."""
    import numpy

    tensor: Any = value
    if hasattr(tensor, "detach"):
        tensor = tensor.detach()
    if "bfloat16" in str(getattr(tensor, "dtype", "")):  # numpy has none
        tensor = tensor.astype("float32") if hasattr(tensor, "astype") else tensor.float()
    if hasattr(tensor, "cpu"):
        tensor = tensor.cpu()
    if isinstance(tensor, (list, tuple)) and any(hasattr(item, "detach") for item in tensor):
        return numpy.stack([to_array(item) for item in tensor])
    return numpy.asarray(tensor.numpy() if hasattr(tensor, "numpy") else tensor)


def to_wav(sound: object, sample_rate: int) -> tuple[bytes, int, int]:
    """Return a sound as the bytes of a WAV, its number of channels and of frames. ``sound`` has one axis, or
    two with one or two channels; floats from -1 to 1, or int16. Raises TypeError for anything else."""
    import wave

    import numpy

    samples = to_array(sound)
    if samples.dtype.kind not in "iuf":
        raise TypeError(f"{type(sound).__name__} of {samples.dtype} is no sound")
    if samples.ndim != 1:
        samples = numpy.atleast_1d(samples.squeeze())
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
    """Return counts and edges of the finite values. ``bins``: a number, the edges, or a rule's name, which
    means DEFAULT_BINS, since a few values far out would make millions."""
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
    """Return true and false positives, true and false negatives, at thresholds 0, 1/(n-1), 2/(n-1), … 1."""
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
        counts = numpy.bincount(reached[chosen], weights=weight[chosen], minlength=number)
        return counts[::-1].cumsum()[::-1]

    hits, alarms = at_least(positive), at_least(~positive)
    columns = (hits, alarms, alarms[0] - alarms, hits[0] - hits)
    return [column.astype(int).tolist() for column in columns]


def pr_rates(counts: list[list[int]]) -> list[list[float]]:
    """Return precision and recall."""
    hits, alarms, _, misses = counts
    return [_shares(hits, alarms), _shares(hits, misses)]


def roc_rates(counts: list[list[int]]) -> list[list[float]]:
    """Return true positive rate and false positive rate."""
    hits, alarms, rejections, misses = counts
    return [_shares(hits, misses), _shares(alarms, rejections)]


def _shares(part: list[int], rest: list[int]) -> list[float]:
    return [here / (here + other) if here + other else 0.0 for here, other in zip(part, rest, strict=True)]


def to_vectors(matrix: object) -> list[bytes]:
    """Return each row as little-endian float32. Raises TypeError for anything but a matrix."""
    array = to_array(matrix)
    if array.ndim != 2:
        raise TypeError(f"an embedding is a matrix with one row for each point, this has shape {array.shape}")
    return [row.tobytes() for row in array.astype("<f4")]


def to_labels(metadata: Any, rows: int) -> list[list[str]]:
    """Return the columns of each row's label, or its number. Raises TypeError unless there are ``rows``."""
    if metadata is None:
        return [[str(row)] for row in range(rows)]
    if hasattr(metadata, "tolist"):
        metadata = to_array(metadata).tolist()
    labels = [list(map(str, row)) if isinstance(row, (list, tuple)) else [str(row)] for row in metadata]
    if len(labels) != rows:
        raise TypeError(f"{len(labels)} labels for {rows} points")
    return labels


GRID_COLUMNS = 8
_CHANNELS = (1, 2, 3, 4)
_COLOR_TYPES = {1: 0, 2: 4, 3: 2, 4: 6}  # of a PNG: grey, grey and alpha, RGB, RGBA


def to_png(image: object, dataformats: str | None) -> bytes:
    """Return a PIL image, a matplotlib figure, a PNG or pixels as the bytes of a PNG. ``dataformats`` names
    the axes of pixels ("CHW", …); None guesses them by the possible channels. Raises TypeError."""
    if isinstance(image, (bytes, bytearray)):
        if not image.startswith(b"\x89PNG"):
            raise TypeError("these bytes are no PNG")
        return bytes(image)
    if hasattr(image, "save") and hasattr(image, "convert"):
        return _png_of_pil(image)
    if hasattr(image, "savefig"):
        return _png_of_pixels(figure_pixels(image))
    array = to_array(image)
    if array.dtype.kind not in "biuf":
        raise TypeError(f"{type(image).__name__} of {array.dtype} is no image")
    return _png_of_pixels(_levels(_to_hwc(array, dataformats or _guess_axes(array, image))))


def figure_pixels(figure: Any) -> Any:
    """Return the pixels of a matplotlib figure: height, width, 4 channels."""
    import numpy
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # type: ignore[import-not-found,unused-ignore]

    canvas: Any = FigureCanvasAgg(figure)
    canvas.draw()
    return numpy.array(canvas.buffer_rgba())


def close_figure(figure: Any) -> None:
    """Close a figure that ``pyplot`` would otherwise keep."""
    if (pyplot := sys.modules.get("matplotlib.pyplot")) is not None:
        pyplot.close(figure)


def outline(image: object, boxes: object, dataformats: str) -> Any:
    """Return the pixels (height, width, 3) with a red frame for each box (left, top, right, bottom)."""
    import numpy

    red = (255, 0, 0)
    pixels = _levels(_to_hwc(to_array(image), dataformats))
    pixels = numpy.ascontiguousarray(numpy.broadcast_to(pixels[..., :3], (*pixels.shape[:2], 3)))
    height, width, _ = pixels.shape
    for box in to_array(boxes).reshape(-1, 4).astype(int):
        left, right = numpy.clip(box[::2], 0, width - 1)
        top, bottom = numpy.clip(box[1::2], 0, height - 1)
        pixels[[top, bottom], left : right + 1] = red
        pixels[top : bottom + 1, [left, right]] = red
    return pixels


def _png_of_pil(image: Any) -> bytes:
    if image.mode not in ("1", "L", "LA", "P", "RGB", "RGBA"):
        image = image.convert("RGBA" if "A" in image.mode else "RGB")
    file = io.BytesIO()
    image.save(file, "PNG")
    return file.getvalue()


def _png_of_pixels(pixels: Any) -> bytes:
    """Encode ``pixels``, uint8 of height, width, channels (PNG, third edition, 5 and 11.2)."""
    import struct
    import zlib

    import numpy

    height, width, channels = pixels.shape
    rows = numpy.zeros((height, 1 + width * channels), numpy.uint8)  # each begins with its filter: none
    rows[:, 1:] = pixels.reshape(height, -1)

    def chunk(kind: bytes, content: bytes) -> bytes:
        body = kind + content
        return struct.pack(">I", len(content)) + body + struct.pack(">I", zlib.crc32(body))

    header = struct.pack(">IIBBBBB", width, height, 8, _COLOR_TYPES[channels], 0, 0, 0)
    content = chunk(b"IDAT", zlib.compress(rows.tobytes(), 3))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + content + chunk(b"IEND", b"")


def _levels(pixels: Any) -> Any:
    """Return pixels as uint8; leave the program's array as it is."""
    import numpy

    if pixels.dtype == numpy.uint8:
        return pixels
    if pixels.dtype.kind in "fb":
        # NaN becomes black
        pixels = numpy.nan_to_num(pixels.astype(numpy.float32), nan=0.0) * 255
    return numpy.clip(pixels, 0, 255).astype(numpy.uint8)


def _guess_axes(array: Any, image: object) -> str:
    if array.ndim == 2:
        return "HW"
    if array.ndim not in (3, 4):
        raise TypeError(f"an image has 2 or 3 axes, several have 4, this one has shape {array.shape}")
    first, last = (array.shape[-3] in _CHANNELS), (array.shape[-1] in _CHANNELS)
    # where both could be the channels: a tensor of a framework has them first, an array last
    channels_first = first and (not last or hasattr(image, "detach"))
    return ("N" if array.ndim == 4 else "") + ("CHW" if channels_first else "HWC")


def _to_hwc(array: Any, dataformats: str) -> Any:
    """Return an array of height, width, channels; several pictures become a grid."""
    import numpy

    axes = dataformats.upper()
    known = map(sorted, ("HW", "CHW", "NHW", "NCHW"))
    if sorted(axes) not in known or len(axes) != array.ndim:
        raise TypeError(f"dataformats={dataformats!r} does not fit an image of shape {array.shape}")
    if "C" not in axes:
        array, axes = array[..., None], axes + "C"
    if "N" not in axes:
        array, axes = array[None], "N" + axes
    array = array.transpose([axes.index(axis) for axis in "NHWC"])
    number, height, width, channels = array.shape
    if channels not in _CHANNELS or not array.size:
        raise TypeError(f"an image of shape {array.shape[1:]} (height, width, channels) cannot be shown")
    if number == 1:
        return array[0]
    columns = min(number, GRID_COLUMNS)
    rows = -(-number // columns)
    grid = numpy.zeros((rows * columns, height, width, channels), array.dtype)
    grid[:number] = array
    grid = grid.reshape(rows, columns, height, width, channels).swapaxes(1, 2)
    return grid.reshape(rows * height, columns * width, channels)
