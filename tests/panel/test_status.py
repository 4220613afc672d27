"""Every run and its ranks as a table."""

from __future__ import annotations

import unicodedata
from html.parser import HTMLParser
from pathlib import Path

import pytest

from nbdist.model import RunState
from nbdist.panel import status_html, status_text, status_views
from nbdist.panel.view import RankView, RunView
from tests.fakes.directories import WrittenRun
from tests.fakes.runs import CREATED, STARTED, a_spec, errored, exited, run_ended


def rank(number: int, **changes: object) -> RankView:
    values = {
        "rank": number,
        "state": "running",
        "device": f"GPU {number}",
        "pid": 4001 + number,
        "memory": 9_400_000_000,
        "gpu_memory": 1_400_000_000,
        "exit": "",
        "elapsed": 61.0,
        "last_line": f"step {number}",
    }
    return RankView(**(values | changes))


VIEW = RunView(
    run_id="20261120-141503-lenet-k3f9",
    label="lenet-k3f9",
    state="running",
    live=True,
    reason="",
    elapsed=65.0,
    ranks=(
        rank(0),
        rank(1, state="failed", exit="exit 1", pid=None, memory=None, gpu_memory=None, last_line="损失 0.5"),
        rank(11, memory=312_000_000, gpu_memory=None, last_line=""),
    ),
)


def test_a_table_stands_in_columns() -> None:
    assert status_text([VIEW], "en").splitlines() == [
        "run         rank  state           device  pid   memory  age   last line",
        "lenet-k3f9        Running                               1:05",
        "            0     Running         GPU 0   4001  1.4 GB  1:01  step 0",
        "            1     Failed, exit 1  GPU 1                 1:01  损失 0.5",
        "            11    Running         GPU 11  4012  312 MB  1:01",
    ]


def columns(text: str) -> int:
    """As a terminal counts."""
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


def test_no_line_ends_in_spaces() -> None:
    text = status_text([VIEW], "en")

    assert text == "\n".join(line.rstrip() for line in text.splitlines())


def test_every_run_is_in_the_table_in_the_order_given() -> None:
    other = RunView(
        run_id="x", label="bert-aaaa", state="succeeded", live=False, reason="", elapsed=0.0, ranks=()
    )

    text = status_text([VIEW, other], "en")

    assert text.splitlines()[-1].split() == ["bert-aaaa", "Finished", "0:00"]


@pytest.mark.parametrize("language", ["en", "zh"])
def test_without_runs_it_says_how_to_start_one(language: str) -> None:
    assert "%%distributed -n 2" in status_text([], language)
    assert "%%distributed -n 2" in status_html([], language)


class Table(HTMLParser):
    """The cells of a table, row by row, as a browser understands them."""

    def __init__(self, markup: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.tags: set[str] = set()
        self.feed(markup)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_data(self, data: str) -> None:
        if self.rows and self.rows[-1]:
            self.rows[-1][-1] += data


def test_the_html_holds_the_same_cells() -> None:
    table = Table(status_html([VIEW], "en"))

    assert table.rows[2] == ["", "0", "Running", "GPU 0", "4001", "1.4 GB", "1:01", "step 0"]
    assert [" ".join(row).split() for row in table.rows] == [
        line.split() for line in status_text([VIEW], "en").splitlines()
    ]


def test_what_a_rank_printed_is_no_markup() -> None:
    evil = "<script>alert('x')</script><img src=x onerror=y>"
    view = RunView(
        run_id="x",
        label="<b>x</b>",
        state="failed",
        live=False,
        reason="<i>why</i>",
        elapsed=0.0,
        ranks=(rank(0, last_line=evil, device="<u>"),),
    )

    table = Table(status_html([view], "en"))

    assert table.tags == {"style", "table", "thead", "tbody", "tr", "th", "td"}
    assert table.rows[2][-1] == evil
    assert table.rows[1][0] == "<b>x</b>"


def test_runs_are_read_from_their_directories(tmp_path: Path) -> None:
    first = WrittenRun(tmp_path, a_spec(run_id="20261120-141503-lenet-aaaa")).happened(*STARTED)
    first.printed(0, "step 1\nstep 2\n\n").printed(1, "\r 10%\r 20%")
    failed = WrittenRun(tmp_path, a_spec(run_id="20261120-141503-lenet-bbbb")).happened(
        *STARTED, errored(0), exited(0, 1), exited(1), run_ended(RunState.FAILED, "rank 0 failed")
    )
    broken = WrittenRun(tmp_path, a_spec(run_id="20261120-141503-lenet-cccc"))
    broken.directory.spec.write_text("{")

    views = status_views([run.directory for run in (first, failed, broken)], now=CREATED + 65.1)

    assert [(view.label, view.state, view.reason) for view in views] == [
        ("lenet-aaaa", "running", ""),
        ("lenet-bbbb", "failed", "rank 0 failed"),
    ]
    assert [line.last_line for line in views[0].ranks] == ["step 2", " 20%"]


def test_colours_do_not_run_over_the_table(tmp_path: Path) -> None:
    written = WrittenRun(tmp_path).happened(*STARTED).printed(0, "\x1b[31mERROR\x1b[0m: no\n")

    (view,) = status_views([written.directory], now=CREATED)

    assert view.ranks[0].last_line == "ERROR: no"
