"""Colours that are readable on light and on dark pages."""

from __future__ import annotations

import re

import pytest

from nbdist.panel.look import rank_chip, sheet

SHEET = sheet("x", "")
GREY, SHARE = 127, 0.1


def palette(page: str) -> dict[str, tuple[int, ...]]:
    """Return the colours of the sheet's first (light) or second (dark) rule."""
    rule = re.findall(r"\{([^}]*)\}", SHEET)[("light", "dark").index(page)]
    colours = dict(re.findall(r"--n-([\w-]+): #([0-9a-f]{3,6})", rule))
    wide = {
        name: value if len(value) == 6 else "".join(2 * digit for digit in value)
        for name, value in colours.items()
    }
    return {name: tuple(bytes.fromhex(value)) for name, value in wide.items()}


def luminance(colour: tuple[float, ...]) -> float:
    """Return the luminance of a colour by WCAG 2."""
    parts = [part / 255 for part in colour]
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(colour: tuple[float, ...], other: tuple[float, ...]) -> float:
    low, high = sorted((luminance(colour), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize(
    ("page", "ground"), [("light", (255, 255, 255)), ("dark", (33, 33, 33)), ("dark", (30, 30, 30))]
)
def test_text_in_every_colour_is_read_on_the_page_and_on_its_grey(page: str, ground: tuple[int, ...]) -> None:
    colours = palette(page)
    grey = tuple(part + (GREY - part) * SHARE for part in ground)

    assert contrast(colours["err"], colours["soft"]) >= 4.5
    for name in ("err", "ok", "brand", "warn", "red", "green", "yellow", "blue", "magenta", "cyan"):
        assert contrast(colours[name], ground) >= 4.5, name
        assert contrast(colours[name], grey) >= 4.5, name
    for rank in range(8):
        assert contrast(colours["on"], colours[str(rank)]) >= 4.5, rank


def test_a_chip_has_the_colour_of_its_rank_and_several_share_a_grey_one() -> None:
    assert "n-k1" in rank_chip("9")
    assert "n-k" not in rank_chip("0–7")
