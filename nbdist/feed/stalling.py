"""A stall with its stacks, a wait that nbdist ended, or a slow rank, as screens show them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from nbdist.diagnosis.exits import rank_names, rank_ranges
from nbdist.diagnosis.stack_groups import StackGroup, StackRow
from nbdist.diagnosis.stragglers import Paces, Slow
from nbdist.diagnosis.training import Training
from nbdist.model import RankState, Run, RunState
from nbdist.programs.sources import CodeLocation, Sources, place_of
from nbdist.store import RankDirectory, RunDirectory, read_error
from nbdist.store.metrics import last_points
from nbdist.store.reports import Call, stacks_stamp
from nbdist.text import Both, say

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nbdist.diagnosis.stacks import StackReport

_GROUPS = 8
_ROWS = 24
_THREADS = 12
_SOURCE = 200  # characters


@dataclass(frozen=True, slots=True, kw_only=True)
class StackGroupView:
    """Ranks with the same stack. ``kind``: ``waits`` (for other ranks), ``held`` (others wait for it),
    ``loads`` (waits for its DataLoader), ``problem`` (no stack) or ``is``; ``role``: the words for it."""

    ranks: tuple[int, ...]
    kind: str
    what: str
    line: int | None
    role: str
    role_zh: str
    rows: tuple[StackRow, ...]
    threads: tuple[tuple[StackRow, ...], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StallView:
    """A stall: seconds from the ranks' start to the last sign of progress (``since``) and to the stacks
    (``taken``; None before). ``text`` is a sentence, ``behind`` has lines."""

    since: float
    taken: float | None = None
    text: str = ""
    text_zh: str = ""
    behind: str = ""
    behind_zh: str = ""
    groups: tuple[StackGroupView, ...] = ()

    def sentence(self, language: str) -> str:
        return self.text_zh if language == "zh" else self.text

    def behind_text(self, language: str) -> str:
        return self.behind_zh if language == "zh" else self.behind


def stall_sentence(stall: StallView, elapsed: float, language: str) -> str:
    """Return ``No progress for 60 s: rank 1 is in time.sleep at line 9; …``; ``elapsed`` in seconds."""
    quiet = max(0.0, elapsed - stall.since)
    text = say("panel.no-progress", language, seconds=f"{quiet:.0f}")
    where = stall.sentence(language)
    return f"{text}{say('diagnosis.colon', language)}{where}" if where else text


def hung_lines(stall: StallView, language: str) -> list[str]:
    """Return the ranks' places in a run that was ended while it hung, or at its time limit."""
    zh = language == "zh"
    lines = [say("panel.hung", language) + say("diagnosis.colon", language) + stall.sentence(language)]
    lines += stall.behind_text(language).splitlines()
    for group in stall.groups:
        if not group.rows:
            continue
        name = "进程" if zh else "rank" if len(group.ranks) == 1 else "ranks"
        lines.append(f"  {name} {rank_ranges(group.ranks)}")
        widths = [max(len(part) for part in parts) for parts in zip(*map(_parts, group.rows), strict=True)]
        for row in group.rows:
            cells = "  ".join(f"{part:<{width}}" for part, width in zip(_parts(row), widths, strict=True))
            lines.append(f"    {'▸' if row.here else ' '} {cells}".rstrip())
    return lines


def _parts(row: StackRow) -> tuple[str, str, str]:
    return row.function, row.place, row.source


def held_words(stall: StallView) -> dict[int, tuple[str, str]]:
    """Return by rank the kind and the name of what it does."""
    return {rank: (group.kind, group.what) for group in stall.groups for rank in group.ranks}


class StallReader:
    """The stall of a run, read again when there are new stacks."""

    def __init__(self, directory: RunDirectory) -> None:
        self._directory = directory
        self._seen: object = None
        self._view: StallView | None = None

    def look(self, run: Run) -> StallView | None:
        """Return the stall; after the end, of a run that hung or reached its time limit; else None."""
        if run.stalled is None and not run.timed_out:
            return None
        seen = (run.attempt, run.stalled, stacks_stamp(self._directory))
        if seen != self._seen:
            self._seen, self._view = seen, self._read(run)
        return self._view

    def _read(self, run: Run) -> StallView | None:
        # imported late: it reads programs, and most runs never hang
        from nbdist.diagnosis.stacks import last_stacks

        begun = run.started or run.spec.created
        report = last_stacks(run, self._directory)
        if report is None:
            return None if run.stalled is None else StallView(since=max(0.0, run.stalled - begun))
        return stall_view(report, max(0.0, (run.stalled or report.time) - begun))


def stall_view(report: StackReport, since: float) -> StallView:
    from nbdist.diagnosis.stack_text import behind_text, sentence

    return StallView(
        since=since,
        taken=report.after,
        text=sentence(report),
        text_zh=sentence(report, "zh"),
        behind=behind_text(report),
        behind_zh=behind_text(report, "zh"),
        groups=tuple(_group(group, report) for group in report.groups[:_GROUPS]),
    )


