"""A run on a terminal: lines that stay whole, and a block below them with its state."""

from __future__ import annotations

import io
from collections.abc import Mapping

import pytest

from nbdist.feed.labels import width
from nbdist.feed.rank_log import LogDelta
from nbdist.feed.view import RunView
from nbdist.panel.terminal import Block, Line, Terminal, TerminalSurface, folded, on_text_screen
from nbdist.panel.text import TextSurface
from tests.fakes.screen import Screen
from tests.fakes.views import a_rank, a_run, so_far

RULE = "─"


def lines(rank: int, *texts: str, partial: str = "", skipped: int = 0) -> LogDelta:
    return LogDelta.of(rank=rank, first=0, lines=texts, partial=partial, skipped=skipped)


def shown(screen: Screen, *looks: tuple[RunView, list[LogDelta]], language: str = "en") -> Screen:
    surface = TerminalSurface(screen.write, screen, language=language)
    for view, deltas in looks:
        surface.update(view, deltas)
    return screen


def foot(screen: Screen) -> list[str]:
    """Return the lines of the block, below its rule."""
    rule = max(number for number, line in enumerate(screen.lines) if line.startswith(RULE))
    return screen.lines[rule + 1 :]


def scrolled(screen: Screen) -> list[str]:
    """Return the lines above the block."""
    rule = next((number for number, line in enumerate(screen.lines) if line.startswith(RULE)), None)
    return screen.lines[:rule] if rule is not None else [line for line in screen.lines if line]


def test_lines_scroll_above_a_block_that_stays() -> None:
    view = a_run(progress=so_far(0.62))

    screen = shown(
        Screen(100),
        (view, [lines(0, "step 1")]),
        (view, [lines(1, "step 1"), lines(0, "step 2", "step 3")]),
        (a_run(elapsed=85.0, progress=so_far(0.65, remaining=50.0)), []),
    )

    assert scrolled(screen) == [
        "[nbdist] lenet-k3f9: 2 ranks on GPU 0, GPU 1",
        "[0] step 1",
        "[1] step 1",
        "[0] step 2",
        "[0] step 3",
    ]
    assert foot(screen) == [
        "● Running  lenet-k3f9  2 ranks  ━━━━━━━━━━━━━╌╌╌╌╌╌╌  65 % · epoch 3/4 · 0:50 left  1:25",
        "0 ●  Running  GPU 0  11.2/80 GB  81 %  7.9 step/s",
        "1 ●  Running  GPU 1  11.2/80 GB  81 %  7.9 step/s",
    ]


def test_a_line_that_all_ranks_write_at_once_is_shown_once() -> None:
    view = a_run(3)
    deltas = [lines(0, "hello", "of 0", "bye"), lines(1, "hello", "bye"), lines(2, "of 2", "hello", "bye")]

    screen = shown(Screen(), (view, deltas))

    assert scrolled(screen)[1:] == ["[2] of 2", "[0–2] hello ×3", "[0] of 0", "[0–2] bye ×3"]


@pytest.mark.parametrize(
    ("ranks", "deltas"),
    [
        pytest.param(2, [lines(0, "same"), lines(1, "other")], id="what differs"),
        pytest.param(2, [lines(0, "same")], id="what one rank has written so far"),
        pytest.param(1, [lines(0, "same")], id="the only rank"),
    ],
)
def test_only_what_all_ranks_write_is_folded(ranks: int, deltas: list[LogDelta]) -> None:
    screen = shown(Screen(), (a_run(ranks), deltas))

    assert scrolled(screen)[1:] == [f"[{delta.rank}] {delta.lines[0]}" for delta in deltas]


def test_folding_keeps_the_order_of_each_rank_and_every_line() -> None:
    written = [("a", "x", "b", "b", "c"), ("b", "a", "x", "c", "b"), ("x", "x", "a", "b", "b", "x")]

    out = list(folded([lines(rank, *texts) for rank, texts in enumerate(written)], 3))

    for rank, texts in enumerate(written):
        assert tuple(line for of, line in out if of in (rank, None)) == texts


def test_folding_much_is_quick() -> None:
    many = tuple(f"line {number % 7000}" for number in range(20_000))

    out = list(folded([lines(0, *many), lines(1, *reversed(many))], 2))

    assert sum(2 if rank is None else 1 for rank, _ in out) == 40_000


