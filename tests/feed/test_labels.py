"""Every word on the screen, in both languages."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from nbdist.diagnosis import Failure, describe_exit, failure_headline
from nbdist.diagnosis.exits import rank_ranges
from nbdist.feed.labels import clipped, cut, exit_text, pad, shortened, state_mark, state_word, width
from nbdist.model import Rank, RankState, RunState
from nbdist.programs.sources import Sources
from nbdist.store import ErrorFrame, ErrorReport, RunDirectory
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
        pytest.param(RankState.FAILED, 3, "exit 3", "退出码 3", id="a code"),
        pytest.param(
            RankState.FAILED,
            -11,
            "SIGSEGV (invalid memory access in native code)",
            "SIGSEGV（原生代码访问了无效内存）",
            id="a signal",
        ),
        pytest.param(RankState.FAILED, -10, "SIGUSR1", "SIGUSR1", id="a signal without a meaning"),
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


def a_failure(**changes: object) -> Failure:
    values = {
        "rank": 1,
        "code": -9,
        "time": 0.0,
        "report": None,
        "tail": (),
        "others": (),
        "sources": Sources("/cell.py", RunDirectory(Path("/"))),
    }
    return Failure(**(values | changes))


REPORT = ErrorReport(
    type="torch.OutOfMemoryError",
    message="",
    frames=(ErrorFrame(file="/cell.py", line=4, function="f", source="f()"),),
    text="",
    time=0.0,
)
REPORT_OF_A_SCRIPT = replace(REPORT, frames=(replace(REPORT.frames[0], file="/train.py"),))


@pytest.mark.parametrize(
    ("failure", "english", "chinese"),
    [
        pytest.param(
            a_failure(report=REPORT),
            "rank 1 failed first: OutOfMemoryError at line 4 of the cell",
            "进程 1 最先失败：OutOfMemoryError，单元格第 4 行",
            id="an exception in the cell",
        ),
        pytest.param(
            a_failure(report=REPORT_OF_A_SCRIPT, sources=Sources("/train.py", RunDirectory(Path("/")))),
            "rank 1 failed first: OutOfMemoryError at line 4 of train.py",
            "进程 1 最先失败：OutOfMemoryError，train.py 第 4 行",
            id="an exception in a script",
        ),
        pytest.param(
            a_failure(code=3), "rank 1 failed first: exit 3", "进程 1 最先失败：退出码 3", id="an exit"
        ),
        pytest.param(
            a_failure(code=1, early_exits=(0, 2, 3)),
            "rank 1 failed: exit 1 (ranks 0, 2, 3 had already finished)",
            "进程 1 失败：退出码 1（进程 0, 2–3 此前已完成）",
            id="others had ended",
        ),
        pytest.param(
            a_failure(code=1, absent=(0,)),
            "rank 1 timed out waiting for rank 0: exit 1",
            "进程 1 等待进程 0 超时：退出码 1",
            id="others did not come",
        ),
    ],
)
def test_a_failure_has_a_title(failure: Failure, english: str, chinese: str) -> None:
    assert [failure_headline(failure, language) for language in ("en", "zh")] == [english, chinese]


def test_what_the_page_says_of_exits_in_chinese_is_what_is_said_here() -> None:
    samples = json.loads(Path("tests/fixtures/exits.json").read_text())

    assert [describe_exit(**sample["asked"]) for sample in samples] == [sample["en"] for sample in samples]
    assert [describe_exit(**sample["asked"], language="zh") for sample in samples] == [
        sample["zh"] for sample in samples
    ]


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
