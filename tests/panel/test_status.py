"""Runs and their ranks as a table, once or repeatedly."""

from __future__ import annotations

import json
import time
import unicodedata
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from nbdist.feed.view import NoteView
from nbdist.model import RunState
from nbdist.model.events import CellEnded, CellStarted
from nbdist.panel import StatusReader, status_text
from nbdist.panel.status import status_html
from tests.fakes.directories import WrittenRun
from tests.fakes.runs import CREATED, STARTED, a_spec, errored, exited, run_ended
from tests.fakes.views import a_rank, a_run, so_far

NOTHING = {"pid": None, "memory": None, "gpu_memory": None, "gpu": None, "rate": None}
VIEW = a_run(
    [
        a_rank(0),
        a_rank(1, state="failed", exit="exit 1", last_line="损失 0.5", **NOTHING),
        a_rank(11, memory=312_000_000, gpu_memory=None, gpu=None, cpu=100.0, last_line=""),
    ],
    elapsed=65.0,
    progress=so_far(0.62),
)


def test_a_table_stands_in_columns() -> None:
    assert status_text([VIEW], "en").splitlines() == [
        "run         rank  state           device  pid   memory      use    step/s  elapsed  last line",
        "lenet-k3f9        Running                                                  1:05     62 % · epoch 3/4"
        " · 0:51 left",
        "            0     Running         GPU 0   4001  11.2/80 GB  81 %   7.9     1:01     step 0",
        "            1     Failed, exit 1  GPU 1                                    1:01     损失 0.5",
        "            11    Running         GPU 11  4012  312 MB      100 %  7.9     1:01",
    ]


def test_what_is_not_known_of_any_rank_has_no_column() -> None:
    text = status_text([a_run([a_rank(0, **NOTHING)])], "en")

    assert text.splitlines()[0].split() == [
        *("run", "rank", "state", "device", "pid", "memory", "elapsed", "last", "line")
    ]


def test_names_and_last_lines_do_not_act_on_a_terminal_nor_turn_its_text_round() -> None:
    rank = a_rank(0, device="GPU 0 · \x1b]0;x\x07n1\x9b2J", last_line="a\u202eb\x1b]52;c;aGk=")

    text = status_text([a_run([rank], label="lenet\x9d0;x\u2066-k3f9")], "en")

    assert text.replace("\n", "").isprintable()
    assert "lenet0;x-k3f9" in text
    assert "GPU 0 · n12J" in text
    assert text.endswith("ab52;c;aGk=")


def columns(text: str) -> int:
    """Count the columns of a text in a terminal."""
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text)


def test_a_chinese_table_stands_in_the_columns_of_a_terminal() -> None:
    lines = status_text([VIEW], "zh").splitlines()

    begins = [
        columns(line[: line.index(word)])
        for line, word in zip(lines, ("设备", "", "GPU 0", "GPU 1", "GPU 11"), strict=True)
        if word
    ]
    assert begins == [begins[0]] * 4
    assert "失败, exit 1" in lines[3]


def test_a_session_that_waits_for_a_cell_is_idle_and_says_which_was_the_last(tmp_path: Path) -> None:
    cell = CellStarted(time=CREATED + 50, cell=3, ranks=(0, 1), line="loss = step()")
    session = WrittenRun(tmp_path, a_spec(session=60.0)).happened(*STARTED, cell)

    busy = status_text(StatusReader([session.directory]).look(CREATED + 60), "en")
    session.happened(*(CellEnded(time=CREATED + 70, cell=3, rank=rank, outcome="ok") for rank in (0, 1)))
    views = StatusReader([session.directory]).look(CREATED + 90)

    assert "Running" in busy
    assert "cell 3: loss = step()" in busy
    assert "Idle" in status_text(views, "en").splitlines()[1]
    assert "the last cell was 3: loss = step()" in status_text(views, "en")
    assert "空闲" in status_text(views, "zh")


