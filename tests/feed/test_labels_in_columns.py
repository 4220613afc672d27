"""Text cut to what there is room for."""

from __future__ import annotations

import pytest

from nbdist.feed.labels import clipped, cut, pad, shortened, width


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        pytest.param("step 1", 6, id="ASCII"),
        pytest.param("损失 0.5", 8, id="Chinese"),
        pytest.param("🚀", 2, id="a picture"),
        pytest.param("e\u0301", 1, id="an accent of its own"),
        pytest.param("100%|██▌ |", 10, id="a bar"),
    ],
)
def test_text_is_as_wide_as_a_terminal_makes_it(text: str, columns: int) -> None:
    assert width(text) == columns
    assert width(pad(text, 20)) == 20


@pytest.mark.parametrize(
    ("columns", "text"),
    [
        pytest.param(9, "损失 0.5x", id="it fits"),
        pytest.param(8, "损失 0.…", id="it does not"),
        pytest.param(4, "损…", id="half a character is none"),
        pytest.param(1, "…", id="one column"),
        pytest.param(0, "", id="no column"),
    ],
)
def test_text_is_cut_between_characters(columns: int, text: str) -> None:
    assert cut("损失 0.5x", columns) == text
    assert width(cut("损失 0.5x", columns)) <= columns


def test_text_is_cut_by_characters_at_its_end_or_in_its_middle() -> None:
    assert clipped("abcdef", 6) == "abcdef"
    assert clipped("abcdef", 4) == "abc…"
    assert shortened("abcdef", 6) == "abcdef"
    assert shortened("abcdef", 4) == "ab\n…\nef"
