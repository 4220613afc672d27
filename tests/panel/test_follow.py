"""Following a run to its end, whatever its directory does meanwhile."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from nbdist.errors import UnknownRun
from nbdist.model import Run, RunState
from nbdist.panel import follow
from nbdist.panel.follow import LogDelta, RankFollower
from nbdist.panel.view import RunView
from nbdist.store import LogStream
from tests.fakes.directories import WrittenRun
from tests.fakes.runs import (
    CREATED,
    STARTED,
    attempt_started,
    exited,
    rank_started,
    run_ended,
    stop_requested,
)

DONE = (exited(0), exited(1), run_ended(RunState.SUCCEEDED))


class Screen:
    """A surface that keeps what it was shown."""

    def __init__(self) -> None:
        self.views: list[RunView] = []
        self.deltas: list[LogDelta] = []

    def update(self, view: RunView, deltas: list[LogDelta]) -> None:
        self.views.append(view)
        self.deltas += deltas

    @property
    def states(self) -> list[str]:
        """Each state once, in the order in which they were shown."""
        return list(dict.fromkeys(view.state for view in self.views))

    def lines(self, rank: int) -> list[str]:
        return [line for delta in self.deltas if delta.rank == rank for line in delta.lines]


@pytest.fixture
def written(tmp_path: Path) -> WrittenRun:
    return WrittenRun(tmp_path / "home")


@pytest.fixture
def screen() -> Screen:
    return Screen()


def follow_while(written: WrittenRun, screen: Screen, *steps: Callable[[], object]) -> Run:
    """Follow a run that takes one step between two looks. It must have ended after the last one."""
    ahead = list(steps)
    return follow(
        written.directory,
        screen,
        wait=lambda _: ahead.pop(0)(),
        clock=lambda: CREATED + 20 - len(ahead),
    )


def test_a_run_is_followed_from_its_first_event_to_its_last(written: WrittenRun, screen: Screen) -> None:
    run = follow_while(
        written,
        screen,
        lambda: written.happened(*STARTED[:2]),
        lambda: written.happened(*STARTED[2:]),
        lambda: written.happened(stop_requested()),
        lambda: written.happened(
            exited(0, -2, ended=True), exited(1, -2, ended=True), run_ended(RunState.CANCELLED)
        ),
    )

    assert run.state is RunState.CANCELLED
    assert screen.states == ["pending", "starting", "running", "stopping", "cancelled"]
    assert [view.live for view in screen.views] == [True] * 4 + [False]


def test_a_run_that_has_ended_is_shown_once_with_everything(written: WrittenRun, screen: Screen) -> None:
    written.happened(*STARTED, *DONE).printed(0, "one\ntwo").printed(1, "three\n")

    run = follow_while(written, screen)

    assert run.state is RunState.SUCCEEDED
    assert len(screen.views) == 1
    assert (screen.lines(0), screen.lines(1)) == (["one", "two"], ["three"])


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
        (0, 0, ("one",), "tw"),
        (0, 1, ("two",), ""),
        (1, 0, ("损",), ""),
        (1, 1, ("the end",), ""),
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

    assert [(d.lines, d.partial) for d in screen.deltas] == [((), " 10%"), ((), " 90%"), (("100%",), "")]


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

    assert run.state is RunState.SUCCEEDED
    assert (screen.lines(0), screen.lines(1)) == (["one"], ["one", "two"])


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


def flood(log: Path, lines: int) -> None:
    """Some 100 bytes a line."""
    with log.open("a") as file:
        file.writelines(f"{number:>98}\n" for number in range(lines))


def test_a_rank_that_writes_too_fast_is_skipped_ahead(log: Path) -> None:
    follower = RankFollower(0, LogStream(log))
    log.write_text("one\ntwo\n")
    before = follower.read()
    flood(log, 60_000)

    delta = follower.read()

    assert before is not None
    assert delta is not None
    assert delta.first == 2
    assert delta.lines[-1].strip() == "59999"
    assert 8 + delta.skipped + sum(len(line) + 1 for line in delta.lines) == log.stat().st_size
    assert len(delta.lines) < 3000


def test_half_a_line_is_not_joined_to_what_comes_after_the_gap(log: Path) -> None:
    follower = RankFollower(0, LogStream(log))
    log.write_text("half a li")
    follower.read()
    flood(log, 60_000)

    delta = follower.read()

    assert delta is not None
    assert all(len(line) == 98 for line in delta.lines)


def test_a_rank_that_is_a_little_behind_catches_up_look_by_look(log: Path) -> None:
    flood(log, 20_000)
    follower = RankFollower(0, LogStream(log))

    deltas = [delta for _ in range(20) if (delta := follower.read()) is not None]

    assert [int(line) for delta in deltas for line in delta.lines] == list(range(20_000))
    assert [delta.first for delta in deltas] == [
        sum(len(earlier.lines) for earlier in deltas[:index]) for index in range(len(deltas))
    ]
    assert sum(delta.skipped for delta in deltas) == 0
    assert len(deltas) > 1


def test_the_last_look_takes_everything_and_the_line_without_an_end(log: Path) -> None:
    flood(log, 20_000)
    with log.open("a") as file:
        file.write("the end")
    follower = RankFollower(0, LogStream(log))

    delta = follower.read(final=True)

    assert delta is not None
    assert len(delta.lines) == 20_001
    assert (delta.lines[-1], delta.partial) == ("the end", "")
    assert follower.last_line == "the end"


def test_a_reader_of_the_whole_log_is_never_skipped_ahead_and_waits_only_when_it_has_all(
    written: WrittenRun, screen: Screen
) -> None:
    written.happened(*STARTED).printed(0, "x" * 79 + "\n")
    for _ in range(60):
        written.printed(0, ("x" * 79 + "\n") * 1_000)
    waits: list[int] = []

    def wait(_: float) -> None:
        waits.append(len(screen.lines(0)))
        written.happened(*DONE)

    follow(written.directory, screen, whole=True, wait=wait, clock=lambda: CREATED + 20)

    assert waits == [60_001]
    assert all(delta.skipped == 0 for delta in screen.deltas)
    assert max(len(delta.lines) for delta in screen.deltas) < 4_000


def test_a_whole_log_is_shown_though_the_run_has_long_ended(written: WrittenRun, screen: Screen) -> None:
    written.happened(*STARTED, *DONE)
    written.printed(1, "".join(f"{number:079}\n" for number in range(60_000)))

    follow(written.directory, screen, whole=True, wait=lambda _: pytest.fail("there is nothing to wait for"))

    assert [int(line) for line in screen.lines(1)] == list(range(60_000))
