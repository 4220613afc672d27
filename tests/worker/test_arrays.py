"""Objects of programs as VisualDL's content."""

from __future__ import annotations

import io
import wave
from typing import Any

import numpy as np
import pytest
from PIL import Image

from nbdist.worker import arrays


def shown(image: object, dataformats: str | None = None) -> Any:
    """Return the pixels of the opened PNG."""
    return np.asarray(Image.open(io.BytesIO(arrays.to_png(image, dataformats))))


RAMP = np.arange(2 * 5 * 3, dtype=np.uint8).reshape(2, 5, 3)


@pytest.mark.parametrize(
    ("image", "dataformats"),
    [
        pytest.param(RAMP, None, id="an array"),
        pytest.param(RAMP, "HWC", id="an array whose axes are named"),
        pytest.param(RAMP.transpose(2, 0, 1), "CHW", id="channels first"),
        pytest.param(RAMP.transpose(2, 0, 1), None, id="channels first, guessed"),
        pytest.param(RAMP.transpose(1, 0, 2), "WHC", id="width first"),
        pytest.param(RAMP.tolist(), None, id="nested lists"),
        pytest.param(RAMP / np.float32(255), None, id="floats from 0 to 1"),
        pytest.param(RAMP.astype(np.int64), None, id="integers"),
        pytest.param(Image.fromarray(RAMP), None, id="a PIL image"),
        pytest.param(arrays.to_png(RAMP, "HWC"), None, id="a PNG"),
        pytest.param(RAMP[None], "NHWC", id="one of several"),
    ],
)
def test_an_image_is_seen_as_it_is(image: object, dataformats: str | None) -> None:
    assert shown(image, dataformats).tolist() == RAMP.tolist()


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_each_number_of_channels_is_a_picture(channels: int) -> None:
    pixels = np.arange(4 * 6 * channels, dtype=np.uint8).reshape(4, 6, channels)

    assert shown(pixels, "HWC").reshape(4, 6, channels).tolist() == pixels.tolist()


def test_what_lies_outside_is_cut_off_and_the_original_is_left_alone() -> None:
    pixels = np.array([[-1.0, 0.5, 2.0, np.nan]])

    assert shown(pixels).tolist() == [[0, 127, 255, 0]]
    assert pixels[0, 1] == 0.5
    assert shown(np.array([[-5, 300]])).tolist() == [[0, 255]]
    assert shown(np.array([[True, False]])).tolist() == [[255, 0]]


def test_several_images_become_a_grid() -> None:
    images = np.stack([np.full((2, 3, 1), number, np.uint8) for number in range(10)])

    grid = shown(images, "NHWC")

    assert grid.shape == (2 * 2, 8 * 3)
    assert grid[::2, ::3].tolist() == [[0, 1, 2, 3, 4, 5, 6, 7], [8, 9, 0, 0, 0, 0, 0, 0]]


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGBA", "CMYK", "F", "YCbCr"])
def test_a_pil_image_of_any_mode_can_be_shown(mode: str) -> None:
    assert shown(Image.new(mode, (4, 3))).shape[:2] == (3, 4)


def test_a_figure_is_a_picture() -> None:
    matplotlib = pytest.importorskip("matplotlib.figure")

    assert shown(matplotlib.Figure(figsize=(2, 1), dpi=50)).shape == (50, 100, 4)


@pytest.mark.parametrize(
    ("image", "dataformats", "message"),
    [
        pytest.param(np.ones(3), None, "2 or 3 axes", id="one axis"),
        pytest.param(np.ones((5, 5, 7)), None, "cannot be shown", id="seven channels"),
        pytest.param(np.ones((2, 2)), "HWC", "dataformats='HWC' does not fit", id="an axis too few"),
        pytest.param(np.ones((2, 2, 3)), "HWX", "dataformats='HWX' does not fit", id="an unknown axis"),
        pytest.param(np.ones((0, 2, 3)), "HWC", "cannot be shown", id="nothing to see"),
        pytest.param(np.array(["a"]), None, "is no image", id="text"),
        pytest.param(b"GIF89a", None, "no PNG", id="another format"),
        pytest.param(object(), None, "is no image", id="anything"),
    ],
)
def test_what_is_no_image_is_a_type_error(image: object, dataformats: str | None, message: str) -> None:
    with pytest.raises(TypeError, match=message.replace("(", r"\(")):
        arrays.to_png(image, dataformats)


