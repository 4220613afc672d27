"""What stays in the notebook: readable anywhere, and nothing in it acts."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from nbdist.model import RunState
from nbdist.panel import summary_html, summary_text
from nbdist.panel.summary import initial_html
from tests.fakes.directories import WrittenRun
from tests.fakes.runs import CREATED, STARTED, a_spec, errored, escalated, exited, run_ended, run_lost

EVIL = "</pre><script>alert('x')</script><img src=https://example.org/x onerror=y>&amp;"


@pytest.fixture
def succeeded(tmp_path: Path) -> WrittenRun:
    return (
        WrittenRun(tmp_path / "home")
        .happened(*STARTED, exited(0), exited(1), run_ended(RunState.SUCCEEDED, time=CREATED + 47.1))
        .printed(0, "epoch 1\nepoch 2\n")
        .recorded(0, loss=0.123456, acc=0.9)
    )


@pytest.fixture
def failed(tmp_path: Path) -> WrittenRun:
    written = WrittenRun(tmp_path / "home")
    written.happened(*STARTED, errored(1), escalated(0), exited(0, -15, ended=True), exited(1, 1))
    written.happened(run_ended(RunState.FAILED, "rank 1 failed", time=CREATED + 12.1))
    return written.raised(
        1, "ValueError", "bad batch", frames=[(written.spec.program, 9, "<module>", "raise ValueError")]
    )


class Page(HTMLParser):
    """A piece of HTML as a browser understands it."""

    def __init__(self, markup: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self._open: list[str] = []
        self._texts: list[str] = []
        self.feed(markup)
        assert self._open == [], "every tag that was opened is closed"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._open.append(tag)
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self._open:
            self._texts.append(data)

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", "".join(self._texts))


def page(written: WrittenRun, language: str = "en") -> Page:
    return Page(summary_html(written.run, written.directory, language))


def test_a_success_says_how_long_it_took_and_what_came_out(succeeded: WrittenRun) -> None:
    text = page(succeeded).text

    assert "✓ Finished lenet-k3f9 2 ranks · 0:47" in text
    assert "Last values: loss 0.1235 acc 0.9" in text
    assert "rank 0 · Finished · end of the logepoch 1 epoch 2" in text
    assert "rank 1 · Finished · end of the logno output" in text
    assert "Full log: %dist_logs lenet-k3f9" in text


def test_a_failure_says_which_rank_and_which_line(failed: WrittenRun) -> None:
    text = page(failed).text

    assert "✕ Failed lenet-k3f9 2 ranks · 0:12 · rank 1 failed" in text
    assert "rank 1 failed first: ValueError at line 9 of the cell" in text


def test_a_chinese_summary_is_chinese(succeeded: WrittenRun) -> None:
    text = page(succeeded, "zh").text

    assert "✓ 已完成 lenet-k3f9 2 个进程 · 0:47" in text
    assert "最新指标" in text
    assert "完整日志" in text


@pytest.mark.parametrize(
    ("state", "mark"),
    [
        pytest.param(RunState.SUCCEEDED, "✓", id="success"),
        pytest.param(RunState.FAILED, "✕", id="failure"),
        pytest.param(RunState.CANCELLED, "■", id="a stop"),
    ],
)
def test_every_end_has_its_mark(tmp_path: Path, state: RunState, mark: str) -> None:
    written = WrittenRun(tmp_path).happened(*STARTED, run_ended(state))

    assert page(written).text.startswith(mark)


def test_a_lost_run_has_a_summary(tmp_path: Path) -> None:
    written = WrittenRun(tmp_path).happened(*STARTED, run_lost("gone without a word"))

    assert "✕ Lost lenet-k3f9 2 ranks · 0:19 · gone without a word" in page(written).text


def everything_evil(home: Path) -> WrittenRun:
    """A run in which all that a user can name or print is an attack."""
    written = WrittenRun(home, a_spec(name=EVIL)).printed(0, EVIL + "\n").printed(1, EVIL + "\n")
    written.recorded(0, **{EVIL: 1.0})
    written.raised(1, "ValueError", EVIL, frames=[(written.spec.program, 9, EVIL, EVIL)])
    written.happened(*STARTED, errored(1), exited(1, 1), exited(0), run_ended(RunState.FAILED, EVIL))
    return written


def test_nothing_that_a_rank_says_becomes_markup(tmp_path: Path) -> None:
    found = page(everything_evil(tmp_path))

    assert set(found.tags) == {"style", "div", "span", "b", "code", "pre", "details", "summary"}
    assert {name for name, _ in found.attributes} == {"class", "style", "aria-hidden"}
    # its name at the top and at the bottom, why it failed, a metric, and two logs
    assert found.text.count("<script>") == 6


@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_summary_runs_nothing_and_loads_nothing(failed: WrittenRun, language: str) -> None:
    markup = summary_html(failed.run, failed.directory, language)

    assert not re.search(r"<(script|link|img|iframe|object|embed)|https?:|url\(|@import|\bon\w+=", markup)


def test_colours_of_a_terminal_are_left_out(tmp_path: Path) -> None:
    written = WrittenRun(tmp_path).printed(0, "\x1b[31mred\x1b[0m \x1b]8;;x\x07link\x1b]8;;\x07\n")
    written.happened(*STARTED, exited(0, -11), exited(1), run_ended(RunState.FAILED))

    found = page(written)

    assert "end of the logred linkrank 1" in found.text


def test_only_the_end_of_a_long_log_is_kept(succeeded: WrittenRun) -> None:
    succeeded.printed(1, "".join(f"line {number}\n" for number in range(100_000)))

    markup = summary_html(succeeded.run, succeeded.directory, "en")

    assert "line 99999" in markup
    assert "line 99984" not in markup
    assert len(markup) < 5000


def test_a_run_of_many_ranks_keeps_the_notebook_small(tmp_path: Path) -> None:
    written = WrittenRun(tmp_path, a_spec(ranks=64)).happened(run_lost())

    assert page(written).tags.count("details") == 8


def test_the_text_says_the_same_in_a_few_lines(succeeded: WrittenRun) -> None:
    assert summary_text(succeeded.run, succeeded.directory, "en").splitlines() == [
        "[nbdist] lenet-k3f9 · Finished · 2 ranks · 0:47",
        "[nbdist] Last values: loss=0.1235  acc=0.9",
    ]


def test_the_text_of_a_failure_names_it(failed: WrittenRun) -> None:
    assert summary_text(failed.run, failed.directory, "en").splitlines() == [
        "[nbdist] lenet-k3f9 · Failed · 2 ranks · 0:12 · rank 1 failed",
        "[nbdist] rank 1 failed first: ValueError at line 9 of the cell",
    ]


@pytest.mark.parametrize("language", ["en", "zh"])
def test_what_stands_in_for_a_widget_says_where_to_look(tmp_path: Path, language: str) -> None:
    found = Page(initial_html(WrittenRun(tmp_path).run, language))

    assert "lenet-k3f9" in found.text
    assert "%dist_status" in found.text
