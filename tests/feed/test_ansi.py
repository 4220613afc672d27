"""Escape sequences in text of ranks: removed, or kept where they are colours."""

from __future__ import annotations

import pytest

from nbdist.feed.ansi import ansi_html, colours_alone, harmless, printable, strip_ansi


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


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        pytest.param("step\t1 损失", "step\t1 损失", id="plain text, as it is"),
        pytest.param("\x1b[31mred", "\x1b[31mred\x1b[0m", id="a colour ends with its line"),
        pytest.param("\x1b[2A\x1b[Kup \x1b[1mbold", "up \x1b[1mbold\x1b[0m", id="the cursor stays"),
        pytest.param("\x1b]0;title\x07text", "text", id="no titles"),
        pytest.param("bell\x07 back\x08 feed\x0c", "bell back feed", id="no control characters"),
        pytest.param("\x9b2Aeight bits", "2Aeight bits", id="nor those of eight bits"),
        pytest.param("half \x1b[3", "half [3", id="half a sequence"),
    ],
)
def test_on_a_terminal_colours_are_kept_and_nothing_else_acts(text: str, kept: str) -> None:
    assert colours_alone(text) == kept


def test_what_is_printable_takes_as_many_columns_as_it_has_characters() -> None:
    assert printable("\x1b[31ma\tb\x00\x1b[0m") == "a       b"
    assert printable("a\u202eb\u2066c\x9b2Jd") == "abc2Jd"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        pytest.param("a\tb\n损失 0.5\n", None, id="plain lines"),
        pytest.param("\x1b[31mred\x1b[0m", None, id="a colour"),
        pytest.param("\x1b[1;31mred\x1b[0;39m on", "\x1b[1;31mred\x1b[0;39m on\x1b[0m", id="left with one"),
        pytest.param("\x1b[31mred\nnext", "\x1b[31mred\x1b[0m\nnext", id="a colour ends with its line"),
        pytest.param("50 %\r\x1b[K60 %\x1b[3D\x1b[12G\x1b[2C\b", "50 %60 %", id="moves within the line"),
        pytest.param("\x1b[2A\x1b[2J\x1b[3;4Hx\x1b[6n\x1b[?1049h", "x", id="moves elsewhere and questions"),
        pytest.param("a\x1b]52;c;aGk=\x07b\x1b]0;title\x1b\\c", "abc", id="clipboard and title"),
        pytest.param("a\x1b]52;c;aGk=\nb\x07", "a52;c;aGk=\nb", id="one that does not end"),
        pytest.param('\x1bP$q"p\x1b\\x', '$q"px', id="a device control string"),
        pytest.param("\x1bPtmux;\x1b\x1b]52;c;aGk=\x07\x1b\\x", "tmux;x", id="one within another"),
        pytest.param("\x1b\x1b]0;t\x07]52;c;aGk=\x07x", "]52;c;aGk=x", id="one that is made of what is left"),
        pytest.param("\x9d52;c;aGk=\x9cx\x9b2J", "52;c;aGk=x2J", id="eight bits"),
        pytest.param("\x1bcx\x1b(0y\x0ez\x0b\x7f", "cx(0yz", id="resets and alphabets"),
        pytest.param("损\x1b]0;t\x07失", "损失", id="among other characters"),
    ],
)
def test_lines_for_a_terminal_keep_colours_alone(text: str, shown: str | None) -> None:
    assert harmless(text) == (text if shown is None else shown)


@pytest.mark.parametrize(
    ("text", "markup"),
    [
        pytest.param("a < b & c", "a &lt; b &amp; c", id="no colour"),
        pytest.param("\x1b[31mred\x1b[0m.", '<span class="n-c1">red</span>.', id="red"),
        pytest.param("\x1b[92mbright\x1b[39m.", '<span class="n-c2">bright</span>.', id="bright"),
        pytest.param("\x1b[1;4;33mx\x1b[22;24my", '<span class="n-c3 n-cb n-cu">x</span>'
                     '<span class="n-c3">y</span>', id="bold and underlined"),
        pytest.param("\x1b[2;3mx\x1b[23m", '<span class="n-cd n-ci">x</span>', id="dim and italic"),
        pytest.param("\x1b[30;47mx\x1b[97my", "xy", id="black and white are the page's own"),
        pytest.param("\x1b[90mx", '<span class="n-c7">x</span>', id="grey"),
        pytest.param("\x1b[38;5;208mx", '<span class="n-c3">x</span>', id="orange of 256"),
        pytest.param("\x1b[38;5;12mx", '<span class="n-c4">x</span>', id="the 16 of 256"),
        pytest.param("\x1b[38;5;240mx", '<span class="n-c7">x</span>', id="the greys of 256"),
        pytest.param("\x1b[38;2;30;160;220mx", '<span class="n-c6">x</span>', id="true colour"),
        pytest.param("\x1b[48;2;1;2;3;35mx", '<span class="n-c5">x</span>', id="behind a background"),
        pytest.param("\x1b[38;5mx\x1b[38mx\x1b[;mx", "xxx", id="what is cut off"),
        pytest.param("\x1b[99;1337mx", "x", id="what nobody knows"),
        pytest.param("\x1b[31m<b>\x1b]8;;javascript:x\x07\x1b[0m", '<span class="n-c1">&lt;b&gt;</span>',
                     id="markup and links"),
    ],
)  # fmt: skip
def test_colours_become_spans_and_text_stays_text(text: str, markup: str) -> None:
    assert ansi_html(text) == markup