def _group(group: StackGroup, report: StackReport) -> StackGroupView:
    from nbdist.diagnosis.stack_text import role_text

    return StackGroupView(
        ranks=group.ranks,
        kind=_kind(group, report),
        what=group.place.what,
        line=group.place.line,
        role=role_text(group, report),
        role_zh=role_text(group, report, "zh"),
        rows=_rows(group.rows),
        threads=tuple(map(_rows, group.threads[:_THREADS])),
    )


def _kind(group: StackGroup, report: StackReport) -> str:
    if group.problem:
        return "problem"
    if set(group.ranks) <= set(report.behind):
        return "held"
    if group.place.waits:
        return "waits"
    return "loads" if group.place.loads else "is"


def _rows(rows: Sequence[StackRow]) -> tuple[StackRow, ...]:
    return tuple(replace(row, source=row.source[:_SOURCE]) for row in rows[:_ROWS])


def freed_texts(run: Run, directory: RunDirectory) -> tuple[Both, ...]:
    """Return ``rank 0 was waiting in recv at line 5 and was freed``, for waits that nbdist ended."""
    freed = [rank.rank for rank in run.ranks if rank.freed is not None]
    if not freed:
        return ()
    from nbdist.diagnosis.stacks import last_stacks

    sources, report = Sources.of(run, directory), last_stacks(run, directory)
    seen = {rank: group.place for group in (report.groups if report else ()) for rank in group.ranks}
    ranks: dict[CodeLocation, list[int]] = {}
    for rank in freed:
        place, left = seen.get(rank, CodeLocation()), _left_at(directory.rank(rank, run.attempt), sources)
        # the stack may be from before the rank's wait
        if left is not None and (left.file, left.line) != (place.file, place.line):
            place = left
        known = place.waits or place.on_device or place.built_in
        ranks.setdefault(place if known else CodeLocation(), []).append(rank)
    return tuple(_freed(those, place, sources.script) for place, those in ranks.items())


def _left_at(rank: RankDirectory, sources: Sources) -> CodeLocation | None:
    """Return the wait from which a rank raised; None where its traceback has none."""
    report = read_error(rank.error)
    frames = report.frames[::-1] if report is not None else ()
    place = place_of([Call(file=at.file, line=at.line, function=at.function) for at in frames], sources)
    return place if place.waits else None


def _freed(ranks: Sequence[int], place: CodeLocation, script: str) -> Both:
    def words(language: str) -> str:
        where = say("diagnosis.where", language, line=place.line, file=place.file or script)
        where = where if place.line is not None else ""
        who = rank_names(ranks, language)
        return say("panel.freed", language, who=who, ranks=tuple(ranks), what=place.what, where=where)

    return Both(words("en"), words("zh"))


_POINTS_ROOM = 4096
_ONLY_WAITED = 30  # times the others' own time: from here on these only waited


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowView:
    """The slowest rank. ``factor`` is its own time of a step over the median of the others', ``over`` the
    difference in milliseconds (None: not known). Both are rounded, for each change is drawn."""

    rank: int
    factor: float
    over: float | None
    reason: str = ""
    reason_zh: str = ""


def slow_view(
    paces: Paces, run: Run, rates: Mapping[int, float | None], now: float, training: Training | None
) -> SlowView | None:
    """Return None while no rank is clearly slower than the others."""
    running = [rank.rank for rank in run.ranks if rank.state is RankState.RUNNING]
    if run.stalled is not None or len(running) < 2:
        return None
    return _view(paces.slowest(running, rates, now, training))


def ended_slow(run: Run, directory: RunDirectory, training: Training | None = None) -> SlowView | None:
    """Return the rank that held up the others in all steps that are recorded, else towards the end of a run.
    None where none did, where the others only waited for it, or where a rank has failed: the failure is then
    the reason."""
    failed = run.state is RunState.FAILED and not run.timed_out
    if run.stalled is not None or failed or len(run.ranks) < 2:
        return None
    paces, last = Paces(), 0.0
    for rank in run.ranks:
        points = last_points(directory.rank(rank.rank, run.attempt).system, _POINTS_ROOM)
        paces.take(rank.rank, points)
        last = max([last, *(point.time for point in points)])
    slow = paces.slowest([rank.rank for rank in run.ranks], {}, last, training)
    return _view(slow) if slow is None or slow.factor < _ONLY_WAITED else None


def _view(slow: Slow | None) -> SlowView | None:
    if slow is None:
        return None
    over = None if slow.over is None else float(f"{1000 * slow.over:.2g}")
    return SlowView(**asdict(slow) | {"factor": round(slow.factor, 1), "over": over})


def slow_text(slow: SlowView, language: str) -> str:
    """Return ``rank 1 is the slowest: 18 ms a step over the others (1.6 times); it waits for a core …``."""
    reason = slow.reason_zh if language == "zh" else slow.reason
    code = "panel.slow" if slow.over is not None else "panel.slow-times"
    text = say(code, language, rank=slow.rank, over=f"{slow.over or 0:.3g}", factor=f"{slow.factor:.1f}")
    return say("diagnosis.and", language).join(filter(None, (text, reason)))
