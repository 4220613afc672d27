"""A surface that follows a run to its end, whatever happens to its directory."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nbdist.errors import UnknownRun
from nbdist.feed.charts import Charts
from nbdist.feed.measures import Measures
from nbdist.feed.rank_log import LogDelta, RankFollower, level
from nbdist.feed.view import RunView
from nbdist.model import Run, RunState
from nbdist.panel import UsageWatch, follow
from nbdist.processes import identify
from nbdist.store import RankDirectory
from nbdist.store.logs import RECORD
from tests.fakes.directories import WrittenRun
from tests.fakes.runs import (
    CREATED,
    STARTED,
    a_spec,
    attempt_started,
    errored,
    exited,
    rank_started,
    run_ended,
    stop_requested,
    supervisor_started,
)

DONE = (exited(0), exited(1), run_ended(RunState.FINISHED))


class Screen:
    """A surface that keeps its updates."""

    def __init__(self) -> None:
        self.views: list[RunView] = []
        self.deltas: list[LogDelta] = []

    def update(self, view: RunView, deltas: list[LogDelta]) -> None:
        self.views.append(view)
        self.deltas += deltas

    @property
    def states(self) -> list[str]:
        """Return each state once, in the order on the screen."""
        return list(dict.fromkeys(view.state for view in self.views))

    def lines(self, rank: int) -> list[str]:
        return [line for delta in self.deltas if delta.rank == rank for line in delta.lines]


@pytest.fixture
def written(tmp_path: Path) -> WrittenRun:
    return WrittenRun(tmp_path / "home")


@pytest.fixture
def screen() -> Screen:
    return Screen()


def follow_while(written: WrittenRun, screen: Screen, *steps: Callable[[], object], **options: Any) -> Run:
    """Follow a run that takes one step between two looks. It must have ended after the last one."""
    ahead = list(steps)
    return follow(
        written.directory,
        screen,
        wait=lambda _: ahead.pop(0)(),
        clock=lambda: CREATED + 20 - len(ahead),
        **options,
    )


def test_a_run_is_followed_from_its_first_event_to_its_last(written: WrittenRun, screen: Screen) -> None:
    run = follow_while(
        written,
        screen,
        lambda: written.happened(*STARTED[:2]),
        lambda: written.happened(*STARTED[2:]),
        lambda: written.happened(stop_requested()),
        lambda: written.happened(
            exited(0, -2, ended=True), exited(1, -2, ended=True), run_ended(RunState.STOPPED)
        ),
    )

    assert run.state is RunState.STOPPED
    assert screen.states == ["pending", "starting", "running", "stopping", "stopped"]
    assert [view.live for view in screen.views] == [True] * 4 + [False]


def test_a_run_that_has_ended_is_shown_once_with_everything(written: WrittenRun, screen: Screen) -> None:
    written.happened(*STARTED, *DONE).printed(0, "one\ntwo").printed(1, "three\n")

    run = follow_while(written, screen)

    assert run.state is RunState.FINISHED
    assert len(screen.views) == 1
    assert (screen.lines(0), screen.lines(1)) == (["one", "two"], ["three"])


def test_lines_of_some_ranks_alone_may_be_shown(written: WrittenRun, screen: Screen) -> None:
    written.happened(*STARTED, *DONE).printed(0, "one\n").printed(1, "two\n")

    follow_while(written, screen, local_ranks=[1])

    assert (screen.lines(0), screen.lines(1)) == ([], ["two"])


def test_lines_come_as_they_are_written(written: WrittenRun, screen: Screen) -> None:
    written.happened(*STARTED)

    follow_while(
        written,
        screen,
        lambda: written.printed(0, "one\ntw"),
        lambda: written.printed(0, "o\n").printed(1, "损".encode()[:1]),
        lambda: written.printed(1, "损".encode()[1:] + b"\n"),
        lambda: written.printed(1, "the end").happened(*DONE),
    )

    assert [(d.rank, d.first, d.lines, d.partial) for d in screen.deltas] == [
        (0, 0, ["one"], "tw"),
        (0, 4, ["two"], ""),
        (1, 0, ["损"], ""),
        (1, 4, ["the end"], ""),
    ]


def test_progress_is_one_line_that_changes(written: WrittenRun, screen: Screen) -> None:
    written.happened(*STARTED)

    follow_while(
        written,
        screen,
        lambda: written.printed(0, "\r 10%"),
        lambda: written.printed(0, "\r 90%"),
        lambda: written.printed(0, "\r100%\n").happened(*DONE),
    )

    assert [(d.lines, d.partial) for d in screen.deltas] == [([], " 10%"), ([], " 90%"), (["100%"], "")]


def test_a_look_without_output_brings_no_delta(written: WrittenRun, screen: Screen) -> None:
    written.happened(*STARTED)

    follow_while(written, screen, lambda: None, lambda: None, lambda: written.happened(*DONE))

    assert len(screen.views) == 4
    assert screen.deltas == []


def test_the_last_line_of_each_rank_stands_in_its_view(written: WrittenRun, screen: Screen) -> None:
    written.happened(*STARTED).printed(0, "step 1\n\n").printed(1, "step 1\nstep 2")

    follow_while(written, screen, lambda: written.happened(*DONE))

    assert [rank.last_line for rank in screen.views[0].ranks] == ["step 1", "step 2"]


def test_a_new_attempt_is_followed_in_its_own_logs(written: WrittenRun, screen: Screen) -> None:
    second = written.directory.rank(0, attempt=2)
    written.happened(*STARTED).printed(0, "first try\n")

    def begin_again() -> None:
        written.happened(exited(0, 1), exited(1, 1), attempt_started(2), rank_started(0), rank_started(1))
        second.path.mkdir()
        second.log.write_text("second try\n")

    follow_while(written, screen, begin_again, lambda: written.happened(*DONE))

    assert screen.lines(0) == ["first try", "—— attempt 2 ——", "second try"]


def test_a_directory_that_disappears_ends_the_following(written: WrittenRun, screen: Screen) -> None:
    written.happened(*STARTED)

    with pytest.raises(UnknownRun, match=r"the directory of run 20261120-141503-lenet-k3f9 was deleted"):
        follow_while(written, screen, lambda: shutil.rmtree(written.directory.path))

    assert screen.states == ["running"]


def test_a_log_that_disappears_is_no_reason_to_stop_looking(written: WrittenRun, screen: Screen) -> None:
    written.happened(*STARTED).printed(0, "one\n").printed(1, "one\n")

    run = follow_while(
        written,
        screen,
        lambda: written.directory.rank(0).log.unlink(),
        lambda: written.printed(1, "two\n").happened(*DONE),
    )

    assert run.state is RunState.FINISHED
    assert (screen.lines(0), screen.lines(1)) == (["one"], ["one", "two"])


@pytest.fixture
def rank(tmp_path: Path) -> RankDirectory:
    return RankDirectory(tmp_path)


def follower(rank: RankDirectory) -> RankFollower:
    return RankFollower(0, rank, created=CREATED)


def numbered(lines: int, *, start: int = 0) -> str:
    """Return lines of 100 bytes."""
    return "".join(f"{number:>99}\n" for number in range(start, start + lines))


def reached(rank: RankDirectory, *records: tuple[float, int]) -> None:
    """Note that the supervisor saw the log at these sizes, so many seconds after the run's creation."""
    with rank.log_times.open("ab") as file:
        file.writelines(RECORD.pack(CREATED + time, size) for time, size in records)