def test_a_run_that_has_ended_is_one_line_beside_others_and_has_its_ranks_alone(tmp_path: Path) -> None:
    spec = a_spec(notebook="/home/ada/lenet.ipynb", cell_id="a1-b2")
    ended = WrittenRun(tmp_path / "ended", spec).happened(
        *STARTED, exited(0), exited(1), run_ended(RunState.FINISHED, time=CREATED + 60)
    )
    ended.recorded(0, lr=0.001, loss=0.0639).recorded(1, lr=0.001, loss=0.0231)
    going_on = WrittenRun(tmp_path / "going on").happened(*STARTED)

    both = StatusReader([ended.directory, going_on.directory]).look(CREATED + 90)
    lines, page = status_text(both, "en").splitlines(), Table(status_html(both, "en", CREATED)).rows

    when = time.strftime("%m-%d %H:%M", time.localtime(CREATED + 60))
    assert lines[1].endswith(f"lenet.ipynb · {when} · loss 0.0435 · lr 0.001")
    assert page[1][0].endswith(f"lenet.ipynb · {when} · loss 0.0435 · lr 0.001")
    assert [len(lines), len(page)] == [1 + 1 + 3] * 2
    assert len(status_text(both[:1], "en").splitlines()) == 1 + 3
    assert status_text([both[0]] * 2, "en").splitlines()[0].split() == [
        "run",
        "state",
        "elapsed",
        "last",
        "line",
    ]
    assert "device" not in status_html([both[0]] * 2, "en", CREATED)
    assert 'href="../lenet.ipynb#cell-id=a1-b2"' in status_html(both, "en", CREATED, beside="/home/ada/more")


@pytest.mark.parametrize("language", ["en", "zh"])
def test_without_runs_it_says_how_to_start_one(language: str) -> None:
    assert "%%distributed -n 2" in status_text([], language)
    assert "%%distributed -n 2" in status_html([], language, CREATED)


