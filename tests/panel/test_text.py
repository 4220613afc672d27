"""A run as lines of text, for front ends without widgets."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nbdist.feed.rank_log import LogDelta, RankFollower
from nbdist.feed.view import NoteView, RunView, view_of
from nbdist.model import Device, Event, Run
from nbdist.panel.text import LogSurface, TextSurface
from tests.fakes.directories import WrittenRun
from tests.fakes.runs import CREATED, STARTED, a_spec, stop_requested
from tests.fakes.views import a_run, so_far


class Page:
    """A surface, and the texts that it has written."""

    def __init__(self, limit: int = 20_000, **how: str) -> None:
        self.writes: list[str] = []
        self.surface = TextSurface(self.writes.append, limit, **how)

    def update(self, view: RunView, *deltas: LogDelta) -> None:
        self.surface.update(view, list(deltas))

    @property
    def lines(self) -> list[str]:
        return "".join(self.writes).splitlines()


def a_view(events: Sequence[Event] = STARTED, *, ranks: int = 2, devices: tuple[Device, ...] = ()) -> RunView:
    return view_of(Run.of(a_spec(ranks=ranks, devices=devices), events), now=CREATED + 65.1)


def lines(rank: int, *texts: str, skipped: int = 0) -> LogDelta:
    return LogDelta.of(rank=rank, first=0, lines=texts, partial="", skipped=skipped)


@pytest.mark.parametrize(
    ("devices", "expected"),
    [
        pytest.param((Device(), Device()), "2 ranks on CPU", id="the CPU once for all"),
        pytest.param(
            (Device(kind="gpu", index=3), Device(kind="gpu", index=5)),
            "2 ranks on GPU 3, GPU 5",
            id="each GPU",
        ),
    ],
)
def test_a_run_is_introduced_once(devices: tuple[Device, ...], expected: str) -> None:
    page = Page()

    page.update(a_view(devices=devices))
    page.update(a_view(devices=devices))

    assert page.lines == [f"[nbdist] lenet-k3f9: {expected}"]


def test_every_line_says_which_rank_wrote_it() -> None:
    page = Page()

    page.update(a_view(), lines(0, "step 1", "step 2"), lines(1, "", "step 1"))
    page.update(a_view([], ranks=12), lines(3, "in a column"))

    assert page.lines[1:] == ["[0] step 1", "[0] step 2", "[1] ", "[1] step 1", "[ 3] in a column"]


def test_lines_that_come_together_are_written_together() -> None:
    page = Page()
    page.update(a_view())

    page.update(a_view(), *(lines(rank, *("x",) * 500) for rank in (0, 1)))

    assert len(page.writes) == 2


def test_a_look_without_news_writes_nothing() -> None:
    page = Page()
    page.update(a_view())

    page.update(a_view())

    assert len(page.writes) == 1


def test_a_stop_is_said_once_with_its_reason() -> None:
    page = Page()
    page.update(a_view())

    for _ in range(3):
        page.update(a_view([*STARTED, stop_requested("stopped by ada")]))

    assert page.lines[1:] == ["[nbdist] stopping (1:05) stopped by ada"]


def test_tracebacks_of_a_stop_are_left_out_and_the_command_that_shows_them_is_named() -> None:
    page = Page()
    page.update(a_view(), lines(0, "step 1"))
    stopping = a_view((*STARTED, stop_requested()))
    trace = ("Traceback (most recent call last):", '  File "cell.py", line 3', "KeyboardInterrupt")

    page.update(stopping, lines(0, *trace[:2]))
    page.update(stopping, lines(0, trace[2], "saved"))
    page.update(replace(stopping, live=False, state="stopped"))

    assert page.lines[1:] == [
        "[0] step 1",
        page.lines[2],
        "[0] saved",
        "[nbdist] tracebacks of the stop are left out: %dist_logs shows them",
    ]


def test_bytes_that_were_passed_over_are_counted() -> None:
    page = Page()

    page.update(a_view(), lines(1, "step 9", skipped=5_000_000))

    assert page.lines[1:] == ["[1] … 5000000 bytes not shown here: %dist_logs", "[1] step 9"]


def test_a_flood_of_lines_ends_with_a_note_and_the_notebook_stays_small() -> None:
    page = Page(limit=3, logs="nbdist logs")

    page.update(a_view(), lines(0, "1", "2"))
    page.update(a_view(), lines(0, "3", "4", "5"), lines(1, "6"))
    page.update(a_view(), lines(0, "7"))

    assert page.lines[1:] == [
        "[0] 1",
        "[0] 2",
        "[0] 3",
        "[nbdist] 3 lines shown, the rest is in the log: nbdist logs",
    ]


def test_a_line_of_many_megabytes_ends_with_a_note_too() -> None:
    page = Page(limit=3)

    page.update(a_view(), lines(0, "1" * 500, "2" * 500, "3"), lines(1, "4"))
    page.update(a_view(), lines(1, "5", skipped=7))

    assert page.lines[1:] == [f"[0] {'1' * 500}", "[nbdist] 1 line shown, the rest is in the log: %dist_logs"]


QUICK = tuple((second / 2, second / 10) for second in range(10))


@pytest.mark.parametrize(
    ("looks", "percents"),
    [
        pytest.param(
            ((6.0, 0.04), (12.0, 0.11), (18.0, 0.19), (24.0, 0.2), (30.0, 0.55)),
            ["11", "20", "55"],
            id="at each tenth",
        ),
        pytest.param(QUICK, [], id="in a short run none"),
        pytest.param((*QUICK, (5.0, 0.95), (9.9, 1.0), (10.0, 1.0)), ["95", "100"], id="each five seconds"),
        pytest.param(((6.0, 0.5), (12.0, 0.1), (18.0, 0.2)), ["50", "20"], id="in the next attempt again"),
    ],
)
def test_progress_is_a_line(looks: Sequence[tuple[float, float]], percents: list[str]) -> None:
    page = Page()

    for elapsed, fraction in looks:
        page.update(a_run(elapsed=elapsed, progress=so_far(fraction)))

    assert page.lines[1:] == [f"[nbdist] lenet-k3f9: {each} % · epoch 3/4 · 0:51 left" for each in percents]


@pytest.mark.parametrize(
    ("live", "lines"), [(True, ["[nbdist] lenet-k3f9: 50 % · epoch 3/4 · 剩余 0:51"]), (False, [])]
)
def test_progress_in_chinese_and_after_the_end(live: bool, lines: list[str]) -> None:
    page = Page(language="zh")

    page.update(a_run(elapsed=6.0, progress=so_far(0.5), live=live))

    assert page.lines[1:] == lines


def test_a_line_that_grows_is_not_shown_piece_by_piece() -> None:
    page = Page()

    page.update(a_view(), LogDelta.of(rank=0, first=0, lines=(), partial=" 10%|#   |"))
    page.update(a_view(), LogDelta.of(rank=0, first=0, lines=(), partial=" 50%|##  |"))
    page.update(a_view(), lines(0, "100%|####|"))

    assert page.lines[1:] == ["[0] 100%|####|"]


def log_lines(*deltas: LogDelta | None, grep: str = "", tail: int | None = None, **how: object) -> list[str]:
    """Return the lines that a log of two ranks shows of these; None marks where it has caught up."""
    writes: list[str] = []
    chosen = {"ranks": (0, 1), "prefixed": True} | how
    surface = LogSurface(writes.append, pattern=re.compile(grep), tail=tail, **chosen)
    for delta in deltas:
        if delta is None:
            surface.caught_up()
        else:
            surface.update(a_view(), [delta])
    return "".join(writes).splitlines()


@pytest.mark.parametrize(
    ("how", "shown"),
    [
        pytest.param({}, ["[0] step 1", "[0] noise", "[1] step 2"], id="lines and nothing about the run"),
        pytest.param({"ranks": (1,), "prefixed": False}, ["step 2"], id="of one rank its lines alone"),
        pytest.param({"grep": "^step"}, ["[0] step 1", "[1] step 2"], id="only what matches"),
    ],
)
def test_a_log_holds_what_was_asked_for(how: dict[str, Any], shown: list[str]) -> None:
    assert log_lines(lines(0, "step 1", "noise"), lines(1, "step 2"), **how) == shown


def test_a_tail_is_counted_for_each_rank_in_what_was_there_and_all_that_follows_is_shown() -> None:
    before = lines(0, "1", "2"), lines(1, "a"), lines(0, "3")

    assert log_lines(*before, tail=2) == []
    assert log_lines(*before, None, tail=2) == ["[0] 2", "[0] 3", "[1] a"]
    assert log_lines(*before, None, lines(0, "4", "5", "6"), tail=0) == ["[0] 4", "[0] 5", "[0] 6"]


def test_nothing_that_a_rank_writes_acts_on_the_terminal(tmp_path: Path) -> None:
    run = WrittenRun(tmp_path)
    follower = RankFollower(0, run.directory.rank(0), created=CREATED)
    page, logs = Page(), list[str]()
    surface = LogSurface(logs.append, ranks=[0], pattern=re.compile(""), tail=None, prefixed=False)

    # in pieces, as one look after another finds them
    for piece in (
        b"a\x1b",
        b"]52;c;aGk=\x07b \xc2",
        b"\x9b2J \x1b[3",
        b"1mred\n\x1b]52;c;aGk=\n",
        b"end\x07\n",
    ):
        run.printed(0, piece)
        if delta := follower.read(1 << 20, CREATED):
            page.update(a_view(), delta)
            surface.update(a_view(), [delta])

    assert "".join(logs) == "ab 2J \x1b[31mred\x1b[0m\n52;c;aGk=\nend\n"
    assert page.lines[1:] == ["[0] ab 2J \x1b[31mred\x1b[0m", "[0] 52;c;aGk=", "[0] end"]


def test_what_is_said_of_a_run_does_not_act_on_the_terminal_either() -> None:
    page = Page()

    page.update(replace(a_run(), state="pending", reason="node\x1b]0;x\x07 a\x9b2J is down"))

    assert page.lines[1] == "[nbdist] queued: node a2J is down"


def test_a_run_that_waits_for_imports_says_so_once() -> None:
    page = Page()
    for _ in range(2):
        page.update(
            replace(a_run(), state="running", reason="waiting for ranks that are still importing torch")
        )

    assert page.lines[1:] == ["[nbdist] waiting for ranks that are still importing torch"]


def test_a_warning_is_one_line_while_the_run_goes_on() -> None:
    page = Page()
    same, order = (NoteView(text=text, text_zh="") for text in ("same batches", "same order"))

    page.update(a_view())
    page.update(replace(a_view(), warnings=(same,)))
    page.update(replace(a_view(), warnings=(same, order)))
    # its summary says these, too
    page.update(replace(a_view(), live=False, warnings=(same, order, replace(same, text="at its end"))))

    assert page.lines[1:] == ["[nbdist] lenet-k3f9: same batches", "[nbdist] lenet-k3f9: same order"]