def test_a_rank_that_is_behind_catches_up_look_by_look(rank: RankDirectory) -> None:
    rank.log.write_text(numbered(20_000))
    reader = follower(rank)

    deltas = [delta for _ in range(20) if (delta := reader.read(300_000, CREATED + 5)) is not None]

    assert [int(line) for delta in deltas for line in delta.lines] == list(range(20_000))
    assert [delta.first for delta in deltas] == list(range(0, 2_000_000, 300_000))
    assert [delta.behind for delta in deltas] == [True] * 6 + [False]
    assert not any(delta.skipped for delta in deltas)


def test_what_is_passed_over_is_said_once_and_half_a_line_is_not_joined_to_what_follows(
    rank: RankDirectory,
) -> None:
    rank.log.write_text("one\nhalf a li")
    reader = follower(rank)
    before = reader.read(1000, CREATED + 5)
    rank.log.write_text("one\nhalf a li" + numbered(60_000))

    reader.skip(250_000)
    delta = reader.read(1_000_000, CREATED + 6)
    after = reader.read(1_000_000, CREATED + 7)

    assert before is not None
    assert before.lines == ["one"]
    assert delta is not None
    assert delta.first == 4 + delta.skipped
    assert delta.lines[-1].strip() == "59999"
    assert len(delta.lines) == 2_499
    assert all(len(line) == 99 for line in delta.lines)
    assert delta.first + 100 * len(delta.lines) == rank.log.stat().st_size
    assert after is None