def test_rows_that_move_are_live_lines_one_below_the_other() -> None:
    screen = shown(Screen(), (a_run(), [lines(1, partial="epochs 1/2\n\nsteps 3/5")]))

    assert foot(screen)[-2:] == ["[1] epochs 1/2", "[1] steps 3/5"]


def test_a_growing_line_is_one_live_line_until_it_is_complete() -> None:
    view = a_run()

    screen = shown(
        Screen(), (view, [lines(1, partial=" 10%|█   |")]), (view, [lines(1, partial=" 50%|██  |")])
    )
    assert foot(screen)[-1] == "[1] 50%|██  |"
    assert scrolled(screen)[1:] == []

    shown(screen, (view, [lines(1, "100%|████|")]))
    assert "[1] 100%|████|" in screen.lines
    assert "50%" not in foot(screen)[-1]


def test_when_the_run_has_ended_only_its_lines_are_left() -> None:
    ended = a_run(state="finished", live=False)

    screen = shown(Screen(), (a_run(), [lines(0, "step 1")]), (ended, [lines(0, "the end")]))

    assert screen.text == "[nbdist] lenet-k3f9: 2 ranks on GPU 0, GPU 1\n[0] step 1\n[0] the end\n"


def test_an_exception_takes_the_block_away() -> None:
    screen = Screen()

    def is_interrupted() -> None:
        with TerminalSurface(screen.write, screen, language="en") as surface:
            surface.update(a_run(), [lines(0, "step 1")])
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        is_interrupted()

    assert screen.text.endswith("[0] step 1\n")
    assert RULE not in screen.text


def test_a_look_without_news_writes_nothing() -> None:
    screen = shown(Screen(), (a_run(), []), (a_run(elapsed=84.6), []))

    assert len(screen.writes) == 1


def test_a_stop_and_skipped_bytes_are_said() -> None:
    stopping = a_run(state="stopping", reason="stopped by ada")

    screen = shown(Screen(), (a_run(), [lines(0, skipped=7)]), (stopping, []), (stopping, []))

    assert scrolled(screen)[1:] == [
        "[0] … 7 bytes not shown here: %dist_logs",
        "[nbdist] stopping (1:24) stopped by ada",
    ]


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("ranks", [1, 2, 8, 9, 64, 256])
@pytest.mark.parametrize(("columns", "rows"), [(20, 6), (40, 24), (80, 24), (200, 60)])
def test_no_line_of_the_block_is_as_wide_as_the_terminal_and_most_rows_are_for_the_log(
    columns: int, rows: int, ranks: int, language: str
) -> None:
    view = a_run(ranks, progress=so_far(0.62))
    deltas = [lines(rank, partial="损失 " * 40) for rank in range(ranks)]

    screen = shown(Screen(columns, rows), (view, deltas), language=language)

    assert all(width(line) < columns for line in foot(screen))
    assert len(foot(screen)) < rows // 2


def test_a_narrow_terminal_has_what_matters_most() -> None:
    screen = shown(Screen(40, 24), (a_run(progress=so_far(0.62)), []))

    assert foot(screen) == [
        "● Running  lenet-k3f9  62 %  1:24",
        "0 ●  11.2/80 GB  81 %  7.9 step/s",
        "1 ●  11.2/80 GB  81 %  7.9 step/s",
    ]


def test_many_ranks_are_counted_and_the_slowest_and_the_failed_are_named() -> None:
    ranks = tuple(
        a_rank(
            number,
            state="failed" if number in (3, 4, 17) else "running",
            rate=2.1 if number == 9 else 7.9,
            gpu=71.0 + number % 3,
        )
        for number in range(64)
    )

    screen = shown(Screen(100), (a_run(ranks), []))

    assert foot(screen)[1:] == [
        "● 61 Running  ✕ 3 Failed (3–4, 17)",
        "slowest 9  11.2 GB  71 % – 73 %  2.1 – 7.9 step/s",
    ]


def test_a_terminal_that_was_made_narrower_is_left_clean() -> None:
    screen = Screen(100)
    surface = TerminalSurface(screen.write, screen, language="en")
    surface.update(a_run(), [lines(0, "x" * 150)])

    screen.columns = 40
    surface.update(a_run(), [lines(1, "y")])

    assert scrolled(screen)[1:] == ["[0] " + "x" * 150, "[1] y"]
    assert screen.text.count(RULE * 39) == 1
    assert RULE * 40 not in screen.text