NAN = float("nan")


@pytest.mark.parametrize(
    ("sound", "frames"),
    [
        ([0.0, 1.0, -1.0, 2.0, NAN], [[0], [32767], [-32767], [32767], [0]]),
        (np.array([5, -6], np.int16), [[5], [-6]]),
        (np.array([[5, -6, 7], [1, 2, 3]], np.int16), [[5, 1], [-6, 2], [7, 3]]),
        (np.array([[5], [-6], [7]], np.int16), [[5], [-6], [7]]),
    ],
    ids=["floats", "int16", "two channels", "an axis of one"],
)
def test_a_sound_is_heard_as_it_is(sound: object, frames: list[list[int]]) -> None:
    content, channels, number = arrays.to_wav(sound, 8000)

    with wave.open(io.BytesIO(content)) as file:
        assert (file.getnchannels(), file.getnframes(), file.getframerate()) == (channels, number, 8000)
        heard = np.frombuffer(file.readframes(number), "<i2").reshape(-1, channels)
    assert heard.tolist() == frames


def test_three_channels_are_no_sound() -> None:
    with pytest.raises(TypeError, match=r"one or two channels, this one has shape \(3, 4\)"):
        arrays.to_wav(np.ones((3, 4)), 8000)


def test_a_histogram_counts_what_is_finite() -> None:
    counts, edges = arrays.to_histogram([0.0, 1.0, 1.0, np.nan, np.inf], 2)

    assert (counts, edges) == ([1, 2], [0, 0.5, 1])


@pytest.mark.parametrize(
    ("bins", "most", "expected"),
    [
        (10, None, 10),
        ("tensorflow", None, arrays.DEFAULT_BINS),
        ("auto", 5, 5),
        (10**9, None, arrays.MOST_BINS),
        ([0, 1, 2], None, 2),
    ],
)
def test_a_histogram_has_no_more_bins_than_a_page_can_show(
    bins: Any, most: int | None, expected: int
) -> None:
    assert len(arrays.to_histogram([1e-9, 1.0, 1e9], bins, most)[0]) == expected
    assert sum(arrays.to_histogram([], 10)[0]) == 0


def test_a_curve_counts_at_each_threshold() -> None:
    labels, predictions = [0, 1, 1, 0], [0.1, 0.9, 0.4, 0.6]

    counts = arrays.to_counts(labels, predictions, 3)

    # at least 0, 0.5, 1: all four, 0.9 and 0.6, none
    assert counts == [[2, 1, 0], [2, 1, 0], [0, 1, 2], [0, 1, 2]]
    assert arrays.pr_rates(counts) == [[0.5, 0.5, 0.0], [1.0, 0.5, 0.0]]
    assert arrays.roc_rates(counts) == [[1.0, 0.5, 0.0], [1.0, 0.5, 0.0]]


def test_a_curve_may_be_weighted() -> None:
    assert arrays.to_counts([1, 0], [1.0, 1.0], 2, weights=[3, 2])[:2] == [[3, 3], [2, 2]]


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        (None, [["0"], ["1"]]),
        (["a", "b"], [["a"], ["b"]]),
        ([["a", 1], ["b", 2]], [["a", "1"], ["b", "2"]]),
        (np.array([3, 4]), [["3"], ["4"]]),
    ],
)
def test_each_point_of_an_embedding_has_a_label(metadata: Any, expected: list[list[str]]) -> None:
    assert arrays.to_labels(metadata, 2) == expected
    with pytest.raises(TypeError, match="1 labels for 2 points"):
        arrays.to_labels(["a"], 2)