def test_the_last_look_takes_everything_and_the_line_without_an_end(rank: RankDirectory) -> None:
    rank.log.write_text(numbered(20_000) + "the end")
    reader = follower(rank)

    delta = reader.read(1_000, CREATED + 5, final=True)

    assert delta is not None
    assert len(delta.lines) == 20_001
    assert (delta.lines[-1], delta.partial, delta.behind) == ("the end", "", False)
    assert delta.times == ((20_001, 5.0),)
    assert reader.last_line == "the end"


@pytest.mark.parametrize(
    ("records", "times"),
    [
        pytest.param([], ((6, 9.0),), id="no index: the moment of the look"),
        pytest.param([(1.5, 600)], ((6, 1.5),), id="all at once"),
        pytest.param([(1.0, 100), (1.5, 300), (4.0, 600)], ((1, 1.0), (2, 1.5), (3, 4.0)), id="one by one"),
        pytest.param([(1.0, 100), (1.5, 250), (4.0, 600)], ((1, 1.0), (1, 1.5), (4, 4.0)), id="half a line"),
        pytest.param([(1.0, 100), (1.5, 200)], ((1, 1.0), (1, 1.5), (4, 9.0)), id="an index that is late"),
        pytest.param([(3.0, 100), (1.0, 600)], ((6, 3.0),), id="a clock that steps back"),
        pytest.param([(-2.0, 600)], ((6, 0.0),), id="a clock that was wrong at the start"),
    ],
)
def test_lines_have_the_time_at_which_the_log_held_them(
    rank: RankDirectory, records: list[tuple[float, int]], times: tuple[tuple[int, float], ...]
) -> None:
    rank.log.write_text(numbered(6))
    reached(rank, *records)

    delta = follower(rank).read(10_000, CREATED + 9)

    assert delta is not None
    assert delta.times == times


