"""Messages of the panel to its page, and its answers to requests."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace

import pytest

from nbdist.errors import LaunchError, UsageMistake
from nbdist.feed.charts import Charts
from nbdist.feed.protocol import BoardAnswer, ReportAnswer, Update
from nbdist.feed.rank_log import LogDelta
from nbdist.feed.view import FailureView, RunView, view_of
from nbdist.model import Run
from nbdist.panel.widget import PanelWidget, WidgetSurface
from nbdist.store import MetricPoint
from tests.fakes.runs import CREATED, STARTED, a_spec
from tests.fakes.wires import Wire


class Page:
    """A surface with a fake clock and wire."""

    def __init__(self, *, ranks: int = 2, cell: str = "import torch\n") -> None:
        self.now = 100.0
        self.wire = Wire()
        self.charts = Charts(created=CREATED, ranks=range(ranks))
        self.stopped = threading.Event()
        self.pulled = 0
        self.media: dict[tuple[int, str], bytes] = {}
        self.board: Callable[[], str] = lambda: "http://127.0.0.1:1/x"
        self.report: Callable[[str], str] = lambda _language: ""
        self.view = view_of(Run.of(a_spec(ranks=ranks), STARTED if ranks == 2 else []), now=CREATED + 1)
        self.surface = WidgetSurface(
            self.wire,
            stop=self.stopped.set,
            board=lambda: self.board(),
            charts=self.charts,
            cell=cell,
            pulled=self._pull,
            media=lambda rank, name: self.media.get((rank, name), b""),
            report=lambda language: self.report(language),
            clock=lambda: self.now,
        )
        self._next: dict[int, int] = {}

    def _pull(self) -> None:
        self.pulled += 1

    def look(self, *deltas: LogDelta, after: float = 0.1, view: RunView | None = None) -> list[Update]:
        """Look ``after`` so many seconds; return the messages."""
        self.now += after
        before = len(self.wire.updates)
        self.surface.update(view or self.view, list(deltas))
        return self.wire.updates[before:]

    def until_late(self) -> None:
        """Let ten seconds pass without news: the page is loaded, and has just received a keyframe."""
        for _ in range(100):
            sent = self.look()
        while not (sent and sent[0].cell is not None):
            sent = self.look()

    def lines(self, rank: int, count: int, *, width: int = 9, behind: bool = False) -> LogDelta:
        first = self._next.get(rank, 0)
        self._next[rank] = first + count
        texts = tuple(f"{number:{width}}" for number in range(first, first + count))
        times = ((count, self.now - 100),)
        edges = range(first, first + count + 1)  # a line has one address, whatever it says
        return LogDelta.of(
            rank=rank, first=first, lines=texts, edges=edges, partial="", times=times, behind=behind
        )

    def logged(self, step: int, *tags: str) -> None:
        self.charts.take(0, [MetricPoint(time=CREATED + step, step=step, values=dict.fromkeys(tags, 0.5))])


def test_lines_are_sent_once_when_they_come() -> None:
    page = Page()
    page.until_late()

    first = page.look(page.lines(0, 3), page.lines(1, 1))
    second = page.look(page.lines(0, 2))

    assert [[(c.rank, c.first, c.count) for c in update.chunks] for update in (*first, *second)] == [
        [(0, 0, 3), (1, 0, 1)],
        [(0, 3, 2)],
    ]
    assert all((update.view, update.cell, update.charts) == (None, None, ()) for update in (*first, *second))


def test_nothing_new_is_no_message() -> None:
    page = Page()
    page.until_late()

    assert [page.look() for _ in range(40)] == [[]] * 40


def test_a_page_that_loads_late_gets_everything_that_came_so_far() -> None:
    page = Page()
    page.look(page.lines(0, 2_000))
    page.look(page.lines(1, 10))
    loaded = len(page.wire.sent)

    for _ in range(45):
        page.look()
    late = Wire()
    late.sent = page.wire.sent[loaded:]

    assert sorted(late.lines(0)) == list(range(2_000))
    assert sorted(late.lines(1)) == list(range(10))
    assert any(update.view is not None and update.cell == "import torch\n" for update in late.updates)


def test_later_the_ends_of_the_logs_are_sent_again_every_five_seconds() -> None:
    page = Page()
    page.logged(0, "loss", "acc")
    page.look(page.lines(0, 2_000), page.lines(1, 3))
    page.until_late()

    again = [update for _ in range(105) for update in page.look()]

    assert len(again) == 2
    assert [(c.rank, c.first, c.count) for c in again[0].chunks] == [(0, 1_600, 400), (1, 0, 3)]
    assert (again[0].view is not None, again[0].cell) == (True, "import torch\n")
    assert [chart.tag for chart in again[0].charts] == ["loss", "acc"]


def test_a_keyframe_loses_no_line_that_comes_with_it() -> None:
    page = Page()
    total = 0
    for _ in range(300):
        page.look(page.lines(0, 777, width=99), after=0.05)
        total += 777

    assert sorted(page.wire.lines(0)) == list(range(total))


def test_messages_stay_small_while_a_backlog_comes_and_when_ranks_are_many() -> None:
    page = Page(ranks=256)
    for _ in range(5):
        page.look(*(page.lines(rank, 150, width=99) for rank in range(256)))
    early = max(page.wire.sizes)
    while page.surface.waiting:
        page.look()
    page.until_late()

    assert early <= 700_000
    assert page.wire.sizes[-1] <= 200_000
    assert {chunk.rank for chunk in page.wire.updates[-1].chunks} == set(range(256))


def test_the_page_knows_until_when_all_lines_have_come() -> None:
    page = Page()
    page.now = 105.0
    both = page.look(page.lines(0, 1, behind=True), page.lines(1, 1))
    page.now = 109.0
    more = page.look(page.lines(0, 1, behind=True))
    done = page.look(page.lines(0, 1))

    assert [update.complete_until for update in (*both, *more, *done)] == [5.0, 9.0, None]


def test_a_view_is_sent_when_it_says_something_new() -> None:
    page = Page()
    page.until_late()
    later = replace(page.view, elapsed=99.0)
    other = replace(page.view, ranks=(replace(page.view.ranks[0], memory=5), page.view.ranks[1]))

    assert page.look(view=later) == []
    assert [update.view for update in page.look(view=other)] == [other]
    assert page.look(view=other) == []


def test_the_view_of_many_ranks_is_sent_once_a_second_but_what_matters_at_once() -> None:
    page = Page(ranks=17)
    page.until_late()

    def with_memory(count: int) -> RunView:
        return replace(page.view, ranks=tuple(replace(rank, memory=count) for rank in page.view.ranks))

    sent = [bool(page.look(view=with_memory(count))) for count in range(25)]
    failure = FailureView(rank=3, headline="exit 1", message="", line=None)
    failed = page.look(view=replace(with_memory(99), failure=failure))

    assert sent.count(True) == 2
    assert len(failed) == 1


def test_charts_that_changed_are_sent_every_two_seconds() -> None:
    page = Page()
    page.logged(0, "loss", "acc")
    page.until_late()

    sent = []
    for step in range(1, 40):
        page.logged(step, "loss")
        sent += [[chart.tag for chart in update.charts] for update in page.look()]

    assert sent == [["loss"]] * len(sent)
    assert len(sent) in (1, 2)


def test_a_page_is_told_how_many_metrics_have_no_chart() -> None:
    page = Page()
    page.charts.take(0, [MetricPoint(time=CREATED, step=0, values={f"tag{n}": 1.0 for n in range(63)})])

    (sent,) = page.look()

    assert (len(sent.charts), sent.left_out) == (50, 13)


def test_more_charts_than_a_message_should_hold_take_turns() -> None:
    page = Page()
    for step in range(400):
        page.logged(step, *(f"tag{number}" for number in range(40)))

    sent = [[chart.tag for chart in update.charts] for _ in range(60) for update in page.look()]

    assert max(map(len, sent)) == 25
    assert {tag for tags in sent[:3] for tag in tags} == {f"tag{number}" for number in range(40)}


def test_a_cell_is_cut_where_it_is_too_long() -> None:
    page = Page(cell="x" * 100_000)
    page.until_late()

    assert len(page.wire.updates[-1].cell or "") == 65_536


def test_stop_is_asked_for() -> None:
    page = Page()

    page.wire.asks({"kind": "stop"})

    assert page.stopped.wait(5)


def test_a_page_that_misses_lines_gets_all_that_are_kept_with_the_next_look() -> None:
    page = Page()
    page.look(page.lines(0, 5_000))
    page.until_late()

    page.wire.asks({"kind": "pull"})
    (pulled,) = page.look()

    assert page.pulled == 1
    assert [(chunk.first, chunk.count) for chunk in pulled.chunks] == [(0, 5_000)]
    assert pulled.view is not None
    assert pulled.cell is not None
    assert page.look() == []


@pytest.mark.parametrize(
    "content",
    [
        None,
        "stop",
        {},
        {"kind": 3},
        ["stop"],
        {"kind": "media", "rank": 0},
        {"kind": "media", "name": "a.png"},
    ],
    ids=repr,
)
def test_what_is_no_request_is_let_be(content: object) -> None:
    page = Page()

    page.wire.asks(content)

    assert (page.stopped.is_set(), page.pulled, page.wire.sent) == (False, 0, [])


def raising(error: Exception) -> Callable[[], str]:
    def board() -> str:
        raise error

    return board


@pytest.mark.parametrize(
    ("board", "answer"),
    [
        pytest.param(lambda: "http://127.0.0.1:5/x", BoardAnswer(url="http://127.0.0.1:5/x"), id="opens"),
        pytest.param(raising(LaunchError("no port")), BoardAnswer(problem="no port"), id="cannot"),
        pytest.param(raising(UsageMistake("no such run")), BoardAnswer(problem="no such run"), id="gone"),
        pytest.param(
            raising(OSError("odd")), BoardAnswer(problem="VisualDL did not open: odd"), id="not foreseen"
        ),
    ],
)
def test_the_board_is_opened_on_a_thread_of_its_own(board: Callable[[], str], answer: BoardAnswer) -> None:
    page, answered = Page(), threading.Event()
    page.board, page.wire.heard = board, answered.set

    page.wire.asks({"kind": "board"})

    assert answered.wait(5)
    assert page.wire.sent == [answer]


def test_a_board_that_takes_its_time_blocks_nobody_and_is_asked_for_once() -> None:
    page, opened, answered = Page(), threading.Event(), threading.Event()
    calls = []

    def board() -> str:
        calls.append(1)
        assert opened.wait(5)
        return "url"

    page.board, page.wire.heard = board, answered.set
    page.wire.asks({"kind": "board"})
    page.wire.asks({"kind": "board"})
    opened.set()

    assert answered.wait(5)
    assert calls == [1]


@pytest.mark.parametrize(("requested", "language"), [("zh", "zh"), ("la", "en"), (7, "en")])
def test_a_report_is_made_on_a_thread_of_its_own_in_the_language_of_the_page(
    requested: object, language: str
) -> None:
    page, answered = Page(), threading.Event()
    threads: list[threading.Thread] = []

    def report(language: str) -> str:
        threads.append(threading.current_thread())
        return f"report in {language}"

    page.report, page.wire.heard = report, answered.set
    page.wire.asks({"kind": "report", "language": requested})

    assert answered.wait(5)
    assert page.wire.sent == [ReportAnswer(text=f"report in {language}")]
    assert threads != [threading.current_thread()]


def test_shown_again_a_run_begins_with_its_first_line() -> None:
    page = Page()
    page.look(page.lines(0, 10))
    page.until_late()

    page.surface.begin(Charts(created=CREATED, ranks=range(2)))
    page.wire.asks({"kind": "pull"})
    (update,) = page.look(LogDelta.of(rank=0, first=0, lines=("a", "b"), partial="", times=((2, 1.0),)))

    assert [(chunk.first, chunk.lines) for chunk in update.chunks] == [(0, ["a", "b"])]


def test_nothing_of_the_run_is_widget_state() -> None:
    widget = PanelWidget(kernel_id="k", foreground=True)
    surface = WidgetSurface(
        widget, stop=lambda: None, board=lambda: "", charts=Charts(created=CREATED, ranks=[0]), cell="secret"
    )

    surface.update(
        view_of(Run.of(a_spec(), STARTED), now=CREATED),
        [LogDelta.of(rank=0, first=0, lines=("secret",), partial="secret", times=((1, 0.0),))],
    )

    state = {name: value for name, value in widget.get_state().items() if name not in ("_esm", "_css")}
    assert "secret" not in repr(state)
    assert "lenet" not in repr(state)
    surface.close()


def test_where_no_widget_is_drawn_something_stands_in() -> None:
    page = Page()

    bundle = page.surface.bundle({"text/html": "<b>run</b>", "text/plain": "run"})

    assert bundle == {
        "application/vnd.jupyter.widget-view+json": {},
        "text/html": "<b>run</b>",
        "text/plain": "run",
    }


def test_what_was_asked_for_before_the_run_ended_is_not_sent_again_after_it() -> None:
    page = Page()
    page.look(page.lines(0, 3))
    page.surface.placed({"text/html": "<p>summary</p>"}, ["the end"])

    page.wire.asks({"kind": "pull", "placed": False})
    assert page.pulled == 0

    page.wire.asks({"kind": "pull", "placed": True})
    assert page.pulled == 1


def test_the_output_of_a_run_that_has_ended_is_what_a_notebook_keeps() -> None:
    page = Page()
    page.look()

    output = page.surface.placed({"text/html": "<p>summary</p>", "text/plain": "summary"}, ["the end"])

    assert output == {
        "text/html": '<div data-nbdist-panel="p1"><p>summary</p></div>',
        "text/plain": "summary",
    }
    assert page.wire.placed is True
    assert page.wire.updates[-1].view.notes == ("the end",)


def test_the_last_of_the_charts_are_sent_however_lately_others_were() -> None:
    page = Page()
    page.logged(1, "loss")
    page.until_late()
    page.logged(2, "loss")

    page.surface.finish()

    assert [chart.tag for chart in page.wire.updates[-1].charts] == ["loss"]
    assert list(page.wire.updates[-1].charts[0].columns[0]) == [1, 2]


def test_it_is_known_whether_lines_were_passed_over_until_the_run_is_shown_again() -> None:
    page = Page()
    page.look(page.lines(0, 3))
    assert not page.surface.skipped
    page.look(replace(page.lines(0, 3), skipped=100))
    assert page.surface.skipped

    page.surface.begin(page.charts)
    page.look(page.lines(1, 2))

    assert not page.surface.skipped


NAMES = [f"{number:032x}.png" for number in range(3)]


def showing(rank: int, first: int, *names: str) -> LogDelta:
    lines = tuple(f"\x1b]nbdist;{name};640;480\x07<Figure>" for name in names)
    edges = range(first, first + len(names) + 1)
    return LogDelta.of(
        rank=rank, first=first, lines=lines, edges=edges, partial="", times=((len(names), 1.0),)
    )


def test_what_a_line_stands_for_comes_with_it_once() -> None:
    page = Page()
    page.media = {(0, NAMES[0]): b"one", (1, NAMES[1]): b"two"}
    page.until_late()

    first = page.look(showing(0, 0, NAMES[0], NAMES[2]), showing(1, 0, NAMES[1]))
    again = [message for _ in range(100) for message in page.look(showing(0, 9, NAMES[0]))]

    assert {media.name: media.data for message in first for media in message.media} == {
        NAMES[0]: b"one",
        NAMES[1]: b"two",
    }
    assert not [media for message in again for media in message.media]


def test_many_outputs_come_in_parts_and_not_all_of_them() -> None:
    page = Page()
    names = [f"{number:032x}.png" for number in range(1000)]
    page.media = {(0, name): b"x" * 20_000 for name in names}
    page.until_late()

    page.look(showing(0, 0, *names))
    while page.surface.waiting:
        page.look()

    sent = [[media.name for media in message.media] for message in page.wire.updates if message.media]
    assert max(map(len, sent)) == 14
    assert [name for part in sent for name in part] == names[-200:]


def test_a_page_that_loads_late_gets_the_outputs_again() -> None:
    page = Page()
    page.media = {(0, NAMES[0]): b"one"}

    sent = page.look(showing(0, 0, NAMES[0]))
    sent += [message for _ in range(30) for message in page.look()]

    assert sum(bool(message.media) for message in sent) > 1


def test_the_page_asks_for_an_output_and_gets_it() -> None:
    page = Page()
    page.media = {(1, NAMES[1]): b"two"}
    came = threading.Event()
    page.look(page.lines(0, 1))
    page.wire.heard = came.set

    page.wire.asks({"kind": "media", "rank": 1, "name": NAMES[1]})

    assert came.wait(10)
    assert [(media.name, media.data) for media in page.wire.updates[-1].media] == [(NAMES[1], b"two")]
