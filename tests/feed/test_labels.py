"""Every word on the screen, in both languages."""

from __future__ import annotations

import pytest

from nbdist.diagnosis.exits import rank_ranges
from nbdist.feed.labels import clipped, cut, exit_text, pad, shortened, state_mark, state_word, width
from nbdist.model import Rank, RankState, RunState
from tests.fakes.runs import a_spec


@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_state_has_a_word_and_a_mark(language: str) -> None:
    for state in (*RunState, *RankState):
        assert state_word(state, language).isascii() == (language == "en")
        assert len(state_mark(state.value)) == 1


@pytest.mark.parametrize(
    ("ranks", "text"),
    [
        pytest.param([], "", id="none"),
        pytest.param([3], "3", id="one"),
        pytest.param([0, 1, 2, 3], "0–3", id="a range"),
        pytest.param([0, 2, 3, 7], "0, 2–3, 7", id="with gaps"),
    ],
)
def test_ranks_are_written_as_ranges(ranks: list[int], text: str) -> None:
    assert rank_ranges(ranks) == text


@pytest.mark.parametrize(
    ("state", "code", "english", "chinese"),
    [
        pytest.param(RankState.RUNNING, None, "", "", id="none yet"),
        pytest.param(
            RankState.FAILED,
            -11,
            "SIGSEGV (invalid memory access in native code)",
            "SIGSEGV（原生代码访问了无效内存）",
            id="a signal",
        ),
        pytest.param(
            RankState.STOPPED,
            -15,
            "stopped by nbdist (SIGTERM)",
            "由 nbdist 停止（SIGTERM）",
            id="we ended it",
        ),
    ],
)
def test_an_exit_is_read_aloud(state: RankState, code: int | None, english: str, chinese: str) -> None:
    rank = Rank(spec=a_spec().ranks[0], state=state, code=code)

    assert [exit_text(rank, language) for language in ("en", "zh")] == [english, chinese]


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