@pytest.mark.parametrize("lines", [1, 3, 17, 40, 41, 1000], ids=lambda lines: f"{lines} lines a record")
@pytest.mark.parametrize("limit", [700, 4_096, 65_536], ids=lambda limit: f"{limit} bytes a look")
def test_a_backlog_has_its_times_however_it_is_read(rank: RankDirectory, lines: int, limit: int) -> None:
    rank.log.write_text(numbered(500))
    reached(rank, *((float(count), count * lines * 100) for count in range(1, 500 // lines + 2)))
    reader = follower(rank)

    deltas = [delta for _ in range(100) if (delta := reader.read(limit, CREATED + 9_999)) is not None]

    written = [time for delta in deltas for count, time in delta.times for _ in range(count)]
    assert written == [float(number // lines + 1) for number in range(500)]
    assert all(sum(count for count, _ in delta.times) == len(delta.lines) for delta in deltas)


def test_a_line_that_is_cut_has_a_time_for_each_piece(rank: RankDirectory) -> None:
    rank.log.write_text("x" * 40_000 + "\nshort\n")
    reached(rank, (1.0, 40_001), (2.0, 40_007))

    delta = follower(rank).read(100_000, CREATED + 9)

    assert delta is not None
    assert [len(line) for line in delta.lines] == [16_384, 16_384, 7_232, 5]
    assert sum(count for count, _ in delta.times) == 4


@pytest.mark.parametrize(
    ("sizes", "room", "each"),
    [
        pytest.param([10, 10], 100, 100, id="all fit"),
        pytest.param([100, 100], 100, 50, id="alike"),
        pytest.param([10, 10, 500, 500], 100, 40, id="what small ones leave is for the large"),
        pytest.param([0, 0, 0, 500], 100, 100, id="one alone"),
        pytest.param([], 100, 100, id="nobody"),
    ],
)
def test_room_is_shared_fairly(sizes: list[int], room: int, each: int) -> None:
    assert level(sizes, room) == each
    assert sum(min(size, each) for size in sizes) <= room


def test_a_backlog_comes_to_the_page_whole_in_messages_of_a_few_megabytes(
    written: WrittenRun, screen: Screen
) -> None:
    written.happened(*STARTED, *DONE)
    written.printed(0, numbered(150_000)).printed(1, numbered(10))
    waits: list[float] = []

    follow(written.directory, screen, room=2**28, wait=waits.append, clock=lambda: CREATED + 20)

    assert [int(line) for line in screen.lines(0)] == list(range(150_000))
    assert not any(delta.skipped for delta in screen.deltas)
    assert max(sum(map(len, delta.lines)) for delta in screen.deltas) <= 4 * 2**20
    assert waits == [0.1] * (len(screen.views) - 1)
    assert len(waits) == 3


def test_a_run_that_goes_on_is_skipped_ahead_only_beyond_the_bound(
    written: WrittenRun, screen: Screen
) -> None:
    written.happened(*STARTED)
    written.printed(0, numbered(110_000)).printed(1, numbered(10))

    follow_while(written, screen, lambda: None, lambda: written.happened(*DONE), room=10_000_000)

    first = next(delta for delta in screen.deltas if delta.rank == 0)
    assert first.skipped == 6_001_100
    assert int(first.lines[0]) == 60_011
    assert int(screen.lines(0)[-1]) == 109_999
    assert len(screen.lines(0)) == 49_989
    assert len(screen.lines(1)) == 10


def test_a_run_that_has_ended_keeps_as_much_as_there_is_room_for(written: WrittenRun, screen: Screen) -> None:
    written.happened(*STARTED, *DONE)
    written.printed(0, numbered(110_000))

    follow(written.directory, screen, room=10_000_000, wait=lambda _: None, clock=lambda: CREATED + 20)

    assert len(screen.lines(0)) == 99_999
    assert sum(delta.skipped for delta in screen.deltas) == 1_000_100


def test_what_nobody_would_see_does_not_hold_up_the_end(written: WrittenRun, screen: Screen) -> None:
    written.happened(*STARTED, *DONE)
    written.printed(0, numbered(110_000) + "the end")

    follow(
        written.directory,
        screen,
        finish=False,
        wait=lambda _: pytest.fail("the run has ended"),
        clock=lambda: CREATED + 20,
    )

    assert screen.lines(0)[-1] == "the end"
    assert len(screen.views) == 1


def test_a_reader_of_the_whole_log_is_never_skipped_ahead_and_waits_only_when_it_has_all(
    written: WrittenRun, screen: Screen
) -> None:
    written.happened(*STARTED).printed(0, numbered(300_000))
    waits: list[int] = []

    def wait(_: float) -> None:
        waits.append(len(screen.lines(0)))
        written.happened(*DONE)

    follow(written.directory, screen, whole=True, wait=wait, clock=lambda: CREATED + 20)

    assert waits == [300_000]
    assert all(delta.skipped == 0 for delta in screen.deltas)


def test_a_whole_log_is_shown_though_the_run_has_long_ended(written: WrittenRun, screen: Screen) -> None:
    written.happened(*STARTED, *DONE).printed(1, numbered(60_000))

    follow(written.directory, screen, whole=True, wait=lambda _: pytest.fail("there is nothing to wait for"))

    assert [int(line) for line in screen.lines(1)] == list(range(60_000))


def test_lines_of_a_run_that_has_ended_are_no_later_than_its_end(written: WrittenRun, screen: Screen) -> None:
    written.happened(*STARTED, *DONE).printed(0, "one\n")

    follow(written.directory, screen, clock=lambda: CREATED + 5_000)

    assert screen.deltas[0].times == ((1, 12.0),)


def test_the_first_failure_is_shown_while_the_others_still_run(written: WrittenRun, screen: Screen) -> None:
    written.happened(*STARTED)
    frames = [(written.spec.program, 4, "load", "raise ValueError(label)")]

    def fail() -> None:
        written.raised(1, "ValueError", "label 10 is out of range", frames=frames)
        written.happened(errored(1))

    follow_while(
        written,
        screen,
        fail,
        lambda: written.happened(exited(1, 1)),
        lambda: written.happened(exited(0, -15, ended=True), run_ended(RunState.FAILED, "rank 1 failed")),
    )

    assert [view.failure is not None for view in screen.views] == [False, True, True, True]
    failure = screen.views[1].failure
    assert failure is not None
    assert (failure.rank, failure.line, failure.message) == (1, 4, "ValueError: label 10 is out of range")
    assert "ValueError" in failure.headline


def test_what_ranks_log_becomes_charts_progress_and_rates(written: WrittenRun, screen: Screen) -> None:
    written.happened(*STARTED)
    charts = Charts(created=CREATED, ranks=(0, 1))

    def logged(rank: int, begin: int, end: int) -> None:
        with written.directory.rank(rank).metrics.open("a") as file:
            for step in range(begin, end):
                point = {"t": CREATED + step, "step": step, "total": 40, "v": {"loss": 1 / (step + 1)}}
                file.write(json.dumps(point) + "\n")

    def measured() -> None:
        with written.directory.rank(0).system.open("a") as file:
            file.write(json.dumps({"t": CREATED + 19, "v": {"memory": 5e8, "cpu": 99.5}}) + "\n")

    follow_while(
        written,
        screen,
        lambda: (logged(0, 0, 20), logged(1, 0, 10), measured()),
        lambda: None,
        lambda: written.happened(*DONE),
        measures=Measures(written.directory, charts),
    )

    assert [chart.tag for chart in charts.all()] == ["loss", "memory", "cpu"]
    view = screen.views[2]
    assert view.progress is not None
    assert (view.progress.fraction, view.progress.text) == (0.25, "step 10/40")
    assert view.ranks[0].rate == pytest.approx(1.0)
    assert (view.ranks[0].memory, view.ranks[0].cpu) == (500_000_000, 99.5)


def test_points_that_a_process_left_behind_goes_on_to_log_are_not_waited_for(
    written: WrittenRun, screen: Screen
) -> None:
    written.happened(*STARTED, *DONE).recorded(0, loss=0.5)
    looks: list[float] = []

    def wait(seconds: float) -> None:
        assert len(looks) < 10, "it never ends"
        looks.append(seconds)
        written.recorded(0, loss=0.5)

    follow(written.directory, screen, wait=wait, clock=lambda: CREATED + 20)

    assert len(looks) <= 2


def test_many_ranks_are_looked_at_for_a_view_once_a_second(tmp_path: Path, screen: Screen) -> None:
    alive = identify(os.getpid())
    assert alive is not None
    written = WrittenRun(tmp_path / "home", a_spec(ranks=40))
    written.happened(supervisor_started(alive), attempt_started(), *(rank_started(r) for r in range(40)))
    now = [CREATED]

    def wait(_: float) -> None:
        now[0] += 0.1
        if now[0] > CREATED + 3:
            written.happened(*(exited(r) for r in range(40)), run_ended(RunState.FINISHED))

    follow(written.directory, screen, wait=wait, clock=lambda: now[0], watch=UsageWatch(tree=lambda _: None))

    different = {id(view) for view in screen.views}
    assert len(screen.views) > 30
    assert len(different) <= 5


def test_an_import_is_named_until_a_line_comes(written: WrittenRun, screen: Screen) -> None:
    files = written.happened(*STARTED).directory.rank(0, 1)
    files.importing.write_text("torch")
    os.utime(files.importing, (CREATED + 4, CREATED + 4))

    def wait(_: float) -> None:
        written.printed(0, "begun\n")
        if len(screen.views) > 1:
            written.happened(*DONE)

    follow(written.directory, screen, wait=wait, clock=lambda: CREATED + 10)

    assert [view.importing for view in screen.views][:2] == ["Importing torch, 6 s", ""]
    assert screen.views[0].importing_zh == "正在导入 torch，6 秒"