def test_a_terminal_that_does_not_break_lines_anew_loses_no_line_of_the_log() -> None:
    terminal, writes = Screen(100), []
    terminal.reflows = False
    block = Block(writes.append, terminal)
    block.draw("a line\n", [Line().add("wide " * 15), Line().add("two")])

    terminal.columns = 40
    block.erase()

    assert writes[-1] == "\r\x1b[1A\x1b[J"


def test_the_colours_of_a_program_stay_and_end_with_its_line() -> None:
    screen = shown(Screen(colours=True), (a_run(), [lines(1, "\x1b[31mred\x1b[1A\x07 and on")]))

    assert scrolled(screen)[1] == "<rank 1:[1]> \x1b[31mred and on\x1b[0m"


def test_chinese_words_stand_in_columns() -> None:
    ranks = (a_rank(0), a_rank(1, state="pending", gpu=None, gpu_memory=None, memory=None, rate=None))

    screen = shown(Screen(100), (a_run(ranks, progress=so_far(0.62)), []), language="zh")

    head, first, second = foot(screen)
    assert head.startswith("● 运行中  lenet-k3f9  2 个进程  ━")
    assert head.endswith("62 % · epoch 3/4 · 剩余 0:51  1:24")
    assert width(first[: first.index("GPU")]) == width(second[: second.index("GPU")])


class Stream(io.StringIO):
    """A stream that may be a terminal."""

    def __init__(self, *, tty: bool = True, encoding: str = "utf-8") -> None:
        super().__init__()
        self._tty = tty
        self._encoding = encoding

    def isatty(self) -> bool:
        return self._tty

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._encoding


XTERM = {"TERM": "xterm-256color"}


@pytest.mark.parametrize(
    ("stream", "environ", "drawable"),
    [
        pytest.param(Stream(), XTERM, True, id="a terminal"),
        pytest.param(Stream(tty=False), XTERM, False, id="a pipe"),
        pytest.param(Stream(), {"TERM": "dumb"}, False, id="a dumb terminal"),
        pytest.param(Stream(), {}, False, id="a terminal of which nothing is known"),
        pytest.param(Stream(encoding="ascii"), XTERM, False, id="a terminal without the characters"),
        pytest.param(Stream(), XTERM | {"NBDIST_PANEL": "text"}, False, id="plain text was asked for"),
        pytest.param(Stream(), XTERM | {"NO_COLOR": "1"}, True, id="a terminal without colours"),
    ],
)
def test_a_block_is_drawn_only_where_it_can_be(
    stream: Stream, environ: Mapping[str, str], drawable: bool
) -> None:
    terminal = Terminal(stream, environ=environ)

    with on_text_screen(stream.write, terminal, language="en") as surface:
        assert isinstance(surface, TextSurface) is not drawable
    assert terminal.drawable is drawable
    assert not Terminal(stream, plain=True, environ=environ).drawable


@pytest.mark.parametrize(
    ("environ", "painted"),
    [
        pytest.param(XTERM, "\x1b[38;5;32m[0]\x1b[0m", id="256 colours"),
        pytest.param({"TERM": "linux"}, "\x1b[34m[0]\x1b[0m", id="16 colours"),
        pytest.param(XTERM | {"NO_COLOR": "1"}, "[0]", id="NO_COLOR"),
        pytest.param(XTERM | {"NO_COLOR": ""}, "\x1b[38;5;32m[0]\x1b[0m", id="an empty NO_COLOR"),
    ],
)
def test_colours_are_those_of_the_terminal(environ: Mapping[str, str], painted: str) -> None:
    assert Terminal(Stream(), environ=environ).paint("[0]", "rank 0") == painted
    assert Terminal(Stream(), colours=False, environ=environ).paint("[0]", "rank 0") == "[0]"
    assert Terminal(Stream(), colours=False, environ=environ).paint("[0]", "bold") == "\x1b[1m[0]\x1b[0m"


@pytest.mark.parametrize(
    ("environ", "reflows"),
    [
        pytest.param(XTERM, True, id="most"),
        pytest.param(XTERM | {"XTERM_VERSION": "XTerm(390)"}, False, id="xterm"),
        pytest.param(XTERM | {"STY": "1.pts"}, False, id="screen"),
        pytest.param(XTERM | {"STY": "1.pts", "TMUX": "/tmp/x"}, True, id="tmux inside of screen"),
    ],
)
def test_whether_a_terminal_breaks_lines_anew_is_known_from_its_name(
    environ: Mapping[str, str], reflows: bool
) -> None:
    assert Terminal(Stream(), environ=environ).reflows is reflows
