"""Escape sequences, taken out of what ranks write."""

from __future__ import annotations

import pytest

from nbdist.panel.ansi import strip_ansi


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        pytest.param("step 1 [32m]", "step 1 [32m]", id="none"),
        pytest.param("\x1b[31mred\x1b[0m", "red", id="colour"),
        pytest.param("\x1b[38;2;1;2;3mtrue\x1b[m", "true", id="true colour"),
        pytest.param("\x1b[1A\x1b[2Kbar", "bar", id="cursor"),
        pytest.param("\x1b[?25lhidden\x1b[?25h", "hidden", id="private modes"),
        pytest.param("\x1b]0;title\x07text", "text", id="a title"),
        pytest.param("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link", id="a link"),
        pytest.param("\x1bMup", "up", id="a short one"),
        pytest.param("损失 \x1b[1m0.5\x1b[0m", "损失 0.5", id="more than ASCII"),
    ],
)
def test_sequences_are_taken_out_and_text_stays(text: str, plain: str) -> None:
    assert strip_ansi(text) == plain