class Table(HTMLParser):
    """The cells of a table, row by row, as a browser understands them."""

    def __init__(self, markup: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.tags: set[str] = set()
        self._in_cell = False
        self.feed(markup)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
            self._in_cell = True

    def handle_endtag(self, tag: str) -> None:
        self._in_cell = self._in_cell and tag not in ("td", "th")

    def handle_data(self, data: str) -> None:
        if self._in_cell:
            self.rows[-1][-1] += data


def test_the_html_has_a_heading_for_a_run_and_a_line_for_each_rank() -> None:
    table = Table(status_html([VIEW], "en", CREATED))

    assert table.rows == [
        ["rank", "state", "device", "memory", "use", "step/s", "elapsed", "pid", "last line"],
        ["● Running lenet-k3f9  3 ranks · 1:05 · 62 % · epoch 3/4 · 0:51 left"],
        ["0", "● Running", "GPU 0", "11.2/80 GB", "81 %", "7.9", "1:01", "4001", "step 0"],
        ["1", "✕ Failed, exit 1", "GPU 1", "", "", "", "1:01", "", "损失 0.5"],
        ["11", "● Running", "GPU 11", "312 MB", "100 %", "7.9", "1:01", "4012", ""],
    ]


def test_the_html_says_when_it_was_taken() -> None:
    now = time.mktime((2026, 11, 20, 14, 15, 3, 0, 0, -1))

    assert ">As of 2026-11-20 14:15:03<" in status_html([VIEW], "en", now)
    assert ">截至 2026-11-20 14:15:03<" in status_html([VIEW], "zh", now)


def test_a_long_last_line_is_whole_in_its_title() -> None:
    line = "x" * 200

    assert f'title="{line}">{line}</td>' in status_html([a_run([a_rank(0, last_line=line)])], "en", CREATED)


def test_of_many_ranks_those_that_matter_have_a_line() -> None:
    ranks = [a_rank(number, state="failed" if number == 77 else "running") for number in range(256)]

    table = Table(status_html([a_run(ranks)], "en", CREATED))

    assert [row[0] for row in table.rows[2:]] == [*map(str, range(63)), "77", "… 192 more lines"]


def test_what_a_rank_printed_is_no_markup() -> None:
    evil = "\"'<script>alert('x')</script><img src=x onerror=y>"
    view = a_run(
        [a_rank(0, last_line=evil, device="<u>", state="failed", exit="<s>")],
        label="<b>x</b>",
        state="failed",
        live=False,
        reason="<i>why</i>",
        progress=so_far(0.5, text="<q>"),
    )

    table = Table(status_html([view], "en", CREATED))

    assert table.tags == {"style", "div", "table", "thead", "tbody", "tr", "th", "td", "span", "code"}
    assert table.rows[2][-1] == evil
    assert table.rows[1][0].startswith("✕ Failed <b>x</b>")


def test_runs_are_read_from_their_directories(tmp_path: Path) -> None:
    first = WrittenRun(tmp_path, a_spec(run_id="20261120-141503-lenet-aaaa")).happened(*STARTED)
    first.printed(0, "step 1\n\x1b[31mstep\x1b[0m 2\n\n").printed(1, "\r 10%\r 20%")
    failed = WrittenRun(tmp_path, a_spec(run_id="20261120-141503-lenet-bbbb")).happened(
        *STARTED, errored(0), exited(0, 1), exited(1), run_ended(RunState.FAILED, "rank 0 failed")
    )
    broken = WrittenRun(tmp_path, a_spec(run_id="20261120-141503-lenet-cccc"))
    broken.directory.spec.write_text("{")

    views = StatusReader([run.directory for run in (first, failed, broken)]).look(CREATED + 65.1)

    assert [(view.label, view.state, view.reason) for view in views] == [
        ("lenet-aaaa", "running", ""),
        ("lenet-bbbb", "failed", "rank 0 failed"),
        ("lenet-cccc", "lost", "cannot be read: spec.json is damaged"),
    ]
    assert [line.last_line for line in views[0].ranks] == ["step 2", " 20%"]


def test_use_rate_and_progress_come_from_the_ends_of_the_files(tmp_path: Path) -> None:
    written = WrittenRun(tmp_path).happened(*STARTED)
    written.directory.rank(0).system.write_text(
        json.dumps({"t": CREATED + 59.5, "v": {"memory": 4e8, "cpu": 98.0}}) + "\n"
    )
    with written.directory.rank(0).metrics.open("w") as metrics:
        for step in range(600):
            point = {"t": CREATED + step / 10, "step": step, "v": {"loss": 0.5, "images/s": 640 + step}}
            metrics.write(json.dumps(point | ({"total": 1000} if step == 0 else {})) + "\n")

    (view,) = StatusReader([written.directory]).look(CREATED + 60)

    assert (view.ranks[0].memory, view.ranks[0].cpu) == (400_000_000, 98.0)
    assert view.ranks[0].rate == pytest.approx(10, rel=0.02)
    assert view.samples == {0: 1239}
    assert view.progress.fraction == pytest.approx(0.6, abs=0.01)
    assert view.progress.remaining == pytest.approx(40, abs=2)


def test_a_run_that_succeeded_needs_no_progress(tmp_path: Path) -> None:
    written = WrittenRun(tmp_path).printed(0, "epoch 2/4: 50%|##  | 5/10 [00:01<00:01, 5.00it/s]\n")
    written.happened(*STARTED, exited(0), exited(1), run_ended(RunState.FINISHED))

    (view,) = StatusReader([written.directory]).look(CREATED + 60)

    assert view.progress is None


def test_a_mistake_of_the_program_stands_beside_its_run() -> None:
    warning = NoteView(text="every epoch has the same order", text_zh="每个 epoch 的数据顺序都一样")
    views = [replace(VIEW, warnings=(warning,))]

    assert warning.text in status_text(views, "en").splitlines()[1]
    assert warning.text_zh in status_html(views, "zh", CREATED)
