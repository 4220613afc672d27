"""The logs of all ranks of a run, read fairly."""

from __future__ import annotations

from collections.abc import Sequence

from nbdist.model import Run
from nbdist.panel.rank_log import LogDelta, RankFollower
from nbdist.store import RunDirectory

LOOK_BYTES = 4 * 1024 * 1024  # of all ranks, in one look


def level(sizes: Sequence[int], room: int) -> int:
    """How much each may take at most, so that all together take no more than ``room``.

    What small ones leave is for the large ones.
    """
    left = room
    for index, size in enumerate(sorted(sizes)):
        share = left // (len(sizes) - index)
        if size > share:
            return share
        left -= size
    return room


class Logs:
    """The logs of all ranks, read fairly and at a pace that a page can keep up with.

    A run that writes faster is skipped ahead once more than ``room`` bytes wait (its logs on disk stay
    whole); None never skips.
    """

    def __init__(self, directory: RunDirectory, room: int | None) -> None:
        self._directory = directory
        self._room = room
        self._attempt = 0
        self._followers: dict[int, RankFollower] = {}
        self.behind = False
        """Whether more is waiting than the last look took."""

    def look(self, run: Run, moment: float, *, last: bool = False, bite: int = LOOK_BYTES) -> list[LogDelta]:
        """What is new in all logs, at most about ``bite`` bytes. ``last`` takes what is left, within what
        is taken in one look."""
        deltas = self._begin_attempt(run, moment) if run.attempt != self._attempt else []
        followers = self._followers.values()
        waiting = {follower.rank: follower.waiting for follower in followers}
        room = LOOK_BYTES if last and self._room is not None else self._room
        if room is not None and sum(waiting.values()) > room:
            # a run that goes on is taken further ahead, or it would have to be so at every look
            keep = level(list(waiting.values()), room if run.state.terminal else room // 2)
            for follower in followers:
                follower.skip(keep)
                waiting[follower.rank] = follower.waiting
        share = level(list(waiting.values()), bite)
        final = run.state.terminal and (last or max(waiting.values(), default=0) <= share)
        self.behind = not final and max(waiting.values(), default=0) > share
        for follower in followers:
            delta = follower.read(max(1, share), moment, final=final)
            if delta is not None:
                deltas.append(delta)
        return deltas

    @property
    def last_lines(self) -> dict[int, str]:
        return {rank: follower.last_line for rank, follower in self._followers.items()}

    def _begin_attempt(self, run: Run, moment: float) -> list[LogDelta]:
        self._attempt = run.attempt
        directories = {rank.rank: self._directory.rank(rank.rank, run.attempt) for rank in run.ranks}
        if not self._followers:
            created = run.spec.created
            self._followers = {
                rank: RankFollower(rank, directory, created=created)
                for rank, directory in directories.items()
            }
            return []
        if self._room is not None:
            keep = level([follower.waiting for follower in self._followers.values()], LOOK_BYTES)
            for follower in self._followers.values():
                follower.skip(keep)
        return [
            follower.go_on(directories[rank], run.attempt, moment)
            for rank, follower in self._followers.items()
        ]
