"""Pictures, sounds, text, distributions, curves and embeddings of a rank, as records of VisualDL.

A bad argument raises a TypeError that names the tag. A problem of the machine (no numpy, no space) prints one
line, and the program goes on. Outside a run all of this does nothing.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from nbdist.worker import arrays, records
from nbdist.worker.files import say_once
from nbdist.worker.metrics_log import whole_number

Numbers = Sequence[float]
Time = float | None
"""Unix seconds; None for now."""

LARGEST = 1 << 27
"""Bytes of a record; the board treats a much longer one as a damaged file."""


def log_image(
    tag: str, image: object, step: object = None, *, dataformats: str | None = None, walltime: Time = None
) -> None:
    """Show an image: pixels, a PIL image, a matplotlib figure, or the bytes of a PNG.

    Pixels are a tensor, an array or nested lists; floats go from 0 to 1, integers from 0 to 255.
    ``dataformats`` names their axes ("CHW", "HWC", "HW", "NCHW"); without it nbdist guesses the axis of the
    channels. Several become a grid. VisualDL shows it, and the panel among the lines of the log.
    """
    if png := write_image(tag, image, step, dataformats, walltime):
        from nbdist.worker import display

        display.show_picture(png, f"<{tag}>" if step is None else f"<{tag}, step {step}>")


def write_image(tag: str, image: object, step: object, dataformats: str | None, walltime: Time) -> bytes:
    """Show an image in VisualDL alone; return the written PNG, empty for none."""
    png = b""

    def encode() -> bytes:
        nonlocal png
        png = arrays.to_png(image, dataformats)
        return records.image(png)

    _write("image", tag, step, walltime, encode)
    return png


def log_audio(
    tag: str, audio: object, step: object = None, *, sample_rate: int = 44100, walltime: Time = None
) -> None:
    """Record a sound: samples from -1 to 1 (or int16), in one or two channels."""
    rate = int(sample_rate)
    _write("audio", tag, step, walltime, lambda: records.audio(*arrays.to_wav(audio, rate), rate))


def log_text(tag: str, text: object, step: object = None, *, walltime: Time = None) -> None:
    """Show a text, or ``str`` of any other value."""
    _write("text", tag, step, walltime, lambda: records.text(str(text)))


def log_histogram(
    tag: str,
    values: object,
    step: object = None,
    *,
    bins: int | str | Numbers = arrays.DEFAULT_BINS,
    max_bins: int | None = None,
    walltime: Time = None,
) -> None:
    """Show the distribution of finite values in a tensor or an array. ``bins``: at most 512, or the edges."""
    given = (values, bins, max_bins)
    _write("histogram", tag, step, walltime, lambda: records.histogram(*arrays.to_histogram(*given)))


def log_bins(tag: str, counts: Numbers, edges: Numbers, step: object, walltime: Time) -> None:
    """Show a histogram that was counted before; ``edges`` are one more than ``counts``."""
    _write("histogram", tag, step, walltime, lambda: records.histogram(*map(_floats, (counts, edges))))


def _floats(values: Numbers) -> list[float]:
    return list(map(float, values))


def log_pr_curve(
    tag: str,
    labels: object,
    predictions: object,
    step: object = None,
    *,
    num_thresholds: int = arrays.MOST_THRESHOLDS,
    weights: object = None,
    walltime: Time = None,
) -> None:
    """Show precision over recall. ``labels`` are 0 or 1, ``predictions`` the probability of 1."""
    given = (labels, predictions, num_thresholds, weights)
    _write("pr_curve", tag, step, walltime, lambda: _curve(records.pr_curve, arrays.pr_rates, *given))


def log_pr_counts(
    tag: str, counts: Sequence[Numbers], rates: Sequence[Numbers], step: object, walltime: Time
) -> None:
    """Show a PR curve that was counted before; see ``records.pr_curve``."""

    def encode() -> bytes:
        return records.pr_curve([list(map(int, column)) for column in counts], list(map(_floats, rates)))

    _write("pr_curve", tag, step, walltime, encode)


def log_roc_curve(
    tag: str,
    labels: object,
    predictions: object,
    step: object = None,
    *,
    num_thresholds: int = arrays.MOST_THRESHOLDS,
    weights: object = None,
    walltime: Time = None,
) -> None:
    """Show the true positive rate over the false positive rate, with the arguments of ``log_pr_curve``."""
    given = (labels, predictions, num_thresholds, weights)
    _write("roc_curve", tag, step, walltime, lambda: _curve(records.roc_curve, arrays.roc_rates, *given))


def _curve(encode: Callable[..., bytes], rates_of: Callable[..., Any], *given: Any) -> bytes:
    counts = arrays.to_counts(*given)
    return encode(counts, rates_of(counts))


def log_embedding(
    tag: str,
    vectors: object,
    labels: object = None,
    step: object = None,
    *,
    header: Sequence[str] | None = None,
    walltime: Time = None,
) -> None:
    """Show points of many dimensions, a row of ``vectors`` each.

    ``labels``: a label for each row, or a row of labels, whose columns ``header`` names. VisualDL shows only
    the first embedding of a tag, so with a ``step`` the tag is ``tag:step``.
    """
    name = tag if step is None else f"{tag}:{whole_number('step', step)}"

    def encode() -> bytes:
        rows = arrays.to_vectors(vectors)
        columns = arrays.to_labels(labels, len(rows))
        several = columns and len(columns[0]) > 1
        names = [f"label_{column}" for column in range(len(columns[0]))] if several else []
        return records.embeddings(rows, columns, list(map(str, header or names)))

    _write("embeddings", name, step, walltime, encode)


_counts: dict[tuple[str, str], int] = {}


def _write(kind: str, tag: str, step: object, walltime: Time, value: Callable[[], bytes]) -> None:
    """Encode a record and append it."""
    if not records.board():
        return
    if not isinstance(tag, str) or not tag:  # type: ignore[redundant-expr]
        raise TypeError(f"nbdist.log_{kind}(…): a tag is a text that is not empty, not {tag!r}")
    at = _counts.get((kind, tag), 0) if step is None else whole_number("step", step)
    _counts[kind, tag] = at + 1
    seconds = time.time() if walltime is None else float(walltime)
    try:
        frame = records.encode(tag, at, round(seconds * 1000), value())
        if len(frame) > LARGEST:
            size = f"{len(frame) >> 20} MiB, and VisualDL gets at most {LARGEST >> 20}"
            say_once(f"{tag} has {size}: it is left out")
            return
        records.append_record(kind, frame)
    except (TypeError, ValueError) as error:
        raise TypeError(f"nbdist: {kind} {tag}: {error}") from error
    except ImportError as error:
        say_once(f"{kind} {tag} is left out: {error} (in {sys.executable})")
    except OSError as error:
        say_once(f"{kind} {tag} is not written: {error.strerror or error}")
