"""The summary in the notebook: readable anywhere, and nothing in it acts."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from nbdist.feed.measures import glance
from nbdist.feed.view import view_of
from nbdist.model import Input, Reason, RunState
from nbdist.panel import curves_html, run_report, summary_bundle, summary_text
from nbdist.panel.summary_view import initial_html
from nbdist.worker.result_files import result
from tests.fakes.directories import WrittenRun
from tests.fakes.runs import (
    CREATED,
    STARTED,
    a_spec,
    errored,
    escalated,
    exited,
    rank_started,
    run_ended,
    run_lost,
    stop_requested,
)

LOST_ITS_PEER = Reason("ranks-failed", ranks=(0,))
EVIL = "</pre><script>alert('x')</script><img src=https://example.org/x onerror=y>&amp;"


@pytest.fixture
def finished(tmp_path: Path) -> WrittenRun:
    return (
        WrittenRun(tmp_path / "finished")
        .happened(*STARTED, exited(0), exited(1), run_ended(RunState.FINISHED, time=CREATED + 47.1))
        .printed(0, "epoch 1\nepoch 2\n")
        .recorded(0, loss=0.123456, acc=0.9)
    )


@pytest.fixture
def failed(tmp_path: Path) -> WrittenRun:
    written = WrittenRun(tmp_path / "failed")
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
    return Page(summary_bundle(written.run, written.directory, language)["text/html"])


def test_a_success_says_how_long_it_took_and_what_came_out(finished: WrittenRun) -> None:
    shown = page(finished)
    text = shown.text

    assert "n-ranks" not in str(shown.attributes), "of ranks that finished nothing is to be said"
    assert "✓ Finished lenet-k3f9 2 ranks · 0:47" in text
    assert "loss 0.1235" in text
    assert "acc 0.9" in text
    assert "rank 0epoch 1 epoch 2" in text
    assert "rank 1no output" in text
    assert "Full log: %dist_logs lenet-k3f9" in text


def test_a_failure_says_which_rank_and_which_line_and_how_the_others_ended(failed: WrittenRun) -> None:
    text = page(failed).text

    assert "✕ Failed lenet-k3f9 2 ranks · 0:12 · rank 1 failed" in text
    assert "0 ■ Stopped, SIGTERM, +1.0 s" in text
    assert "1 ✕ Failed first, exit 1" in text
    assert "rank 1 failed first: ValueError at line 9 of the cell at 0:09" in text
    assert "ValueError: bad batch" in text
    assert "1 other rank ended after it0 stopped by nbdist (SIGTERM)" in text


CELL = "".join(f"line_{number} = <{number}>\n" for number in range(1, 13))


@pytest.mark.parametrize(
    ("at", "shown"),
    [
        pytest.param(9, ("7", "8", "▸ 9", "10", "11"), id="in the middle"),
        pytest.param(1, ("▸ 1", "2", "3"), id="at the begin"),
        pytest.param(12, ("10", "11", "▸ 12"), id="at the end"),
    ],
)
def test_the_code_around_the_failure_is_shown(tmp_path: Path, at: int, shown: tuple[str, ...]) -> None:
    written = failure_at(WrittenRun(tmp_path, cell=CELL), at, source=f"line_{at} = <{at}>")

    summary = page(written)

    code = " ".join(f"{mark} line_{mark.split()[-1]} = <{mark.split()[-1]}>" for mark in shown)
    assert code in summary.text
    assert ("class", "n-at") in summary.attributes


def failure_at(written: WrittenRun, line: int, *, source: str) -> WrittenRun:
    written.happened(*STARTED, errored(1), exited(1, 1), run_ended(RunState.FAILED, "rank 1 failed"))
    return written.raised(1, "ValueError", "x", frames=[(written.spec.program, line, "<module>", source)])


@pytest.mark.parametrize(
    ("line", "source", "shown"),
    [
        pytest.param(3, "old = 1", "▸ 3 old = 1", id="a line that has changed"),
        pytest.param(99, "gone = 1", "▸ 99 gone = 1", id="a line that is gone"),
    ],
)
def test_of_a_script_that_has_changed_the_line_that_failed_is_shown(
    tmp_path: Path, line: int, source: str, shown: str
) -> None:
    script = tmp_path / "train.py"
    script.write_text("one = 1\ntwo = 2\nthree = 3\n")
    written = WrittenRun(tmp_path / "home", a_spec(program=str(script)))

    text = page(failure_at(written, line, source=source)).text

    assert f"at line {line} of train.py" in text
    assert shown in text
    assert "two = 2" not in text


def test_a_known_error_has_its_cause_and_its_fix(tmp_path: Path) -> None:
    written = WrittenRun(tmp_path).happened(*STARTED, exited(1, -11), run_ended(RunState.FAILED))

    assert re.search(r"Cause .+Fix .+", page(written).text)
    assert re.search(r"原因 .+解决方法 .+", page(written, "zh").text)


def numbered(count: int, of: str = "line") -> str:
    return "".join(f"{of} {number}\n" for number in range(1, count + 1))


def test_short_logs_stand_open_and_whole(tmp_path: Path) -> None:
    written = WrittenRun(tmp_path).printed(0, numbered(12, "early")).printed(1, numbered(8, "late"))
    written.happened(*STARTED, exited(0), exited(1), run_ended(RunState.FINISHED))

    markup = summary_bundle(written.run, written.directory, "en")["text/html"]

    assert markup.count("<details open>") == markup.count("<details") == 2
    assert "<pre>early 1\n" in markup
    assert "<pre>late 1\n" in markup
    assert "Ends of the logs" not in markup


def test_of_longer_logs_the_last_eight_lines_stand_open_as_far_as_a_look_goes(tmp_path: Path) -> None:
    written = WrittenRun(tmp_path, spec=a_spec(ranks=4))
    for rank in range(4):
        written.printed(rank, numbered(21, f"rank {rank} line"))
    started = [rank_started(rank) for rank in range(4)]
    written.happened(*STARTED[:1], *started, *(exited(rank) for rank in range(4)))
    written.happened(run_ended(RunState.FINISHED))

    markup = summary_bundle(written.run, written.directory, "en")["text/html"]

    assert markup.count("<details open>") == 2
    assert markup.count("<details>") == 2
    assert "<pre>…\nrank 3 line 14\n" in markup


def test_the_log_of_the_rank_that_failed_first_stands_open_whatever_others_wrote(tmp_path: Path) -> None:
    written = WrittenRun(tmp_path, spec=a_spec(ranks=4)).printed(3, "the last words\n")
    for rank in range(3):
        written.printed(rank, numbered(30, f"rank {rank} line"))
    started = [rank_started(rank) for rank in range(4)]
    ended = [exited(rank, -15, ended=True) for rank in range(3)]
    written.happened(*STARTED[:1], *started, exited(3, -9), *ended, run_ended(RunState.FAILED))

    markup = summary_bundle(written.run, written.directory, "en")["text/html"]

    assert "<details open><summary>rank 3 · Failed</summary><pre>the last words" in markup
    assert "<details><summary>rank 2" in markup


def test_metrics_have_curves_and_the_seventh_only_its_value(finished: WrittenRun) -> None:
    for step in range(5):
        finished.recorded(0, **{f"m{number}": step * number + 0.5 for number in range(7)})

    shown = page(finished)

    # loss and acc have but one point each
    assert shown.tags.count("svg") == 4
    assert ("aria-label", "m3: 0.5 → 12.5") in shown.attributes
    assert "m3 12.5 from 0.5" in shown.text
    assert "m4 16.5 · m5 20.5 · m6 24.5" in shown.text


def test_a_chinese_summary_is_chinese(finished: WrittenRun) -> None:
    text = page(finished, "zh").text

    assert "✓ 已完成 lenet-k3f9 2 个进程 · 0:47" in text
    assert "最新指标" in text
    assert "完整日志" in text


def test_a_chinese_failure_is_chinese(failed: WrittenRun) -> None:
    text = page(failed, "zh").text

    assert "1 ✕ 最先失败, 退出码 1" in text
    assert "进程 1 最先失败：ValueError，单元格第 9 行" in text
    assert "随后另有 1 个进程退出0 由 nbdist 停止（SIGTERM）" in text


def test_a_lost_run_has_a_summary(tmp_path: Path) -> None:
    written = WrittenRun(tmp_path).happened(*STARTED, run_lost("its supervisor disappeared"))

    assert "✕ Lost lenet-k3f9 2 ranks · 0:19 · its supervisor disappeared" in page(written).text
    assert "lenet-k3f9 lost: its supervisor disappeared" in run_report(written.run, written.directory)


def everything_evil(home: Path) -> WrittenRun:
    """Return a run in which every name and text of a user is an attack."""
    written = (
        WrittenRun(home, a_spec(name=EVIL), cell=f"{EVIL}\n" * 12)
        .printed(0, EVIL + "\n")
        .printed(1, EVIL + "\n")
    )
    written.recorded(0, **{EVIL: 1.0}).recorded(0, **{EVIL: 2.0})
    written.raised(1, "ValueError", EVIL, frames=[(written.spec.program, 9, EVIL, EVIL)])
    written.happened(*STARTED, errored(1), exited(1, 1), exited(0), run_ended(RunState.FAILED, EVIL))
    return written


def test_nothing_that_a_rank_says_becomes_markup(tmp_path: Path) -> None:
    written = everything_evil(tmp_path)

    for language in ("en", "zh"):
        shown = page(written, language)

        assert set(shown.tags) <= {
            *("style", "div", "span", "b", "code", "pre", "details", "summary", "svg", "polyline")
        }
        assert {name for name, _ in shown.attributes} <= {
            *("class", "aria-hidden", "open", "role", "aria-label", "viewbox", "width", "height"),
            *("preserveaspectratio", "fill", "stroke", "stroke-width", "stroke-linejoin"),
            *("vector-effect", "points", "data-run", "data-label"),
        }
        # its name at the top and at the bottom, why it failed, a metric, the code, the message, two logs
        assert shown.text.count("<script>") >= 8


@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_summary_runs_nothing_and_loads_nothing(failed: WrittenRun, language: str) -> None:
    markup = summary_bundle(failed.run, failed.directory, language)["text/html"]

    assert not re.search(r"<(script|link|img|iframe|object|embed)|https?:|url\(|@import|\bon\w+=", markup)


def test_colours_of_a_terminal_are_kept_and_nothing_else_of_it(tmp_path: Path) -> None:
    written = WrittenRun(tmp_path).printed(0, "\x1b[31mred\x1b[0m \x1b]8;;x\x07link\x1b]8;;\x07\x1b[2A\n")
    written.happened(*STARTED, exited(0, -11), exited(1), run_ended(RunState.FAILED))

    assert (
        '<pre><span class="n-c1">red</span> link</pre>'
        in summary_bundle(written.run, written.directory, "en")["text/html"]
    )


def test_a_progress_bar_is_one_line(finished: WrittenRun) -> None:
    finished.printed(1, "\r 10%|#  |\r 50%|## |\r100%|###|\n")

    assert "rank 1100%|###|" in page(finished).text


def test_ranks_that_wrote_the_same_share_the_end_of_their_logs(finished: WrittenRun) -> None:
    finished.printed(1, "epoch 1\nepoch 2\n")

    shown = page(finished)

    assert shown.tags.count("details") == 1
    assert "rank 0–1epoch 1 epoch 2" in shown.text


def test_only_the_end_of_a_long_log_is_kept(finished: WrittenRun) -> None:
    finished.printed(1, "".join(f"line {number}\n" for number in range(100_000)))

    markup = summary_bundle(finished.run, finished.directory, "en")["text/html"]

    assert "line 99992" in markup
    assert "line 99991" not in markup
    assert len(markup) < 10_000


WIDEST = {
    "markup": "<&>" * 5_000,
    "colours": "\x1b[31mx\x1b[0m" * 2_000,
    "Chinese": "损失" * 8_000,
    "a bar": "\r".join(f"{percent}%|" for percent in range(2_000)),
    "short lines": "<\n" * 10_000,
}


@pytest.mark.parametrize("output", WIDEST.values(), ids=WIDEST)
@pytest.mark.parametrize("ranks", [8, 64])
def test_a_notebook_stays_small_whatever_its_ranks_write(tmp_path: Path, ranks: int, output: str) -> None:
    written = WrittenRun(tmp_path, a_spec(ranks=ranks, name="n" * 60), cell=f"{output}\n" * 9)
    written.happened(*STARTED, *(rank_started(rank) for rank in range(2, ranks)))
    for rank in range(ranks):
        written.printed(rank, f"{rank} {output}\n" * 3)
        message = output if rank == 0 else output[:1_000]
        written.raised(
            rank, "E" * 500, message, frames=[(written.spec.program, 5, output[:99], output[:99])] * 50
        )
        written.happened(errored(rank), exited(rank, 1 + rank % 100))
    for number in range(40):
        written.recorded(0, **{f"{number} {output[:2_000]}": 1.0}).recorded(0, **{f"{number} x": 0.5})
    written.happened(run_ended(RunState.FAILED, output))

    bundle = summary_bundle(written.run, written.directory, "en", ["a note"])

    assert len(bundle["text/html"].encode()) < 50_000
    assert len(bundle["text/plain"].encode()) < 40_000
    Page(bundle["text/html"])


def test_of_many_ranks_those_that_matter_are_kept(tmp_path: Path) -> None:
    written = WrittenRun(tmp_path, a_spec(ranks=64))
    written.happened(*STARTED, *(rank_started(rank) for rank in range(2, 64)))
    for rank in range(64):
        written.printed(rank, f"words of {rank}\n")
    written.happened(
        exited(40, 3), exited(50, -9), *(exited(rank) for rank in range(64) if rank not in (40, 50))
    )
    written.happened(run_ended(RunState.FAILED, "rank 40 failed"))

    text = page(written).text

    assert [rank for rank in range(64) if f"words of {rank}" in text.replace(f"words of {rank}0", "")] == [
        *range(6), 40, 50
    ]  # fmt: skip
    assert "40 ✕ Failed first, exit 3" in text
    assert "50 ✕ Failed, SIGKILL" in text
    assert "0–39, 41–49, 51–63 ✓ Finished" in text
    assert "The ends of 8 of 64 logs are kept here." in text


def test_how_far_a_run_came_that_did_not_succeed(tmp_path: Path) -> None:
    written = WrittenRun(tmp_path).printed(0, "epoch 2/4: 50%|##  | 5/10 [00:01<00:01, 5.00it/s]\r")
    written.happened(*STARTED, run_ended(RunState.STOPPED, "stopped by ada"))

    assert page(written).text.startswith("■ Stopped")
    assert "at 37 %, epoch 2/4 · stopped by ada" in page(written).text


def test_a_stop_is_a_sentence_without_the_tracebacks_that_it_caused(tmp_path: Path) -> None:
    written = WrittenRun(tmp_path)
    trace = 'Traceback (most recent call last):\n  File "cell.py", line 3\nKeyboardInterrupt\n'
    written.printed(0, f"step 61/2000: loss 0.5\n{trace}saved\n")
    written.happened(*STARTED, stop_requested(), run_ended(RunState.STOPPED, "stopped by ada"))
    sentence = "You stopped it at step 61/2000 · stopped by ada"

    assert sentence in page(written).text
    assert "KeyboardInterrupt" not in page(written).text
    assert "saved" in page(written).text
    assert summary_text(written.run, written.directory, "en").endswith(f"{sentence} · loss=0.5")
    progress = glance(written.run, written.directory, 0.0).progress
    seen = view_of(written.run, now=CREATED + 9, progress=progress)
    assert (seen.reason, seen.reason_zh) == (sentence.partition(" · ")[0], "已由您停止，进度 step 61/2000")


def test_a_restart_of_the_kernel_is_no_stop_by_its_user(tmp_path: Path) -> None:
    written = WrittenRun(tmp_path)
    written.happened(*STARTED, stop_requested(), run_ended(RunState.STOPPED, Reason("kernel-restarted")))

    assert view_of(written.run, now=CREATED + 9).reason == "kernel restarted"


def test_plain_text_has_the_same_facts(failed: WrittenRun) -> None:
    failed.printed(1, "\x1b[31mthe last words\x1b[0m\n").recorded(0, loss=0.5)

    plain = summary_bundle(failed.run, failed.directory, "en", ["a note"])["text/plain"]

    for fact in (
        "Failed · 2 ranks · 0:12 · rank 1 failed",
        "loss=0.5",
        "0 ■ Stopped, SIGTERM, +1.0 s",
        "1 ✕ Failed first, exit 1",
        "rank 1 failed first: ValueError at line 9 of the cell",
        "ValueError: bad batch",
        "a note",
        "rank 1 · Failed · log\n    the last words",
    ):
        assert fact in plain


def test_the_text_says_the_same_in_a_few_lines(finished: WrittenRun, failed: WrittenRun) -> None:
    assert summary_text(finished.run, finished.directory, "en").splitlines() == [
        "[nbdist] lenet-k3f9 · Finished · 2 ranks · 0:47 · loss=0.1235 · acc=0.9",
    ]
    assert summary_text(failed.run, failed.directory, "en").splitlines() == [
        "[nbdist] lenet-k3f9 · Failed · 2 ranks · 0:12 · rank 1 failed",
        "[nbdist] rank 1 failed first: ValueError at line 9 of the cell",
    ]


def test_the_reason_names_the_rank_that_the_report_calls_the_first(tmp_path: Path) -> None:
    # the supervisor saw rank 0 go first, which had lost its peer
    written = WrittenRun(tmp_path / "home").happened(
        *STARTED, errored(1), exited(0, 1), exited(1, -11), run_ended(RunState.FAILED, LOST_ITS_PEER)
    )
    written.raised(1, "ValueError", "bad batch")

    assert "· rank 1 failed\n" in summary_text(written.run, written.directory, "en")
    assert "rank 1 failed" in page(written).text
    assert "rank 0 failed" not in page(written).text


def test_what_went_in_and_what_came_out_are_a_line_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs = (Input(name="df", type="DataFrame", size=48_000_000), Input(name="Net", type="class", size=900))
    written = WrittenRun(tmp_path, a_spec(inputs=inputs))
    monkeypatch.setenv("NBDIST_RANK_DIR", str(written.directory.rank(1).path))
    result(acc=0.93, evil=EVIL)
    written.happened(*STARTED, exited(0), exited(1), run_ended(RunState.FINISHED))

    english, chinese = page(written), page(written, "zh")

    assert "From the notebook df DataFrame, 48 MB · Net class" in english.text
    assert "Results acc 0.93, rank 1 · evil str, " in english.text
    assert "结果 acc 0.93, 进程 1" in chinese.text
    assert "script" not in english.tags
    assert summary_text(written.run, written.directory, "en").splitlines()[1:] == [
        "[nbdist] Results: acc (0.93, rank 1), evil (str, 81 B, rank 1)",
    ]


@pytest.mark.parametrize("language", ["en", "zh"])
def test_what_stands_in_for_a_widget_says_where_to_look(tmp_path: Path, language: str) -> None:
    shown = Page(initial_html(WrittenRun(tmp_path).run, language))

    assert "lenet-k3f9" in shown.text
    assert "%dist_status" in shown.text


@pytest.mark.parametrize(
    ("language", "expected"),
    [
        ("en", "lenet-k3f9 failed: the time limit of 60 s was reached"),
        ("zh", "lenet-k3f9 失败：已达到 60 秒的时限"),
    ],
)
def test_what_is_said_of_a_run_at_its_time_limit_is_in_the_readers_language(
    tmp_path: Path, language: str, expected: str
) -> None:
    run = WrittenRun(tmp_path / "home")
    run.happened(*STARTED, exited(0, -15), exited(1, -15))
    run.happened(run_ended(RunState.FAILED, Reason("time-limit", seconds=60)))

    assert run_report(run.run, run.directory, language).splitlines()[0] == expected


def test_where_visualdl_cannot_be_shown_there_are_still_curves_of_each_run(
    finished: WrittenRun, tmp_path: Path
) -> None:
    finished.recorded(0, loss=0.1)
    silent = WrittenRun(tmp_path / "other")

    shown = curves_html([(run.run, run.directory) for run in (finished, silent)], "en")

    assert re.findall(r"(loss|acc) <b>([\d.]+)</b>", shown) == [("loss", "0.1"), ("acc", "0.9")]
    assert shown.count("<polyline") == 1
    assert curves_html([(silent.run, silent.directory)], "en") == ""
